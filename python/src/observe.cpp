// Metrics and traces.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <dwell/log.hpp>
#include <dwell/metrics.hpp>
#include <dwell/trace.hpp>

#include "bind.hpp"

namespace dwell::python {

using namespace nb::literals;

const char* text_of(Metering metering) {
  switch (metering) {
    case Metering::off: return "off";
    case Metering::counts: return "counts";
    case Metering::times: return "times";
  }
  return "";
}

Metering metering_from(std::string_view text) {
  for (const Metering metering : {Metering::off, Metering::counts, Metering::times})
    if (text == text_of(metering)) return metering;
  throw Error(errc::invalid_argument, "metrics is \"off\", \"counts\" or \"times\", not \"" + std::string(text) + "\"",
              {"argument", "metrics"});
}

void bind_observe(nb::module_& m) {
  nb::class_<OperatorMetrics>(m, "OperatorMetrics", "What one version of an operator has done. Times are in seconds.")
      .def_ro("name", &OperatorMetrics::name)
      .def_ro("version", &OperatorMetrics::version,
              "0: all versions before the oldest one that is listed; of Metrics.totals, all versions.")
      .def_ro("tasks", &OperatorMetrics::tasks, "Calls that have returned; a wide task counts once for each group.")
      .def_ro("failures", &OperatorMetrics::failures)
      .def_ro("timed", &OperatorMetrics::timed, "Tasks that the times tell of: those while metrics were \"times\".")
      .def_prop_ro("total", [](const OperatorMetrics& op) { return static_cast<double>(op.total_ns) * 1e-9; })
      .def_prop_ro("min", [](const OperatorMetrics& op) { return static_cast<double>(op.min_ns) * 1e-9; })
      .def_prop_ro("max", [](const OperatorMetrics& op) { return static_cast<double>(op.max_ns) * 1e-9; })
      .def_prop_ro("mean", [](const OperatorMetrics& op) { return op.mean_ns() * 1e-9; })
      .def(
          "quantile", [](const OperatorMetrics& op, double q) { return op.times.quantile(q) * 1e-9; }, "q"_a,
          "The time that the share `q` (0 to 1) does not exceed, to within a fifth.")
      .def_ro("waits", &OperatorMetrics::waits,
              "Tasks of a sample that the times waited tell of: of the ring one in 256; of nodes and tasks that operators make, one place "
              "of the queue in 16.")
      .def_prop_ro(
          "mean_wait", [](const OperatorMetrics& op) { return op.mean_wait_ns() * 1e-9; },
          "From the submission to the call of the operator; of nodes and tasks that operators make, in the ready queue.")
      .def_prop_ro("longest_wait", [](const OperatorMetrics& op) { return static_cast<double>(op.longest_wait_ns) * 1e-9; })
      .def_ro("sampled", &OperatorMetrics::sampled, "Tasks of a sample, of which the bytes are known.")
      .def_prop_ro("mean_bytes", &OperatorMetrics::mean_bytes, "That the arrays among the arguments of a task name.")
      .def("__repr__", [](const OperatorMetrics& op) {
        return "<dwell.OperatorMetrics " + op.name + (op.version == 0 ? "" : " (version " + std::to_string(op.version) + ")") + ", " +
               std::to_string(op.tasks) + " tasks>";
      });
  nb::class_<WorkerMetrics>(m, "WorkerMetrics", "What one worker has done, of all leases. Times are in seconds.")
      .def_ro("tasks", &WorkerMetrics::tasks)
      .def_prop_ro(
          "busy", [](const WorkerMetrics& worker) { return static_cast<double>(worker.busy_ns) * 1e-9; },
          "Inside of operators, while metrics were \"times\".")
      .def_prop_ro(
          "idle", [](const WorkerMetrics& worker) { return static_cast<double>(worker.idle_ns) * 1e-9; },
          "On the device outside of operators, but for the lease under way, while metrics were \"times\".")
      .def_prop_ro(
          "present", [](const WorkerMetrics& worker) { return static_cast<double>(worker.present_ns) * 1e-9; },
          "On the device, but for the lease under way.")
      .def_ro("fetched", &WorkerMetrics::fetched, "Slots that it has taken out of the ring, for itself or others.")
      .def_ro("queued", &WorkerMetrics::queued, "Tasks that it has taken from the ready queue.")
      .def_ro("stolen", &WorkerMetrics::stolen, "Nodes of graphs that it has taken from another worker; on the CPU alone.")
      .def_ro("spawned", &WorkerMetrics::spawned, "Tasks that its operators have made.")
      .def_ro("leases", &WorkerMetrics::leases, "That it has taken part in.")
      .def_ro("parks", &WorkerMetrics::parks, "How often it has left the device with no lease there to go on in.");
  nb::class_<Metrics>(m, "Metrics",
                      "What a runtime has done, in numbers. Counts only grow: what happened in an interval is ``later - earlier``.")
      .def_ro("device", &Metrics::device)
      .def_prop_ro("metering", [](const Metrics& metrics) { return text_of(metrics.metering); })
      .def_ro("operators", &Metrics::operators, "By version.")
      .def_prop_ro("totals", &Metrics::totals, "All versions of each operator together. Counts of one that is here only grow.")
      .def_ro("workers", &Metrics::workers)
      .def_ro("submitted", &Metrics::submitted)
      .def_ro("in_flight_slots", &Metrics::in_flight_slots,
              "Now: slots of the ring that no other task can have yet: of tasks that are not complete, and of those behind such a one.")
      .def_ro("ring_slots", &Metrics::ring_slots)
      .def_ro("queued", &Metrics::queued, "Now: tasks in the ready queue.")
      .def_ro("credit_waits", &Metrics::credit_waits, "How often a submitter has found the ring full.")
      .def_ro("leases", &Metrics::leases)
      .def_ro("parks", &Metrics::parks, "How often the loop was off the device when a lease was started, but for the first.")
      .def_ro("pauses", &Metrics::pauses,
              "How often the loop was taken off the device: by ``park``, an image with another number of workers, the watchdog.")
      .def_ro("images", &Metrics::images)
      .def_ro("compiled", &Metrics::compiled)
      .def_ro("linked", &Metrics::linked)
      .def_ro("cache_hits", &Metrics::cache_hits)
      .def_ro("arena_bytes", &Metrics::arena_bytes)
      .def_ro("buffer_bytes", &Metrics::buffer_bytes)
      .def_ro("buffers", &Metrics::buffers)
      .def_ro("log_lines", &Metrics::log_lines, "Lines of operators that have been handed over.")
      .def_ro("log_limited", &Metrics::log_limited, "Lines left out by Logging.per_site_per_second.")
      .def_prop_ro(
          "log_dropped",
          [](const Metrics& metrics) {
            nb::dict made;
            for (std::size_t i = 0; i < metrics.log_dropped.size(); ++i)
              made[nb::cast(dwell::text_of(static_cast<level>(i)))] = metrics.log_dropped[i];
            return made;
          },
          "Lines that found no room, by severity.", nb::sig("def log_dropped(self) -> dict[str, int]"))
      .def_ro("graph_launches", &Metrics::graph_launches)
      .def_ro("batch_flushes", &Metrics::batch_flushes)
      .def_ro("batch_operations", &Metrics::batch_operations)
      .def_ro("batch_tasks", &Metrics::batch_tasks)
      .def(
          "__sub__", [](const Metrics& self, const Metrics& earlier) { return difference(self, earlier); }, "earlier"_a,
          "What has happened in between.", nb::sig("def __sub__(self, earlier: Metrics) -> Metrics"))
      .def(
          "to_json", [](const Metrics& self) { return to_json(self); }, "All of it as JSON.")
      .def(
          "to_openmetrics", [](const Metrics& self) { return to_openmetrics(self); }, "The text that Prometheus reads.")
      .def("__repr__", [](const Metrics& metrics) {
        return "<dwell.Metrics of " + metrics.device + ", " + std::to_string(metrics.submitted) + " submitted, " +
               std::to_string(metrics.operators.size()) + " operators>";
      });
}

}  // namespace dwell::python
