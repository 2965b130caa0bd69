#include "runtime.hpp"

#include <nanobind/stl/string.h>

#include <string>

#include "bind.hpp"
#include "collector.hpp"

namespace dwell::python {

using namespace nb::literals;

Runtime& runtime_of(const PyRuntime& self) {
  run_posted();
  return self.state->get();
}

const State& state_of(nb::handle runtime) {
  const auto& found = nb::cast<const PyRuntime&>(runtime);
  run_posted();
  static_cast<void>(found.state->get());
  return found.state;
}

nb::object runtime_object(const State& runtime) { return nb::cast(PyRuntime{runtime}); }

void submit_arrays(const PyRuntime& self) {
  if (const auto collector = Collector::known(self.state)) collector->submit_collected();
}

namespace {

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

}  // namespace

void bind_runtime(nb::module_& m) {
  nb::class_<PyRuntime> type(
      m, "Runtime", nb::type_slots(runtime_slots),
      "A device, its resident loop, and everything that is submitted to it. A context manager, which closes it. Times are in\n"
      "seconds. May be used from any thread.");
  bind_runtime_opening(type);
  bind_runtime_code(type);
  bind_runtime_tasks(type);
  bind_runtime_memory(type);
  bind_runtime_observation(type);
  bind_runtime_inspection(type);
  type.def(
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
          "Calls nest: each park needs one resume.")
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
          "__exit__", [](const PyRuntime& self, nb::handle raised, nb::handle, nb::handle) { close(self, !raised.is_none()); },
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
