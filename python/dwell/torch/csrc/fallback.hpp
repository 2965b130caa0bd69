// Operations that are not taken.
#pragma once

#include <ATen/ATen.h>
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

#include "why.hpp"

namespace dwell::pytorch {

// Whether operations of this thread are taken: those of the autograd engine's threads as those of the one that started the backward pass.
bool takes();
// Whether the calling thread itself is in a context that takes operations.
bool takes_here();
// None are from now on.
void take_none();
// The same in a process that was forked off: the threads that would run them are not there, and another may have held a lock of a
// collector's or a recording's, so these are touched no more. What other threads had collected is lost there.
void begin_forked();
bool is_forked();
enum class Taking : std::uint8_t {
  as_the_key,  // where the key is on: a thread of the autograd engine gets its keys from the thread that started the pass, and nothing else
  yes,
  no,
};
// Of this thread, from now on.
void set_taking(Taking now);
Taking taking_now();
// Operations that touch no element, and such that are made of others, with which the same is done as with any. Not those that are taken.
struct Passed {
  std::vector<std::string> touch_nothing;
  std::vector<std::string> made_of_others;
};
Passed passed();
// Registers what happens to all operations that `aten` takes none of. Called once, behind those that take some.
void pass_or_fall_back(torch::Library& aten, torch::Library& any);
// Whether an operation gives nothing but views of arguments.
bool only_views(const c10::FunctionSchema& schema);
// For a mode of Python's: what is to be done before PyTorch runs an operation on these tensors, and behind it. `places`: of which argument
// each is. `is_mode`: another mode or a class of tensors is to see it.
void before_fallback(const std::string& operation, at::TensorList tensors, const std::vector<std::int64_t>& places, bool is_mode);
void after_fallback(at::TensorList results);

// Has a kernel of PyTorch's do a call, and once more where it has touched elements that are not computed yet, which nobody could tell
// before: behind all that was collected, and with nothing taken meanwhile. `keys`: those of the kernel.
void redispatch_behind(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
// Runs what was collected if it has to do with these tensors, for the operation of that name. Throws where they were recorded.
void flush_for(const at::Tensor& tensor, const char* operation);
void flush_for(const c10::Storage& storage, const char* operation);
void flush_for(const std::optional<at::Tensor>& tensor, const char* operation);
void flush_for(at::TensorList tensors, const char* operation);
void flush_for(const at::ITensorListRef& tensors, const char* operation);
template <class T>
void flush_for(const T&, const char*) {}

// While PyTorch runs a call: what it has put on a stream is nothing that a resident loop knows of.
struct Elsewhere {
  Elsewhere() = default;
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;
  ~Elsewhere();
};
// Calls of an operation that PyTorch ran, by the reason.
struct Fallbacks {
  std::array<std::atomic<std::int64_t>, static_cast<std::size_t>(Why::kWhys)> calls{};

  void count(Why why) { calls[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed); }
};
Fallbacks& fallbacks_of(const char* name, const char* overload);
// All that are not 0.
struct FallenBack {
  std::string operation;
  Why why;
  std::int64_t calls;
};
std::vector<FallenBack> fallen_back();
// Why a call with these keys below ours is not for dwell.
Why why_not_taken(c10::DispatchKeySet keys);

}  // namespace dwell::pytorch
