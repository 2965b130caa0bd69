// What a runtime tells of itself, and what its operators say.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string_view.h>

#include <filesystem>
#include <string_view>

#include <dwell/trace.hpp>

#include "bind.hpp"
#include "log.hpp"
#include "runtime.hpp"

namespace dwell::python {

using namespace nb::literals;

void bind_runtime_observation(nb::class_<PyRuntime>& type) {
  type.def(
          "info", [](const PyRuntime& self) { return runtime_of(self).info(); }, "The device and the image's resources.")
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
          "Puts a mark of this thread into the trace that is being taken, if one is.");
}

}  // namespace dwell::python
