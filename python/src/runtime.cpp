// Runtime, Operator, Ticket.
#include <dlfcn.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <stop_token>

#include "array.hpp"
#include "batch.hpp"
#include "bind.hpp"
#include "errors.hpp"
#include "log.hpp"

namespace dwell::python {

using namespace nb::literals;

// ---- Ticket ----------------------------------------------------------------------------------------------------------------------

namespace {

[[noreturn]] void raise_for(const Ticket& ticket, const Error& error) {
  raise(error, error.kind() == errc::task_failed ? std::optional(ticket.status()) : std::nullopt);
}

}  // namespace

bool wait(const Receipt& self, std::optional<double> timeout) {
  require_epoch(self.epoch, "the ticket");
  try {
    return wait_in_slices(timeout ? std::max(*timeout, 0.0) : -1.0,
                          [&](std::chrono::nanoseconds slice) { return self.ticket.wait_for(slice); });
  } catch (const Error& error) {
    raise_for(self.ticket, error);
  }
}

namespace {

int status(const Receipt& self) {
  require_epoch(self.epoch, "the ticket");
  if (!self.ticket.done()) {
    // Failures are its result, a stall is none.
    try {
      wait_in_slices(-1.0, [&](std::chrono::nanoseconds slice) { return self.ticket.wait_for(slice); });
    } catch (const Error& error) {
      if (error.kind() == errc::stalled) raise(error);
    }
  }
  return self.ticket.status();
}

// Calls `f` with the ticket on a thread of the runtime.
void add_done_callback(const Receipt& self, nb::object f) {
  require_epoch(self.epoch, "the ticket");
  const auto call = [held = Shared(std::move(f)), epoch = self.epoch](const Ticket& ticket) {
    const CallbackScope scope;
    if (!scope.entered() || held.get() == nullptr) return;
    PyObject* const argument = nb::cast(Receipt{ticket, epoch}).release().ptr();
    PyObject* const result = PyObject_CallOneArg(held.get(), argument);
    Py_DECREF(argument);
    if (result == nullptr)
      PyErr_WriteUnraisable(held.get());
    else
      Py_DECREF(result);
  };
  const Unlocked unlocked;
  self.ticket.then(call);
}

// Tells an event loop which of its tickets are complete: an eventfd that the loop watches, and the numbers of those tickets. Threads of the
// runtime touch no Python object for it.
class Waker {
 public:
  Waker() : state_(std::make_shared<State>()) {
    if (state_->fd < 0) throw Error(errc::out_of_memory, "no file descriptor for an eventfd can be had", {"file", ""});
  }
  int fileno() const { return state_->fd; }
  void watch(const Receipt& receipt, std::uint64_t key) {
    require_epoch(receipt.epoch, "the ticket");
    const Unlocked unlocked;
    receipt.ticket.then([state = state_, key](const Ticket&) {
      {
        const std::lock_guard lock(state->mutex);
        state->ready.push_back(key);
      }
      const std::uint64_t one = 1;
      while (write(state->fd, &one, sizeof one) < 0 && errno == EINTR) {}
    });
  }
  std::vector<std::uint64_t> take() {
    std::uint64_t count = 0;
    while (read(state_->fd, &count, sizeof count) < 0 && errno == EINTR) {}
    const std::lock_guard lock(state_->mutex);
    return std::exchange(state_->ready, {});
  }

 private:
  struct State {
    std::mutex mutex;
    std::vector<std::uint64_t> ready;
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
      if (fd >= 0) close(fd);
    }
  };
  std::shared_ptr<State> state_;
};

// ---- Operator --------------------------------------------------------------------------------------------------------------------

// Where a text of source comes from.
Source source_from(std::string text, const std::optional<std::string>& file, int line) {
  return {std::move(text), file.value_or(""), line};
}

nb::module_ futures() { return nb::module_::import_("dwell._futures"); }

// Calls done(result, exception) with the GIL, on a thread of the runtime.
template <class Result, class Make>
std::function<void(const std::shared_future<Result>&)> reporting(nb::object done, Make make) {
  return [held = Shared(std::move(done)), make](const std::shared_future<Result>& future) {
    const CallbackScope scope;
    if (!scope.entered() || held.get() == nullptr) return;
    try {
      nb::object result = nb::none();
      nb::object error = nb::none();
      try {
        result = make(future);
      } catch (...) {
        error = exception_for(std::current_exception());
      }
      nb::borrow(held.get())(result, error);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable(nb::borrow(held.get()));
    }
  };
}

std::string text_of(const Handle& self) {
  std::string text = "<dwell.Operator " + self.op.name() + self.op.signature().text();
  try {
    text += ", version " + std::to_string(self.op.version()) + " of " + std::to_string(self.op.versions());
  } catch (const Error&) {
    text += ", of a runtime that is closed";
  }
  return text + ">";
}

void redefine(const Handle& self, std::string source, const std::optional<CompileOptions>& options, const std::optional<std::string>& file,
              int line) {
  self.runtime->get();
  Operator<> op = self.op;
  const Source from = source_from(std::move(source), file, line);
  const Unlocked unlocked;
  if (options)
    op.redefine(from, *options);
  else
    op.redefine(from);
}

// A stop that may be asked for.
struct Stop {
  std::stop_source source;
};

nb::object redefine_async(const Handle& self, std::string source, const std::optional<CompileOptions>& options,
                          const std::optional<std::string>& file, int line) {
  self.runtime->get();
  const Stop stop;
  nb::object future = futures().attr("Pending")(nb::cast(stop));
  Async<void> async{reporting<void>(future.attr("_done"),
                                    [](const std::shared_future<void>& ended) {
                                      ended.get();
                                      return nb::none();
                                    }),
                    stop.source.get_token()};
  Operator<> op = self.op;
  const Source from = source_from(std::move(source), file, line);
  const Unlocked unlocked;
  if (options)
    op.redefine_async(from, *options, std::move(async));
  else
    op.redefine_async(from, std::move(async));
  return future;
}

// ---- Runtime ---------------------------------------------------------------------------------------------------------------------

struct PyRuntime {
  State state;
};

}  // namespace

