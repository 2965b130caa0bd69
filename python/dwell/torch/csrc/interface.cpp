// What Python calls: torch.ops.dwell.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "collector.hpp"
#include "composites.hpp"
#include "dispatch_key.hpp"
#include "fallback.hpp"
#include "fast_path.hpp"
#include "host_numbers.hpp"
#include "operation_kernel.hpp"
#include "operations.hpp"

namespace dwell::pytorch {

namespace {

// Whether PyTorch was to run backward passes of the calling thread in threads of its own, before they were kept.
thread_local std::optional<bool> had_backward_threads;

// Backward passes that the calling thread starts run in it from now on, or as before. On a GPU PyTorch hands them to a thread of that
// device, and waking two threads takes longer than some small operations.
void keep_backward(bool keep) {
  c10::AutogradState& state = c10::AutogradState::get_tls_state();
  if (keep && !had_backward_threads) {
    had_backward_threads = state.get_multithreading_enabled();
    state.set_multithreading_enabled(false);
  } else if (!keep && had_backward_threads) {
    state.set_multithreading_enabled(*std::exchange(had_backward_threads, std::nullopt));
  }
}

void include_keys(bool on) {
  c10::impl::tls_set_dispatch_key_included(the_key.key, on);
  if (the_key.above != c10::DispatchKey::Undefined) c10::impl::tls_set_dispatch_key_included(the_key.above, on);
}

// Operations of the calling thread are taken from now on, or no more. Where a mode hands them over, Python enters it.
void take_here(bool on) {
  keep_backward(on);
  if (!the_key.is_of_mode) include_keys(true);
  set_taking(on ? Taking::yes : Taking::no);
}

// The calling thread may have tensors whose results are not there yet: from others that take operations.
void watch() {
  if (the_key.is_of_mode || !c10::impl::tls_is_dispatch_key_included(the_key.key)) take_here(false);
}

// It has none any more. It may be one of the autograd engine's that ran a function of Python's, and work for others that take operations.
void leave() {
  keep_backward(false);
  set_taking(Taking::as_the_key);
  if (!the_key.is_of_mode) include_keys(false);
}

void take_all_operations(torch::Library& library) {
  take_elementwise(library);
  take_rows(library);
  take_layer_norm(library);
  take_products(library);
  take_concatenations(library);
}

// Once, when everything is loaded: operations are taken by that key of the dispatcher's, by any that fits if it has no name. Returns why
// none does: then a mode of Python's is to hand operations over, to those of the same name in `dwell_mode`.
std::string open(const std::string& key) {
  std::string why = choose_key(key);
  const auto library = [](torch::Library::Kind kind, const char* name,
                          c10::DispatchKey key = the_key.key) -> torch::Library& {  // as long as the process
    const auto at = kind == torch::Library::IMPL ? std::optional(key) : std::nullopt;
    return *new torch::Library(kind, name, at, __FILE__, __LINE__);
  };
  if (the_key.is_of_mode) {
    take_all_operations(library(torch::Library::DEF, "dwell_mode"));
    return why;
  }
  torch::Library& aten = library(torch::Library::IMPL, "aten");
  offer_host_numbers();  // ahead of operations that are collected
  take_all_operations(aten);
  pass_or_fall_back(aten, library(torch::Library::IMPL, "_"));
  watch_numbers(library(torch::Library::IMPL, "aten", takes_from_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA));
  // Beside a GPU, nothing is collected of what the host can read.
  if (!takes_from_cpu()) the_key.above = c10::DispatchKey::Undefined;
  if (the_key.above != c10::DispatchKey::Undefined)
    watch_composites(library(torch::Library::IMPL, "aten", the_key.above), library(torch::Library::IMPL, "_", the_key.above));
  open_fast_paths();
  torch::Library& own = library(torch::Library::IMPL, "dwell");
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
    if (name.getNamespace() == "dwell") own.impl(c10::toString(name).c_str(), torch::CppFunction::makeFallthrough());
  return {};
}

// While a call past the dispatcher reads or replaces memory, PyTorch runs at once what the call calls. Returns what the thread did before.
std::int64_t set_aside() {
  const Taking before = taking_now();
  set_taking(Taking::no);
  return static_cast<std::int64_t>(before);
}
void set_back(std::int64_t before) { set_taking(static_cast<Taking>(before)); }

// Makes a tensor the number that Python has written where an operation takes a tensor. Modes are handed it as one, and only PyTorch's own
// operations take it as such from them.
void mark_number(const at::Tensor& tensor) { tensor.unsafeGetTensorImpl()->set_wrapped_number(true); }

std::tuple<std::vector<std::string>, std::vector<std::string>> names_passed() {
  Passed all = passed();
  return {std::move(all.touch_nothing), std::move(all.made_of_others)};
}

// Recordings by number; Python holds each as long as it likes.
struct Recordings {
  std::mutex mutex;
  std::map<std::int64_t, std::pair<Collector*, std::shared_ptr<Recording>>> all;
  std::int64_t next = 1;

