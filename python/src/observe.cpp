// Metrics and traces.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <dwell/log.hpp>
#include <dwell/metric_rows.hpp>
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

// Each number of a snapshot as a property of its class: times in seconds, under their names without `_ns`.
template <class Of, std::size_t count>
void bind_rows(nb::class_<Of>& type, const MetricRow<Of> (&rows)[count]) {
  for (const MetricRow<Of>& row : rows) {
    const std::string name = row.name;
    constexpr std::string_view kTime = "_ns";
    if (name.ends_with(kTime))
      type.def_prop_ro(
          name.substr(0, name.size() - kTime.size()).c_str(),
          [value = row.value](const Of& of) { return static_cast<double>(of.*value) * 1e-9; }, row.help);
    else
      type.def_ro(row.name, row.value, row.help);
  }
}

nb::dict by_severity(const std::array<std::uint64_t, 5>& lines) {
  nb::dict made;
  for (std::size_t i = 0; i < lines.size(); ++i) made[nb::cast(dwell::text_of(static_cast<level>(i)))] = lines[i];
  return made;
}

void bind_operator_metrics(nb::module_& m) {
  nb::class_<OperatorMetrics> type(m, "OperatorMetrics", "What one version of an operator has done. Times are in seconds.");
  type.def_ro("name", &OperatorMetrics::name)
      .def_ro("version", &OperatorMetrics::version,
              "0: all versions before the oldest one that is listed; of Metrics.totals, all versions.");
  bind_rows(type, kOperatorRows);
  type.def_prop_ro("mean", [](const OperatorMetrics& op) { return op.mean_ns() * 1e-9; })
      .def(
          "quantile", [](const OperatorMetrics& op, double q) { return op.times.quantile(q) * 1e-9; }, "q"_a,
          "The time that the share `q` (0 to 1) does not exceed, to within a fifth.")
      .def_prop_ro(
          "mean_wait", [](const OperatorMetrics& op) { return op.mean_wait_ns() * 1e-9; },
          "From the submission to the call of the operator; of nodes and tasks that operators make, in the ready queue.")
      .def_prop_ro("mean_bytes", &OperatorMetrics::mean_bytes, "That the arrays among the arguments of a task name.")
      .def("__repr__", [](const OperatorMetrics& op) {
        return "<dwell.OperatorMetrics " + op.name + (op.version == 0 ? "" : " (version " + std::to_string(op.version) + ")") + ", " +
               std::to_string(op.tasks) + " tasks>";
      });
}

void bind_observe(nb::module_& m) {
  bind_operator_metrics(m);
  nb::class_<WorkerMetrics> worker(m, "WorkerMetrics", "What one worker has done, of all leases. Times are in seconds.");
  bind_rows(worker, kWorkerRows);
  worker.def_prop_ro(
      "log_dropped", [](const WorkerMetrics& of) { return by_severity(of.log_dropped); },
      "Lines of its log that found no room, by severity.", nb::sig("def log_dropped(self) -> dict[str, int]"));
  nb::class_<Metrics> type(m, "Metrics",
                           "What a runtime has done, in numbers. Counts only grow: what happened in an interval is ``later - earlier``.");
  type.def_ro("device", &Metrics::device)
      .def_prop_ro("metering", [](const Metrics& metrics) { return text_of(metrics.metering); })
      .def_ro("operators", &Metrics::operators, "By version.")
      .def_prop_ro("totals", &Metrics::totals, "All versions of each operator together. Counts of one that is here only grow.")
      .def_ro("workers", &Metrics::workers);
  bind_rows(type, kMetricRows);
  type.def_prop_ro(
          "log_dropped", [](const Metrics& metrics) { return by_severity(metrics.log_dropped); }, "Lines that found no room, by severity.",
          nb::sig("def log_dropped(self) -> dict[str, int]"))
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