const State& state_of(nb::handle runtime) {
  const auto& found = nb::cast<const PyRuntime&>(runtime);
  run_posted();
  static_cast<void>(found.state->get());
  return found.state;
}

nb::object runtime_object(const State& runtime) { return nb::cast(PyRuntime{runtime}); }

namespace {

std::function<void(std::string_view)> warning(const Shared& warn) {
  // By default the logger `dwell` gets them.
  return [held = warn](std::string_view line) {
    post([held, text = std::string(line)] {
      try {
        if (held.get() == nullptr) return;
        if (held.get() == Py_None)
          nb::module_::import_("logging").attr("getLogger")("dwell").attr("warning")("%s", nb::str(text.c_str()));
        else
          nb::borrow(held.get())(nb::str(text.c_str()));
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("Runtime(warn=...)");
      }
    });
  };
}

std::optional<Priorities> priorities_from(nb::handle object) {
  if (object.is_none() || object.ptr() == Py_False) return std::nullopt;
  Priorities made;
  if (object.ptr() == Py_True) return made;
  const auto order = [](nb::handle one) {
    const std::string text = nb::cast<std::string>(nb::str(one));
    if (text == "fifo") return QueueOrder::fifo;
    if (text == "lifo") return QueueOrder::lifo;
    throw Error(errc::invalid_argument, "priorities: an order is \"fifo\" or \"lifo\", not " + text, {"argument", "priorities"});
  };
  if (PyUnicode_Check(object.ptr())) {
    made.order.fill(order(object));
    return made;
  }
  const nb::tuple list{nb::borrow(object)};
  if (list.size() != made.order.size())
    throw Error(errc::invalid_argument, "priorities takes True, \"fifo\", \"lifo\", or eight of these, the least urgent first",
                {"argument", "priorities", list.size(), made.order.size()});
  for (std::size_t i = 0; i < made.order.size(); ++i) made.order[i] = order(list[i]);
  return made;
}

// NVIDIA's compilers from PyPI, for the library that looks for them by their names: packages lie where no loader looks. A folder that the
// user has set comes first, as ever.
void open_packaged_compilers() {
  static bool done = false;
  const char* const set = std::getenv("DWELL_CUDA_PATH");
  if (std::exchange(done, true) || (set != nullptr && *set != 0)) return;
  for (const nb::handle entry : nb::borrow(PySys_GetObject("path"))) {
    if (!nb::isinstance<nb::str>(entry)) continue;
    const std::string folder = nb::cast<std::string>(entry) + "/nvidia/cu13/lib/";
    bool found = true;
    for (const char* const name : {"libnvJitLink.so.13", "libnvrtc.so.13"})
      if (access((folder + name).c_str(), R_OK) != 0) found = false;
    if (!found) continue;
    // They stay open. One that does not open is the library's to report.
    for (const char* const name : {"libnvJitLink.so.13", "libnvrtc.so.13"})
      static_cast<void>(dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL));
    return;
  }
}

void make_runtime(PyRuntime* self, std::string device, unsigned workers, double lease, double idle, double task_timeout,
                  double stall_timeout, unsigned ring_slots, unsigned spawned_tasks, unsigned scratch_bytes, nb::handle priorities,
                  const std::optional<CompileOptions>& compile, unsigned compile_threads, const std::optional<std::string>& tier,
                  const std::optional<Limits>& limits, std::uint32_t compile_programs_after, std::string_view metrics, bool live,
                  nb::handle log, nb::object warn) {
  Options options;
  options.device = std::move(device);
  options.workers = workers;
  options.lease = nanoseconds_from(lease, "lease");
  options.idle = nanoseconds_from(idle, "idle");
  options.task_timeout = nanoseconds_from(task_timeout, "task_timeout");
  options.stall_timeout = nanoseconds_from(stall_timeout, "stall_timeout");
  options.ring_slots = ring_slots;
  options.spawned_tasks = spawned_tasks;
  options.scratch_bytes = scratch_bytes;
  options.priorities = priorities_from(priorities);
  if (compile) options.compile = *compile;
  options.compile_threads = compile_threads;
  if (tier) {
    if (*tier != "relocatable" && *tier != "lto")
      throw Error(errc::invalid_argument, "tier is \"relocatable\", \"lto\" or None, not \"" + *tier + "\"", {"argument", "tier"});
    options.tier = *tier == "lto" ? Tier::lto : Tier::relocatable;
  }
  if (limits) options.limits = *limits;
  options.compile_programs_after = compile_programs_after;
  options.metrics = metering_from(metrics);
  options.live = live;
  LogTarget lines = log_target_from(log);
  options.log = std::move(lines.logging);
  const Shared warned(std::move(warn));
  options.warn = warning(warned);
  if (options.device != "cpu") open_packaged_compilers();
  new (self) PyRuntime{open_runtime(std::move(options), {std::move(lines.called), warned})};
}

