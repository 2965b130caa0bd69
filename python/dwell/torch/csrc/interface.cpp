// The functions that Python calls: torch.ops.dwell, and one past PyTorch's dispatcher, which takes longer than a replay.
#if __has_include(<Python.h>)
#include <Python.h>
#define DWELL_HAS_PYTHON 1
#else
#define DWELL_HAS_PYTHON 0
#endif

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
#include "resident_step.hpp"
#include "resident_type.hpp"

namespace dwell::pytorch {

namespace {

// Whether the autograd engine used threads of its own for the calling thread, before keep_backward.
thread_local std::optional<bool> had_backward_threads;

// Has backward passes that the calling thread starts run in that thread, or as before. On a GPU PyTorch runs them in a thread of the
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

// Takes operations of the calling thread from now on, or no more. Python enters the mode, if that passes calls on.
void take_here(bool on) {
  keep_backward(on);
  if (!the_key.is_of_mode) include_keys(true);
  set_taking(on ? Taking::yes : Taking::no);
}

// Has the calling thread flush before it reads tensors: other threads that take operations may pass it some.
void watch() {
  if (the_key.is_of_mode || !c10::impl::tls_is_dispatch_key_included(the_key.key)) take_here(false);
}

// Ends `take` and `watch` for the calling thread. A thread of the autograd engine goes on with the keys of the thread that it works for.
void leave() {
  keep_backward(false);
  set_taking(Taking::as_the_key);
  if (!the_key.is_of_mode) include_keys(false);
}

void take_all_operations(torch::Library& library) {
  take_unary_rows(library);
  take_binary_rows(library);
  take_arithmetic(library);
  take_elementwise(library);
  take_elementwise_backward(library);
  take_rows(library);
  take_layer_norm(library);
  take_products(library);
  take_concatenations(library);
}

// Registers all operations at the dispatch key of this name, or at any that fits if it is empty. Call it once, when everything is loaded.
// Returns an empty string, or why no key fits: then a Python mode passes calls on, to operations of the same name in `dwell_mode`.
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
  offer_host_numbers();  // before paths of operations that are collected
  take_all_operations(aten);
  pass_or_fall_back(aten, library(torch::Library::IMPL, "_"));
  watch_numbers(library(torch::Library::IMPL, "aten", takes_from_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA));
  // On a machine with a GPU no operation on CPU tensors is collected.
  if (!takes_from_cpu()) the_key.above = c10::DispatchKey::Undefined;
  if (the_key.above != c10::DispatchKey::Undefined)
    watch_composites(library(torch::Library::IMPL, "aten", the_key.above), library(torch::Library::IMPL, "_", the_key.above));
  open_fast_paths();
  torch::Library& own = library(torch::Library::IMPL, "dwell");
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
    if (name.getNamespace() == "dwell") own.impl(c10::toString(name).c_str(), torch::CppFunction::makeFallthrough());
  return {};
}

// Takes nothing in the calling thread until resume_taking: a call reads or replaces memory past the dispatcher. Returns the value to pass
// to resume_taking.
std::int64_t pause_taking() {
  const Taking before = taking_now();
  set_taking(Taking::no);
  return static_cast<std::int64_t>(before);
}
void resume_taking(std::int64_t before) { set_taking(static_cast<Taking>(before)); }

// Marks a tensor as a wrapped number: modes get numbers of the program as numbers, where an operation takes a tensor.
void mark_number(const at::Tensor& tensor) { tensor.unsafeGetTensorImpl()->set_wrapped_number(true); }

std::tuple<std::vector<std::string>, std::vector<std::string>> names_passed() {
  Passed all = passed();
  return {std::move(all.touch_nothing), std::move(all.made_of_others)};
}

void set_limits(std::int64_t elements, std::int64_t operations, bool resident) {
  limits().elements = elements;
  limits().operations = operations;
  limits().resident = resident;
}

// Recordings by number, which Python holds.
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

// Records the calling thread's operations from now on.
std::int64_t begin_recording(const std::string& device) {
  if (Recording::mine() != nullptr) throw Error(errc::invalid_argument, "a recording inside of a recording: end the one before it first");
  Collector& collector = Collector::of(c10::Device(device));
  auto made = collector.record();
  made->start();
  const std::lock_guard lock(recordings().mutex);
  recordings().all[recordings().next] = {&collector, std::move(made)};
  return recordings().next++;
}
void add_slices(std::int64_t number, const at::Tensor& memory, const at::Tensor& whole, bool output) {
  if (!element_type_of(whole.scalar_type()))
    throw Error(errc::unsupported, "slices of a recording: dwell has no type " + std::string(c10::toString(whole.scalar_type())));
  recordings().of(number).second->add_slices(memory, whole, output);
}
void end_recording(std::int64_t number, std::int64_t members, std::int64_t steps) {
  if (is_forked())
    throw Error(errc::unsupported,
                "this process was forked off inside of the block that records: leave the block before, or start a process");
  const auto recording = recordings().of(number).second;
  recording->stop();
  recording->end(static_cast<std::uint32_t>(steps));
  if (members >= 0)
    recording->compile(static_cast<std::uint32_t>(members));
  else
    recording->leave_as_tasks();
}
// Waits until the recording is compiled as a whole. Returns an empty string, or why it is not.
std::string wait_compiled(std::int64_t number) {
  const auto recording = recordings().of(number).second;
  recording->wait_compiled();
  return recording->refusal();
}
// Why it will not be; empty if it is, and while nobody knows.
std::string refusal(std::int64_t number) { return recordings().of(number).second->refusal(); }
// Returns whether PyTorch ran operations on tensors while it was made: the recording keeps their results.
bool has_run_beside(std::int64_t number) { return recordings().of(number).second->constants().are_of_tensors(); }
// The text of its program; empty while there is none.
std::string source(std::int64_t number) {
  const auto recording = recordings().of(number).second;
  return recording->whole() != nullptr ? recording->whole()->source() : std::string();
}
std::int64_t members(std::int64_t number) {
  const auto recording = recordings().of(number).second;
  return recording->whole() != nullptr ? recording->whole()->members() : 0;
}
void forget(std::int64_t number) {
  if (is_forked()) return;  // never freed: its thread is the parent's
  const auto [collector, recording] = recordings().of(number);
  collector->flush(FlushReason::asked, true);  // a replay may be in flight
  recording->wait_streams();
  const std::lock_guard lock(recordings().mutex);
  recordings().all.erase(number);
}

void flush(bool wait) {
  if (is_forked()) return;
  for (Collector* const collector : Collector::all()) collector->flush(FlushReason::asked, wait);
}

// Flushes, and takes resident loops off their devices until their next operation: a call that waits for a device waits for them.
// Returns how many there were.
std::int64_t rest() {
  flush(false);
  std::int64_t rested = 0;
  if (is_forked()) return rested;
  for (Collector* const collector : Collector::all()) rested += collector->rest() ? 1 : 0;
  return rested;
}

// Replays a recording. `flushes`: nothing else will, since the caller is in no context.
void replay(std::int64_t number, bool flushes) {
  const auto [collector, recording] = recordings().of(number);
  ResidentStep::pause_steps_of(*recording);
  if (collector->replay(*recording) && flushes) flush(false);
  ResidentStep::note_written(recording->state());
}
#if DWELL_HAS_PYTHON
// Calls `work` without the GIL. Returns None, or null with the exception set.
template <class Work>
PyObject* call_without_gil(Work&& work) {
  std::optional<std::string> failure;
  PyThreadState* const python = PyEval_SaveThread();
  try {
    work();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  PyEval_RestoreThread(python);
  if (!failure) Py_RETURN_NONE;
  PyErr_SetString(PyExc_RuntimeError, failure->c_str());
  return nullptr;
}

// `replay`, called by Python itself.
PyObject* replay_from_python(PyObject* /*self*/, PyObject* const* given, Py_ssize_t count) {
  if (count != 2) return PyErr_Format(PyExc_TypeError, "replay takes 2 arguments, not %zd", count);
  const long long number = PyLong_AsLongLong(given[0]);
  if (number == -1 && PyErr_Occurred() != nullptr) return nullptr;
  const bool flushes = given[1] == Py_True;
  return call_without_gil([&] { replay(number, flushes); });
}

// `flush` without a wait, called by Python itself. Sync points call it; mostly nothing is collected.
PyObject* flush_from_python(PyObject* /*self*/, PyObject* /*unused*/) {
  if (!Collector::any_pending()) Py_RETURN_NONE;
  return call_without_gil([] { flush(false); });
}

// Begins a context: enter(elements, operations, resident) sets limits and takes operations.
PyObject* enter_from_python(PyObject* /*self*/, PyObject* const* given, Py_ssize_t count) {
  if (count != 3) return PyErr_Format(PyExc_TypeError, "enter takes 3 arguments, not %zd", count);
  const long long elements = PyLong_AsLongLong(given[0]);
  const long long operations = PyLong_AsLongLong(given[1]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  set_limits(elements, operations, given[2] == Py_True);
  take_here(true);
  Py_RETURN_NONE;
}

// Ends one: leave(elements, operations, resident, is_last, watches) sets the limits that held before, and behind the last context of the
// thread takes nothing more and flushes.
PyObject* leave_from_python(PyObject* /*self*/, PyObject* const* given, Py_ssize_t count) {
  if (count != 5) return PyErr_Format(PyExc_TypeError, "leave takes 5 arguments, not %zd", count);
  const long long elements = PyLong_AsLongLong(given[0]);
  const long long operations = PyLong_AsLongLong(given[1]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  set_limits(elements, operations, given[2] == Py_True);
  if (given[3] != Py_True) Py_RETURN_NONE;
  if (given[4] == Py_True)
    take_here(false);
  else
    leave();
  return flush_from_python(nullptr, nullptr);
}

// `rest`, called by Python itself.
PyObject* rest_from_python(PyObject* /*self*/, PyObject* /*unused*/) {
  if (!Collector::any_pending() && !Collector::any_resident()) Py_RETURN_NONE;
  return call_without_gil([] { static_cast<void>(rest()); });
}
#endif

// Closes all collectors before the process ends: threads of the runtimes must not use compilers and CUDA after that.
void close() {
  take_none();
  std::map<std::int64_t, std::pair<Collector*, std::shared_ptr<Recording>>> recorded;
  {
    const std::lock_guard lock(recordings().mutex);
    recorded = recordings().all;
  }
  Recording::wait_orphans();
  ResidentStep::pause_all();
  for (const auto& [number, recording] : recorded) {
    recording.second->wait_compiled();
    try {
      recording.second->wait_streams();
    } catch (const std::exception&) {  // the process ends
    }
  }
  for (Collector* const collector : Collector::all()) collector->close();
}

void set_capturing(bool on) { captures_here = on; }

std::vector<std::string> stats() {
  BatchStats ran;
  std::uint64_t taken = 0;
  // A forked child has no collector of its own.
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
    lines.push_back(std::string("flushed.") + name_of(static_cast<FlushReason>(i)) + "=" + std::to_string(counts().flushed[i].load()));
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
  m.def("pause_taking() -> int", &dwell::pytorch::pause_taking);
  m.def("resume_taking(int before) -> ()", &dwell::pytorch::resume_taking);
  m.def("begin_forked() -> ()", &dwell::pytorch::begin_forked);
  m.def("flush(bool wait) -> ()", &dwell::pytorch::flush);
  m.def("rest() -> int", &dwell::pytorch::rest);
  m.def("close() -> ()", &dwell::pytorch::close);
  m.def("set_capturing(bool on) -> ()", &dwell::pytorch::set_capturing);
  m.def("set_limits(int elements, int operations, bool resident) -> ()", &dwell::pytorch::set_limits);
  m.def("stats() -> str[]", &dwell::pytorch::stats);
  m.def("mark_number(Tensor tensor) -> ()", &dwell::pytorch::mark_number);
  m.def("passed() -> (str[], str[])", &dwell::pytorch::names_passed);
  m.def("before_fallback(str operation, Tensor[] tensors, int[] places, bool is_mode) -> ()", &dwell::pytorch::before_fallback);
  m.def("after_fallback(Tensor[] results) -> ()", &dwell::pytorch::after_fallback);
  m.def("begin_recording(str device) -> int", &dwell::pytorch::begin_recording);
  m.def("add_slices(int number, Tensor memory, Tensor whole, bool output) -> ()", &dwell::pytorch::add_slices);
  m.def("end_recording(int number, int members, int steps) -> ()", &dwell::pytorch::end_recording);
  m.def("replay(int number, bool flushes) -> ()", &dwell::pytorch::replay);
  m.def("wait_compiled(int number) -> str", &dwell::pytorch::wait_compiled);
  m.def("refusal_of(int number) -> str", &dwell::pytorch::refusal);
  m.def("has_run_beside(int number) -> bool", &dwell::pytorch::has_run_beside);
  m.def("source_of(int number) -> str", &dwell::pytorch::source);
  m.def("members_of(int number) -> int", &dwell::pytorch::members);
  m.def("forget(int number) -> ()", &dwell::pytorch::forget);
  m.def("has_fast_paths() -> bool", &dwell::pytorch::has_fast_paths);
  m.def("use_fast_paths(bool use) -> ()", &dwell::pytorch::use_fast_paths);
}

#if DWELL_HAS_PYTHON
// Functions for Python, past the dispatcher: new references.
#define DWELL_TORCH_FUNCTION(name, flags)                                                                                                  \
  extern "C" C10_EXPORT PyObject* dwell_torch_##name() {                                                                                   \
    static PyMethodDef definition{#name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&dwell::pytorch::name##_from_python)), \
                                  flags, nullptr};                                                                                         \
    return PyCFunction_New(&definition, nullptr);                                                                                          \
  }
DWELL_TORCH_FUNCTION(replay, METH_FASTCALL)
DWELL_TORCH_FUNCTION(flush, METH_NOARGS)
DWELL_TORCH_FUNCTION(enter, METH_FASTCALL)
DWELL_TORCH_FUNCTION(leave, METH_FASTCALL)
DWELL_TORCH_FUNCTION(rest, METH_NOARGS)
#undef DWELL_TORCH_FUNCTION

// The type of resident steps, as dwell::pytorch::step_type.
extern "C" C10_EXPORT PyObject* dwell_torch_step_type(PyObject* base) {
  return dwell::pytorch::step_type([](std::int64_t number) { return dwell::pytorch::recordings().of(number); }, base);
}
#endif
