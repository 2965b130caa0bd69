// Operations that dwell does not take: PyTorch runs them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKeySet.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fallback_reason.hpp"

namespace dwell::pytorch {

// Whether operations of the calling thread are taken. A thread of the autograd engine does as the thread that started the backward pass.
bool takes();
// Returns whether the calling thread itself is inside a context that takes operations.
bool takes_here();
// Takes no operations from now on, in any thread.
void take_none();
// Call in a forked child: it has no threads to run operations, and another thread of the parent may have held a lock of a collector or a
// recording. Takes no operations and uses no collector from now on; operations that other threads had collected are lost.
void begin_forked();
bool is_forked();
enum class Taking : std::uint8_t {
  as_the_key,  // if the dispatch key is on: the autograd engine passes keys on to its threads, and nothing else
  yes,
  no,
};
// Sets it for the calling thread.
void set_taking(Taking now);
Taking taking_now();
// Operations that need no flush: `touch_nothing` access no elements, `made_of_others` call other operations, which are handled themselves.
// Without those that are taken.
struct Passed {
  std::vector<std::string> touch_nothing;
  std::vector<std::string> made_of_others;
};
Passed passed();
// Registers kernels for all operations that are not taken. Called once, after those that are taken have been registered.
void pass_or_fall_back(torch::Library& aten, torch::Library& any);
// Returns whether an operation only returns views of arguments.
bool only_views(const c10::FunctionSchema& schema);
// For the Python mode: call before and after PyTorch runs an operation on these tensors. `places`: the argument that each is part of.
// `is_mode`: another mode or a tensor subclass handles the operation.
void before_fallback(const std::string& operation, at::TensorList tensors, const std::vector<std::int64_t>& places, bool is_mode);
void after_fallback(at::TensorList results);

// Runs a call by PyTorch's kernel, whose keys are `keys`. If the kernel hits the guard of elements that are not computed yet, flushes all
// collectors and runs it again, taking nothing meanwhile.
void redispatch_behind(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
// Flushes if collected operations name these tensors, before the operation of that name. Throws if they are part of a recording.
void flush_for(const at::Tensor& tensor, const char* operation);
void flush_for(const c10::Storage& storage, const char* operation);
void flush_for(const std::optional<at::Tensor>& tensor, const char* operation);
void flush_for(at::TensorList tensors, const char* operation);
void flush_for(const at::ITensorListRef& tensors, const char* operation);
template <class T>
void flush_for(const T&, const char*) {}

// Counts a call that PyTorch runs, when it ends: the resident loop must wait for what the call put on a stream.
struct CountedFallback {
  CountedFallback() = default;
  CountedFallback(const CountedFallback&) = delete;
  CountedFallback& operator=(const CountedFallback&) = delete;
  ~CountedFallback();
};
// Counts calls of an operation that PyTorch ran, by reason.
struct Fallbacks {
  std::array<std::atomic<std::int64_t>, static_cast<std::size_t>(FallbackReason::kReasons)> calls{};

  void count(FallbackReason why) { calls[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed); }
};
Fallbacks& fallbacks_of(const char* name, const char* overload);
// Returns all counts that are not 0.
struct FallenBack {
  std::string operation;
  FallbackReason why;
  std::int64_t calls;
};
std::vector<FallenBack> fallen_back();
// Why a call with these keys, those below ours, is not taken.
FallbackReason reason_not_taken(c10::DispatchKeySet keys);

}  // namespace dwell::pytorch