Runtime& runtime_of(const PyRuntime& self) {
  run_posted();
  return self.state->get();
}

Handle define(const PyRuntime& self, const std::string& name, std::string source, std::vector<std::string> instances,
              std::optional<CompileOptions> options, const std::optional<std::string>& file, int line) {
  Runtime& runtime = runtime_of(self);
  const Source from = source_from(std::move(source), file, line);
  const Definition how{std::move(instances), std::move(options)};
  const Unlocked unlocked;
  return {runtime.define(name, from, how), self.state};
}

nb::object define_async(const PyRuntime& self, const std::string& name, std::string source, std::vector<std::string> instances,
                        std::optional<CompileOptions> options, const std::optional<std::string>& file, int line) {
  Runtime& runtime = runtime_of(self);
  const Source from = source_from(std::move(source), file, line);
  const Definition how{std::move(instances), std::move(options)};
  const Stop stop;
  nb::object future = futures().attr("Pending")(nb::cast(stop));
  // Weak: a runtime that is dropped calls definitions off.
  Async<Operator<>> async{reporting<Operator<>>(future.attr("_done"),
                                                [state = std::weak_ptr(self.state)](const std::shared_future<Operator<>>& ended) {
                                                  Operator<> op = ended.get();
                                                  State open = state.lock();
                                                  if (!open) throw Error(errc::closed, "the runtime is closed");
                                                  return nb::cast(Handle{std::move(op), std::move(open)});
                                                }),
                          stop.source.get_token()};
  const Unlocked unlocked;
  runtime.define_async(name, from, how, std::move(async));
  return future;
}

// What has been collected of arrays' operations is submitted: it may write to memory of others.
void submit_arrays(const PyRuntime& self) {
  if (const auto collector = Collector::known(self.state)) collector->submit_collected();
}

void close(const PyRuntime& self, bool now) {
  self.state->get();
  try {
    if (!now) submit_arrays(self);
  } catch (const Error& error) {
    if (error.kind() != errc::closed) throw;
  }
  {
    const Unlocked unlocked;
    self.state->get().close(now ? Close::now : Close::when_done);
  }
  run_posted();
  // Nobody calls them any more, and they may lead back to the runtime.
  for (Shared& callback : self.state->callbacks()) callback.clear();
}

// A callback that leads back to the runtime is seen by the collector of cycles as long as this object alone keeps the runtime: others, and
// tasks under way, cannot be told from objects outside of the cycle.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const State& state = nb::inst_ptr<PyRuntime>(self)->state;
  if (state.use_count() != 1) return 0;
  for (const Shared& callback : state->callbacks()) Py_VISIT(callback.get());
  return 0;
}

int clear(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;
  for (Shared& callback : nb::inst_ptr<PyRuntime>(self)->state->callbacks()) callback.clear();
  return 0;
}

PyType_Slot runtime_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

Receipt submit_packed(Runtime& runtime, const Handle& op, Packed& packed) {
  if (Kept* const kept = captured()) kept->insert(kept->end(), packed.kept.begin(), packed.kept.end());
  // The GIL is only let go of when the ring is full: letting go costs as much as a submission.
  if (const auto ticket = runtime.try_submit(op.op, packed.arguments)) return {*ticket};
  const Unlocked unlocked;
  return {runtime.submit(op.op, packed.arguments)};
}

Receipt submit_many(const PyRuntime& self, const Handle& op, const nb::iterable& rows, const Modifiers& modifiers) {
  Runtime& runtime = runtime_of(self);
  Packer packer(self.state, "operator", op.op.name(), op.op.signature());
  std::vector<Packed> packed;
  if (const Py_ssize_t expected = PyObject_LengthHint(rows.ptr(), 0); expected > 0) packed.reserve(static_cast<std::size_t>(expected));
  std::size_t number = 0;
  for (const nb::handle row : rows) {
    packed.emplace_back();
    try {
      const nb::object fast = nb::steal(PySequence_Fast(row.ptr(), "submit_many takes rows, each a tuple or a list of a task's arguments"));
      if (!fast.is_valid()) throw nb::python_error();
      packer.pack(packed.back(), PySequence_Fast_ITEMS(fast.ptr()), static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.ptr())));
      packer.add(packed.back(), modifiers);
    } catch (const Error& error) {
      throw Error(error.kind(), "row " + std::to_string(number) + ": " + error.message(), error.fields());
    }
    ++number;
  }
  std::vector<Arguments> arguments;
  arguments.reserve(packed.size());
  Kept kept;
  for (Packed& one : packed) {
    arguments.push_back(std::move(one.arguments));
    if (captured() != nullptr) captured()->insert(captured()->end(), one.kept.begin(), one.kept.end());
  }
  const Unlocked unlocked;
  return {runtime.submit_many(op.op, arguments)};
}

PyGraph capture(const PyRuntime& self, nb::callable tasks) {
  Runtime& runtime = runtime_of(self);
  PyGraph made;
  Kept*& now = captured();
  Kept* const before = std::exchange(now, made.state->kept.get());
  try {
    made.state->graph = runtime.capture([&] { tasks(); });
  } catch (...) {
    now = before;
    throw;
  }
  now = before;
  return made;
}

