// What Python calls: torch.ops.dwell.
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include <dwell/error.hpp>

#include "collector.hpp"
#include "fallback.hpp"
#include "fast_path.hpp"

namespace dwell::pytorch {

namespace {

// Operations of the calling thread are taken from now on, or no more.
void take_here(bool on) {
  c10::impl::tls_set_dispatch_key_included(kKey, true);
  set_taking(on ? Taking::yes : Taking::no);
}

// The calling thread may have tensors whose results are not there yet: from others that take operations.
void watch() {
  if (!c10::impl::tls_is_dispatch_key_included(kKey)) take_here(false);
}

// It has none any more. It may be one of the autograd engine's that ran a function of Python's, and work for others that take operations.
void leave() {
  set_taking(Taking::as_the_key);
  c10::impl::tls_set_dispatch_key_included(kKey, false);
}

// Once, when everything is loaded.
void open() {
  static auto* const passes = new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  pass_what_touches_nothing(*passes);
  open_fast_paths();
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
  const auto recording = recordings().of(number).second;
  recording->stop();
  recording->end();
}
void replay(std::int64_t number) {
  const auto [collector, recording] = recordings().of(number);
  collector->replay(*recording);
}
void forget(std::int64_t number) {
  const auto [collector, recording] = recordings().of(number);
  collector->flush(Reason::asked, true);  // it may run
  const std::lock_guard lock(recordings().mutex);
  recordings().all.erase(number);
}

void flush(bool wait) {
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
  for (Collector* const collector : Collector::all()) {
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
  for (const auto& [name, calls] : fallen_back()) lines.push_back("fallback." + name + "=" + std::to_string(calls));
  return lines;
}

}  // namespace

}  // namespace dwell::pytorch

TORCH_LIBRARY(dwell, m) {
  m.def("open() -> ()", &dwell::pytorch::open);
  m.def("take(bool on) -> ()", &dwell::pytorch::take_here);
  m.def("watch() -> ()", &dwell::pytorch::watch);
  m.def("leave() -> ()", &dwell::pytorch::leave);
  m.def("take_none() -> ()", &dwell::pytorch::take_none);
  m.def("flush(bool wait) -> ()", &dwell::pytorch::flush);
  m.def("close() -> ()", &dwell::pytorch::close);
  m.def("set_limits(int elements, int operations, bool resident) -> ()", &dwell::pytorch::set_limits);
  m.def("stats() -> str[]", &dwell::pytorch::stats);
  m.def("begin_recording(str device) -> int", &dwell::pytorch::begin_recording);
  m.def("end_recording(int number) -> ()", &dwell::pytorch::end_recording);
  m.def("replay(int number) -> ()", &dwell::pytorch::replay);
  m.def("forget(int number) -> ()", &dwell::pytorch::forget);
  m.def("use_fast_paths(bool use) -> ()", &dwell::pytorch::use_fast_paths);
}
TORCH_LIBRARY_IMPL(dwell, Fake, m) {
  for (const char* const name : {"open", "take", "watch", "leave", "take_none", "flush", "close", "set_limits", "stats", "begin_recording",
                                 "end_recording", "replay", "forget", "use_fast_paths"})
    m.impl(name, torch::CppFunction::makeFallthrough());
}