  auto of(std::int64_t number) {
    const std::lock_guard lock(mutex);
    return all.at(number);
  }
};
Recordings& recordings() {
  static auto* const all = new Recordings;
  return *all;
}

// The calling thread's operations are recorded from now on.
std::int64_t begin_recording(const std::string& device) {
  if (Recording::mine() != nullptr) throw Error(errc::invalid_argument, "a recording inside of a recording: end the one before it first");
  Collector& collector = Collector::of(c10::Device(device));
  auto made = collector.record();
  made->start();
  const std::lock_guard lock(recordings().mutex);
  recordings().all[recordings().next] = {&collector, std::move(made)};
  return recordings().next++;
}
void end_recording(std::int64_t number) {
  if (is_forked())
    throw Error(errc::unsupported,
                "this process was forked off inside of the block that records: leave the block before, or start a process");
  const auto recording = recordings().of(number).second;
  recording->stop();
  recording->end();
}
void replay(std::int64_t number) {
  const auto [collector, recording] = recordings().of(number);
  collector->replay(*recording);
}
void forget(std::int64_t number) {
  if (is_forked()) return;  // it stays: the thread that would end it is the parent's
  const auto [collector, recording] = recordings().of(number);
  collector->flush(Reason::asked, true);  // it may run
  const std::lock_guard lock(recordings().mutex);
  recordings().all.erase(number);
}

void flush(bool wait) {
  if (is_forked()) return;
  for (Collector* const collector : Collector::all()) collector->flush(Reason::asked, wait);
}

// When the process ends: the compilers and CUDA go then, which threads of the runtimes may be about to use.
void close() {
  take_none();
  for (Collector* const collector : Collector::all()) collector->close();
}

void set_limits(std::int64_t elements, std::int64_t operations, bool resident) {
  limits().elements = elements;
  limits().operations = operations;
  limits().resident = resident;
}

std::vector<std::string> stats() {
  BatchStats ran;
  std::uint64_t taken = 0;
  // A process that was forked off has none of its own.
  for (Collector* const collector : is_forked() ? std::vector<Collector*>() : Collector::all()) {
    const BatchStats some = collector->stats();
    taken += collector->taken();
    ran.tasks += some.tasks;
    ran.programs += some.programs;
    ran.compiled += some.compiled;
  }
  std::vector<std::string> lines{"taken=" + std::to_string(taken), "fast=" + std::to_string(fast_calls()),
                                 "tasks=" + std::to_string(ran.tasks), "programs=" + std::to_string(ran.programs),
                                 "compiled=" + std::to_string(ran.compiled)};
  for (std::size_t i = 0; i < counts().flushed.size(); ++i)
    lines.push_back(std::string("flushed.") + name_of(static_cast<Reason>(i)) + "=" + std::to_string(counts().flushed[i].load()));
  for (const FallenBack& one : fallen_back())
    lines.push_back("fallback." + one.operation + "." + name_of(one.why) + "=" + std::to_string(one.calls));
  return lines;
}

}  // namespace

}  // namespace dwell::pytorch

TORCH_LIBRARY(dwell, m) {
  m.def("open(str key) -> str", &dwell::pytorch::open);
  m.def("take(bool on) -> ()", &dwell::pytorch::take_here);
  m.def("watch() -> ()", &dwell::pytorch::watch);
  m.def("leave() -> ()", &dwell::pytorch::leave);
  m.def("set_aside() -> int", &dwell::pytorch::set_aside);
  m.def("set_back(int before) -> ()", &dwell::pytorch::set_back);
  m.def("begin_forked() -> ()", &dwell::pytorch::begin_forked);
  m.def("flush(bool wait) -> ()", &dwell::pytorch::flush);
  m.def("close() -> ()", &dwell::pytorch::close);
  m.def("set_limits(int elements, int operations, bool resident) -> ()", &dwell::pytorch::set_limits);
  m.def("stats() -> str[]", &dwell::pytorch::stats);
  m.def("mark_number(Tensor tensor) -> ()", &dwell::pytorch::mark_number);
  m.def("passed() -> (str[], str[])", &dwell::pytorch::names_passed);
  m.def("before_fallback(str operation, Tensor[] tensors, int[] places, bool is_mode) -> ()", &dwell::pytorch::before_fallback);
  m.def("after_fallback(Tensor[] results) -> ()", &dwell::pytorch::after_fallback);
  m.def("begin_recording(str device) -> int", &dwell::pytorch::begin_recording);
  m.def("end_recording(int number) -> ()", &dwell::pytorch::end_recording);
  m.def("replay(int number) -> ()", &dwell::pytorch::replay);
  m.def("forget(int number) -> ()", &dwell::pytorch::forget);
  m.def("has_fast_paths() -> bool", &dwell::pytorch::has_fast_paths);
  m.def("use_fast_paths(bool use) -> ()", &dwell::pytorch::use_fast_paths);
}