Array wrap_array(const PyRuntime& self, nb::handle object) {
  runtime_of(self);
  const std::string name = "argument 1 of Runtime.wrap";
  std::optional<Foreign> array = look_at(object, *self.state, name);
  if (!array)
    throw Error(errc::signature_mismatch,
                name +
                    ": an array is needed, of NumPy, or one that shares its memory by DLPack or "
                    "__cuda_array_interface__",
                {"argument", name});
  if (const std::string why = out_of_reach(*array, *self.state); !why.empty())
    throw Error(errc::invalid_argument, name + ": " + array->text() + ": " + why, {"argument", name});
  if (!array->type)
    throw Error(errc::signature_mismatch, name + ": " + array->text() + ": dwell has no such element type", {"argument", name});
  std::string why = unusable(*array, *self.state);
  if (why.empty() && array->readonly)
    why = "it is read-only, and operators may write: pass it to an operator that declares Span<const T>, or copy it";
  if (!why.empty()) throw Error(errc::invalid_argument, name + ": " + array->text() + ": " + why, {"argument", name});
  Array made;
  made.memory = wrap(self.state, *array, name);
  made.count = array->count;
  made.shape = array->shape;
  made.type = *array->type;
  return made;
}

dwell::Memory memory_from(const std::string& name) {
  if (name == "device") return dwell::Memory::device;
  if (name == "host") return dwell::Memory::host;
  throw Error(errc::invalid_argument, "memory is \"device\" or \"host\", not \"" + name + "\"", {"argument", "memory"});
}

Array allocate_array(const PyRuntime& self, nb::handle shape, nb::handle dtype, const std::string& memory) {
  runtime_of(self);
  std::vector<std::size_t> extents;
  const auto extent = [](nb::handle one) {
    const auto value = nb::cast<std::int64_t>(nb::int_(nb::borrow(one)));
    if (value < 0) throw Error(errc::invalid_argument, "a shape has no negative extents", {"argument", "shape"});
    return static_cast<std::size_t>(value);
  };
  if (PyIndex_Check(shape.ptr()) != 0) {
    extents.push_back(extent(shape));
  } else {
    for (const nb::handle one : shape) extents.push_back(extent(one));
  }
  return allocate(self.state, extents, element_type_from(dtype), memory_from(memory));
}

nb::object array_of(const PyRuntime& self, nb::handle source, nb::handle dtype, const std::string& memory) {
  Runtime& runtime = runtime_of(self);
  static_cast<void>(runtime);
  nb::object contents = nb::borrow(source);
  std::optional<Foreign> found;
  const std::string name = "argument 1 of Runtime.array";
  const bool host_cast = !dtype.is_none();
  found = look_at(source, *self.state, name);
  const bool usable = found && found->type && found->contiguous && !found->swapped && found->place != Foreign::Place::cuda &&
                      found->place != Foreign::Place::other && (!host_cast || *found->type == element_type_from(dtype));
  if (found && (found->place == Foreign::Place::cuda || found->place == Foreign::Place::other))
    throw Error(errc::invalid_argument,
                name + ": " + found->text() + ": an array in host memory is needed; Runtime.wrap takes this one as it is",
                {"argument", name});
  if (!usable) {
    // Lists, strided arrays, another type: NumPy knows how.
    const nb::object numpy = nb::module_::import_("numpy");
    nb::object wanted = nb::none();
    if (host_cast)
      wanted = numpy.attr("dtype")(nb::str(numpy_name(element_type_from(dtype)).c_str()));
    else if (found && found->swapped)
      wanted = source.attr("dtype").attr("newbyteorder")("=");
    contents = numpy.attr("ascontiguousarray")(source, "dtype"_a = wanted);
    if (found && found->shape.empty()) contents = contents.attr("reshape")(nb::make_tuple());
    found = look_at(contents, *self.state, name);
    if (!found || !found->type)
      throw Error(errc::signature_mismatch, name + ": " + (found ? found->text() + ": dwell has no such element type" : "it is no array"),
                  {"argument", name});
  }
  const Array made = allocate(self.state, found->shape, *found->type, memory_from(memory));
  {
    const Unlocked unlocked;
    made.memory->buffer.write({static_cast<const std::byte*>(found->data), found->bytes()}, 0);
  }
  return nb::cast(made);
}

}  // namespace

Receipt submit(const State& runtime, const Handle& op, const nb::args& arguments, const Modifiers& modifiers) {
  run_posted();
  Runtime& open = runtime->get();
  Packed packed;
  Packer packer(runtime, "operator", op.op.name(), op.op.signature());
  packer.pack(packed, PySequence_Fast_ITEMS(arguments.ptr()), arguments.size());
  packer.add(packed, modifiers);
  return submit_packed(open, op, packed);
}

void bind_ticket(nb::module_& m) {
  nb::class_<Receipt>(
      m, "Ticket",
      "The receipt of a task, or of a launch. ``await ticket`` waits in asyncio. It may be kept and dropped freely, also after\n"
      "its runtime is closed: it goes on telling what became of its task.")
      .def("wait", &wait, "timeout"_a = nb::none(),
           "Returns True once the task is complete and its effects are visible, or False after `timeout` seconds. Raises what became of a\n"
           "task that failed: dwell.TaskFailed, dwell.Cancelled, dwell.TaskTimeout, dwell.DeviceLost. Without the GIL.")
      .def_prop_ro(
          "done",
          [](const Receipt& self) {
            require_epoch(self.epoch, "the ticket");
            return self.ticket.done();
          },
          "Whether the task is complete, successful or not.")
      .def("status", &status,
           "0 for success, positive for the operator's own code, negative for one of dwell's. Waits, and raises nothing for\n"
           "tasks that have failed.")
      .def_prop_ro(
          "position", [](const Receipt& self) { return self.ticket.position(); }, "The task's place in the order of submission.")
      .def("add_done_callback", &add_done_callback, "callback"_a,
           "Calls ``callback(ticket)`` once when the task is complete, on a thread of the runtime, which calls one after the other. It may "
           "use\n"
           "the runtime, but not close it.",
           nb::sig("def add_done_callback(self, callback: typing.Callable[[Ticket], object]) -> None"))
      .def(
          "as_future", [](nb::handle_t<Receipt> self) { return futures().attr("of_ticket")(self); },
          "A concurrent.futures.Future whose result is None, or raises as `wait`.",
          nb::sig("def as_future(self) -> concurrent.futures.Future[None]"))
      .def(
          "__await__", [](nb::handle_t<Receipt> self) { return futures().attr("awaiting")(self); },
          nb::sig("def __await__(self) -> typing.Generator[typing.Any, None, None]"))
      .def("__repr__", [](const Receipt& self) {
        const bool ours = self.epoch == fork_epoch();
        return "<dwell.Ticket " + std::to_string(self.ticket.position()) + (!ours ? "" : self.ticket.done() ? ", done" : ", pending") + ">";
      });
  nb::class_<Waker>(m, "Waker")
      .def(nb::init<>())
      .def("fileno", &Waker::fileno)
      .def("watch", &Waker::watch, "ticket"_a, "key"_a)
      .def("take", &Waker::take);
  nb::class_<Stop>(m, "StopSource").def("request", [](Stop& self) {
    const Unlocked unlocked;
    return self.source.request_stop();
  });
}

void bind_operator(nb::module_& m) {
  nb::class_<Handle>(m, "Operator", "A piece of device code that tasks run: ``op(x, y, 2.0)`` submits one.")
      .def_prop_ro(
          "name", [](const Handle& self) { return self.op.name(); }, "As it was defined: \"axpy\", or \"axpy<float>\" for an instance.")
      .def_prop_ro(
          "signature", [](const Handle& self) { return self.op.signature().text(); },
          "Its parameters as C++ writes them: \"(float, Span<const float>, Span<float>)\".")
      .def_prop_ro(
          "versions", [](const Handle& self) { return self.op.versions(); }, "Versions defined so far.")
      .def_prop_ro(
          "version", [](const Handle& self) { return self.op.version(); }, "That which a task submitted now would run, from 1.")
      .def_prop_ro(
          "instances", [](const Handle& self) { return self.op.instances(); }, "As `define` was given them; else the name alone.")
      .def(
          "instance",
          [](const Handle& self, const std::string& expression) {
            return Handle{self.op.instance(expression), self.runtime};
          },
          "expression"_a, "Another instance of the same template.")
      .def("redefine", &redefine, "source"_a, "options"_a = nb::none(), "file"_a = nb::none(), "line"_a = 1,
           "Compiles `source` and makes it the current version: tasks submitted before this returns run the old one, later ones the new "
           "one.\n"
           "Without options those of the version before are used. Raises as `define`; then the old version stays.")
      .def(
          "redefine_async", &redefine_async, "source"_a, "options"_a = nb::none(), "file"_a = nb::none(), "line"_a = 1,
          "The same in the background: a future, which may be awaited too.",
          nb::sig("def redefine_async(self, source: str, options: CompileOptions | None = None, file: str | None = None, line: int = 1) -> "
                  "dwell._futures.Pending[None]"))
      .def(
          "rollback",
          [](const Handle& self) {
            self.runtime->get();
            Operator<> op = self.op;
            const Unlocked unlocked;
            op.rollback();
          },
          "Makes the version below the current one current again, without compiling.")
      .def(
          "__call__",
          [](const Handle& self, const nb::args& arguments, std::uint32_t groups, std::uint32_t gang, nb::object after,
             nb::object after_any_result, bool link, bool hard_link, bool drain, std::optional<std::uint32_t> priority) {
            return submit(self.runtime, self, arguments,
                          {groups, gang, std::move(after), std::move(after_any_result), link, hard_link, drain, priority});
          },
          "arguments"_a, DWELL_MODIFIERS, "Submits a task, as Runtime.submit.",
          nb::sig("def __call__(self, *arguments: object, groups: int = 1, gang: int = 0, after: Ticket | typing.Iterable[Ticket] | None = "
                  "None, "
                  "after_any_result: Ticket | typing.Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, drain: "
                  "bool = "
                  "False, priority: int | None = None) -> Ticket"))
      .def(
          "__eq__", [](const Handle& self, const Handle& other) { return self.op == other.op; }, nb::is_operator(),
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__hash__", [](const Handle& self) { return std::hash<const void*>()(&self.op.signature()); })
      .def("__repr__", &text_of);
}

void bind_runtime(nb::module_& m) {
  nb::class_<PyRuntime>(
      m, "Runtime", nb::type_slots(runtime_slots),
      "A device, its resident loop, and everything that is submitted to it. A context manager, which closes it. Times are in\n"
      "seconds. May be used from any thread.")
      .def(
          "__init__", &make_runtime, "device"_a = "auto", nb::kw_only(), "workers"_a = 0, "lease"_a = 0.0, "idle"_a = 0.0,
          "task_timeout"_a = 10.0, "stall_timeout"_a = 0.0, "ring_slots"_a = 65536, "spawned_tasks"_a = 0, "scratch_bytes"_a = 8192,
          "priorities"_a = nb::none(), "compile"_a = nb::none(), "compile_threads"_a = 0, "tier"_a = nb::none(), "limits"_a = nb::none(),
          "compile_programs_after"_a = 1000, "metrics"_a = "counts", "live"_a = true, "log"_a = nb::none(), "warn"_a = nb::none(),
          "Opens a device: \"auto\" (a CUDA device where there is one, else the CPU), \"cpu\", \"cuda:0\", ... Zero means the backend's "
          "own\n"
          "choice.\n\n"
          "workers: thread blocks on CUDA, threads on the CPU\n"
          "lease: the longest that other CUDA calls wait for the loop to leave a busy device\n"
          "idle: how long the loop waits for work before it parks\n"
          "task_timeout: a task that runs longer fails the runtime; 0: never\n"
          "stall_timeout: when nothing moves for so long, waits raise dwell.Stalled; 0: never\n"
          "ring_slots: tasks in flight at most, a power of two from 128 on\n"
          "spawned_tasks: tasks at once that operators have made\n"
          "scratch_bytes: memory of Group::shared, a worker\n"
          "priorities: True, \"fifo\", \"lifo\", or eight of these: lets tasks have priorities\n"
          "compile: CompileOptions of operators that are given none\n"
          "compile_threads: threads for define_async\n"
          "tier: \"relocatable\" or \"lto\"; None: the one, then the other\n"
          "limits: Limits of the image\n"
          "compile_programs_after: tasks of one program over tensors after which it is compiled; 0: never\n"
          "metrics: what the device notes of tasks: \"off\", \"counts\" or \"times\"\n"
          "live: lets other processes of the user look at the runtime (dwell top)\n"
          "log: where lines go that operators log: a logging.Logger or its name, a callable that takes a dwell.LogRecord, a path\n"
          "    (pathlib.Path), None: stderr; or a dwell.Logging, which has a level and limits too\n"
          "warn: called with one line when something works, but not as well as it could; None: the logger \"dwell\"",
          nb::sig(
              "def __init__(self, device: str = 'auto', *, workers: int = 0, lease: float = 0.0, idle: float = 0.0, task_timeout: float = "
              "10.0, "
              "stall_timeout: float = 0.0, ring_slots: int = 65536, spawned_tasks: int = 0, scratch_bytes: int = 8192, priorities: bool | "
              "str | typing.Sequence[str] | None = None, compile: CompileOptions | None = None, compile_threads: int = 0, tier: str | None "
              "= None, limits: Limits | None = None, compile_programs_after: int = 1000, metrics: str = 'counts', live: bool = True, log: "
              "dwell._logging.Logging | logging.Logger | str | os.PathLike[str] | typing.Callable[[LogRecord], object] | None = None, "
              "warn: "
              "typing.Callable[[str], object] | None = None) -> None"))
      .def(
          "define", &define, "name"_a, "source"_a, "instances"_a = std::vector<std::string>(), "options"_a = nb::none(),
          "file"_a = nb::none(), "line"_a = 1,
          "Compiles `source`, which defines ``DWELL_OPERATOR(name)``, and links it into the image. `instances` are those wanted of a "
          "template,\n"
          "as C++ spells them: [\"axpy<float>\"]; the first is returned. `file` and `line` tell where the text comes from. Raises\n"
          "dwell.CompileError, dwell.OperatorNotFound, dwell.LinkError, dwell.ResourceLimit, dwell.InvalidArgument (the name is taken).",
          nb::sig(
              "def define(self, name: str, source: str, instances: typing.Sequence[str] = [], options: CompileOptions | None = None, file: "
              "str | None = None, line: int = 1) -> Operator"))
      .def(
          "define_async", &define_async, "name"_a, "source"_a, "instances"_a = std::vector<std::string>(), "options"_a = nb::none(),
          "file"_a = nb::none(), "line"_a = 1,
          "The same in the background: a concurrent.futures.Future, which may be awaited too. Cancelling it calls the definition off.",
          nb::sig(
              "def define_async(self, name: str, source: str, instances: typing.Sequence[str] = [], options: CompileOptions | None = None, "
              "file: str | None = None, line: int = 1) -> dwell._futures.Pending[Operator]"))
      .def(
          "submit",
          [](const PyRuntime& self, const Handle& op, const nb::args& arguments, std::uint32_t groups, std::uint32_t gang, nb::object after,
             nb::object after_any_result, bool link, bool hard_link, bool drain, std::optional<std::uint32_t> priority) {
            return submit(self.state, op, arguments,
                          {groups, gang, std::move(after), std::move(after_any_result), link, hard_link, drain, priority});
          },
          "op"_a, "arguments"_a, DWELL_MODIFIERS,
          "Submits a task: numbers for values, dwell.Buffer or arrays of others for spans. Memory lives until the task has run, whatever "
          "is\n"
          "dropped before. Waits while the ring is full.\n\n"
          "groups: so many groups share the task\n"
          "gang: so many groups run at once, with barriers among them\n"
          "after, after_any_result: tickets that it starts after; a failure of one of the first cancels it\n"
          "link, hard_link: it starts after the task that this thread submitted before\n"
          "drain: it starts after all before, and holds back all after\n"
          "priority: 0 to 7, the most urgent; needs Runtime(priorities=...)",
          nb::sig(
              "def submit(self, op: Operator, *arguments: object, groups: int = 1, gang: int = 0, after: Ticket | typing.Iterable[Ticket] "
              "| "
              "None = None, after_any_result: Ticket | typing.Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, "
              "drain: bool = False, priority: int | None = None) -> Ticket"))
      .def(
          "submit_many",
          [](const PyRuntime& self, const Handle& op, const nb::iterable& rows, std::uint32_t groups, std::uint32_t gang, nb::object after,
             nb::object after_any_result, bool link, bool hard_link, bool drain, std::optional<std::uint32_t> priority) {
            return submit_many(self, op, rows,
                               {groups, gang, std::move(after), std::move(after_any_result), link, hard_link, drain, priority});
          },
          "op"_a, "rows"_a, nb::kw_only(), DWELL_MODIFIERS,
          "Submits a task for each row of arguments, and returns the ticket of the last. All rows are checked before the first task is\n"
          "submitted; the GIL is released while they are. Modifiers hold for every task.",
          nb::sig("def submit_many(self, op: Operator, rows: typing.Iterable[typing.Sequence[object]], *, groups: int = 1, gang: int = 0, "
                  "after: "
                  "Ticket | typing.Iterable[Ticket] | None = None, after_any_result: Ticket | typing.Iterable[Ticket] | None = None, link: "
                  "bool = "
                  "False, hard_link: bool = False, drain: bool = False, priority: int | None = None) -> Ticket"))
      .def(
          "cancel",
          [](const PyRuntime& self, const Receipt& ticket) {
            require_epoch(ticket.epoch, "the ticket");
            return runtime_of(self).cancel(ticket.ticket);
          },
          "ticket"_a, "Cancels a task or launch that has not begun. False when it is known to be complete.")
      .def(
          "sync",
          [](const PyRuntime& self) {
            Runtime& runtime = runtime_of(self);
            submit_arrays(self);
            const Unlocked unlocked;
            runtime.wait_all();
          },
          "Waits until every task submitted so far is complete, without the GIL. Raises nothing for tasks that have failed: their tickets "
          "tell.")
      .def("allocate", &allocate_array, "shape"_a, "dtype"_a = "float32", "memory"_a = "device",
           "Memory for elements, uninitialised. `shape` is a count or a tuple; ``memory=\"host\"`` is pinned host memory that the device "
           "reaches.",
           nb::sig("def allocate(self, shape: int | typing.Sequence[int], dtype: object = 'float32', memory: str = 'device') -> Buffer"))
      .def("array", &array_of, "source"_a, "dtype"_a = nb::none(), "memory"_a = "device",
           "A copy of an array on the host, or of a list of numbers, as a buffer of the same shape.",
           nb::sig("def array(self, source: object, dtype: object = None, memory: str = 'device') -> Buffer"))
      .def("wrap", &wrap_array, "array"_a,
           "Memory of others as a buffer, without a copy: a NumPy array on the CPU, a tensor of PyTorch, CuPy, JAX on the runtime's "
           "device. The\n"
           "array is kept alive until the buffer and the last task that names it have gone. Work that others put on streams afterwards is\n"
           "ordered by nobody but the caller.",
           nb::sig("def wrap(self, array: object) -> Buffer"))
      .def(
          "batch",
          [](const PyRuntime& self) {
            static_cast<void>(runtime_of(self));
            return std::make_unique<PyBatch>(self.state);
          },
          "Collects operations on tensors: a dwell.Batch. The first one of a runtime defines dwell's operators for elements.",
          nb::sig("def batch(self) -> Batch"))
      .def(
          "flush",
          [](const PyRuntime& self) {
            static_cast<void>(runtime_of(self));
            const auto collector = Collector::known(self.state);
            return collector ? collector->flush(true) : Receipt();
          },
          "Computes all lazy arrays that somebody still has: submits their tasks. The ticket stands for all since the flush before.",
          nb::sig("def flush(self) -> Ticket"))
      .def("capture", &capture, "tasks"_a,
           "Calls ``tasks()``. What the calling thread submits meanwhile is not run: it becomes the nodes of the graph that is returned, "
           "ordered\n"
           "by the memory that they read and write. Also a decorator.",
           nb::sig("def capture(self, tasks: typing.Callable[[], object]) -> Graph"))
      .def(
          "instantiate",
          [](const PyRuntime& self, const PyGraph& graph) {
            Runtime& runtime = runtime_of(self);
            return Exec{runtime.instantiate(graph.state->graph), self.state, std::make_shared<ExecKept>(ExecKept{*graph.state->kept, {}})};
          },
          "graph"_a, "Lays a graph out in memory of the device. The graph may change or go afterwards.")
      .def(
          "launch",
          [](const PyRuntime& self, const Exec& exec, nb::object after, nb::object after_any_result, bool link, bool hard_link, bool drain,
             std::optional<std::uint32_t> priority) {
            return launch(self.state, exec, {1, 0, std::move(after), std::move(after_any_result), link, hard_link, drain, priority});
          },
          "exec"_a, nb::kw_only(), "after"_a = nb::none(), "after_any_result"_a = nb::none(), "link"_a = false, "hard_link"_a = false,
          "drain"_a = false, "priority"_a = nb::none(),
          "Runs all nodes of a graph once, in their order, as one task among the others. Launches of one exec follow each other.",
          nb::sig("def launch(self, exec: GraphExec, *, after: Ticket | typing.Iterable[Ticket] | None = None, after_any_result: Ticket | "
                  "typing.Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, drain: bool = False, priority: int "
                  "| None "
                  "= None) -> Ticket"))
      .def(
          "compile",
          [](const PyRuntime& self, std::string source, const std::optional<CompileOptions>& options,
             const std::vector<std::string>& expressions, const std::optional<std::string>& file, int line) {
            Runtime& runtime = runtime_of(self);
            const Source from = source_from(std::move(source), file, line);
            Module module;
            {
              const Unlocked unlocked;
              module = runtime.compile(from, options, expressions);
            }
            return module_object(std::move(module), self.state);
          },
          "source"_a, "options"_a = nb::none(), "expressions"_a = std::vector<std::string>(), "file"_a = nb::none(), "line"_a = 1,
          "Compiles a program of ordinary kernels (CUDA C++ with grid and block) and loads it beside the resident loop. `expressions` are "
          "the\n"
          "instantiations wanted of kernel templates. On the CPU it raises dwell.Unsupported.",
          nb::sig("def compile(self, source: str, options: CompileOptions | None = None, expressions: typing.Sequence[str] = [], file: str "
                  "| None "
                  "= None, line: int = 1) -> Module"))
      .def(
          "info", [](const PyRuntime& self) { return runtime_of(self).info(); }, "The device, the image's resources, and counts.")
      .def(
          "diagnose", [](const PyRuntime& self) { return runtime_of(self).diagnose(); },
          "What is not complete, and who waits for whom. Waits for nothing.")
      .def(
          "metrics",
          [](const PyRuntime& self) {
            Runtime& runtime = runtime_of(self);
            const Unlocked unlocked;
            return runtime.metrics();
          },
          "What the runtime has done so far, by operator and worker. Stops nothing.")
      .def(
          "set_metrics",
          [](const PyRuntime& self, std::string_view metrics) {
            Runtime& runtime = runtime_of(self);
            const Metering metering = metering_from(metrics);
            const Unlocked unlocked;
            runtime.set_metrics(metering);
          },
          "metrics"_a, "Changes what the device notes of tasks, while it works: \"off\", \"counts\" or \"times\".")
      .def(
          "logs", [](const PyRuntime& self, double wait) { return logs_of(runtime_of(self), wait); }, "wait"_a = 0.0,
          "The lines that operators have logged so far, as many as are kept, and those that come: an iterator, which ends when no line "
          "has\n"
          "come for so many seconds.",
          nb::sig("def logs(self, wait: float = 0.0) -> Logs"))
      .def(
          "set_log_level",
          [](const PyRuntime& self, std::string_view level) {
            Runtime& runtime = runtime_of(self);
            const dwell::level from = level_from(level);
            const Unlocked unlocked;
            runtime.set_log_level(from);
          },
          "level"_a,
          "Changes which lines operators log, while they work: \"trace\", \"debug\", \"info\", \"warning\", \"error\" or \"off\".")
      .def(
          "start_trace",
          [](const PyRuntime& self, const std::filesystem::path& path) {
            Runtime& runtime = runtime_of(self);
            const Unlocked unlocked;
            runtime.start_trace(trace_file(path));
          },
          "path"_a,
          "Begins a timeline, written to a file: for chrome://tracing when its name ends in .json, else for https://ui.perfetto.dev. See\n"
          "dwell.trace.",
          nb::sig("def start_trace(self, path: str | os.PathLike[str]) -> None"))
      .def(
          "stop_trace",
          [](const PyRuntime& self) {
            Runtime& runtime = runtime_of(self);
            const Unlocked unlocked;
            runtime.stop_trace();
          },
          "Ends it; nothing to do when none is being taken.")
      .def(
          "mark", [](const PyRuntime& self, std::string_view text) { runtime_of(self).mark(text); }, "text"_a,
          "Puts a mark of this thread into the trace that is being taken, if one is.")
      .def(
          "park",
          [](const PyRuntime& self) {
            Runtime& runtime = runtime_of(self);
            const Unlocked unlocked;
            runtime.park();
          },
          "Takes the loop off the device until `resume`: waits for tasks that run. Tasks may be submitted meanwhile.")
      .def(
          "resume",
          [](const PyRuntime& self) {
            Runtime& runtime = runtime_of(self);
            const Unlocked unlocked;
            runtime.resume();
          },
          "Counts: as many resumes as parks.")
      .def(
          "rebuild",
          [](const PyRuntime& self) {
            Runtime& runtime = runtime_of(self);
            {
              const Unlocked unlocked;
              runtime.rebuild();
            }
            if (const auto collector = Collector::known(self.state)) collector->renew();
          },
          "Opens the device anew after dwell.DeviceLost or dwell.TaskTimeout. Operators and buffers are stale then.")
      .def("close", &close, nb::kw_only(), "now"_a = false,
           "Ends the runtime: waits for all tasks, or with ``now`` cancels those that have not started. Nothing to do the second time.")
      .def_prop_ro(
          "device", [](const PyRuntime& self) { return self.state->device(); }, "\"cpu\", \"cuda:0\".")
      .def(
          "__enter__", [](nb::handle_t<PyRuntime> self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Runtime"))
      .def(
          "__exit__", [](const PyRuntime& self, nb::handle type, nb::handle, nb::handle) { close(self, !type.is_none()); },
          "type"_a = nb::none(), "value"_a = nb::none(), "traceback"_a = nb::none(),
          "Closes the runtime; with ``now`` when an exception is on its way.",
          nb::sig("def __exit__(self, type: object = None, value: object = None, traceback: object = None) -> None"))
      .def("__repr__", [](const PyRuntime& self) {
        try {
          const RuntimeInfo info = self.state->get().info();
          return "<dwell.Runtime " + info.device + " (" + info.device_name + "), " + std::to_string(info.workers) + " workers>";
        } catch (const Error&) {
          return "<dwell.Runtime " + self.state->device() + ", closed>";
        }
      });
}

}  // namespace dwell::python
