#include "log.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include <charconv>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "bind.hpp"
#include "fields.hpp"
#include "guard.hpp"

namespace dwell::python {

using namespace nb::literals;

level level_from(std::string_view text) {
  for (const level one : {level::trace, level::debug, level::info, level::warning, level::error, level::off})
    if (text == dwell::text_of(one)) return one;
  throw Error(errc::invalid_argument,
              "a level of the log is \"trace\", \"debug\", \"info\", \"warning\", \"error\" or \"off\", not \"" + std::string(text) + "\"",
              {"argument", "level"});
}

namespace {

// Splits "add (version 2)" into name and version; 0 without a version.
std::pair<std::string, unsigned> operator_of(const LogRecord& record) {
  constexpr std::string_view kBegin = " (version ";
  const std::string_view text = record.op;
  const std::size_t at = text.rfind(kBegin);
  unsigned version = 0;
  if (at == std::string_view::npos) return {record.op, version};
  const std::string_view number = text.substr(at + kBegin.size());
  std::from_chars(number.data(), number.data() + number.size(), version);
  return {std::string(text.substr(0, at)), version};
}

// Calls `called` with each line, on the runtime's thread of the log.
std::function<void(const LogRecord&)> sink_to(const Shared& called) {
  return [called](const LogRecord& record) {
    const CallbackScope scope;
    if (!scope.entered() || called.get() == nullptr) return;
    const nb::object callable = nb::borrow(called.get());
    try {
      callable(record);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable(callable);
    }
  };
}

// dwell.Logs. Threads that share one take turns.
class LineReader {
 public:
  LineReader(Logs logs, double wait) : logs_(std::move(logs)), wait_(wait) {}

  std::optional<LogRecord> next() {
    using Clock = std::chrono::steady_clock;
    require_epoch(epoch_, "the reader of the log");
    std::optional<LogRecord> record;
    wait_in_slices(wait_, [&](std::chrono::nanoseconds slice) {
      const std::lock_guard lock(mutex_);
      const auto begin = Clock::now();
      record = logs_.next(slice);
      // Nothing before the time is over: the runtime has ended.
      return record.has_value() || Clock::now() - begin < slice;
    });
    return record;
  }
  std::uint64_t missed() {
    const Guard guard(mutex_);
    return logs_.missed();
  }

 private:
  std::mutex mutex_;
  Logs logs_;
  const double wait_;
  const std::uint32_t epoch_ = fork_epoch();
};

}  // namespace

LogTarget log_target_from(nb::handle log) {
  LogTarget made;
  if (log.is_none()) return made;
  const nb::tuple checked(nb::module_::import_("dwell._logging").attr("checked")(log));
  Logging& logging = made.logging;
  if (const nb::object callable = checked[0]; !callable.is_none()) {
    made.called = Shared(callable);
    logging.sink = sink_to(made.called);
  }
  logging.file = nb::cast<std::string>(checked[1]);
  logging.from = level_from(nb::cast<std::string>(checked[2]));
  logging.per_site_per_second = nb::cast<unsigned>(checked[3]);
  logging.kept = nb::cast<std::size_t>(checked[4]);
  logging.ring_lines = nb::cast<unsigned>(checked[5]);
  logging.file_bytes = nb::cast<std::uint64_t>(checked[6]);
  logging.files = nb::cast<unsigned>(checked[7]);
  return made;
}

nb::object logs_of(Runtime& runtime, double wait) {
  static_cast<void>(nanoseconds_from(wait, "wait"));
  std::unique_ptr<LineReader> made;
  {
    // It waits for the thread that calls the sink.
    const Unlocked unlocked;
    made = std::make_unique<LineReader>(runtime.logs(), wait);
  }
  return nb::cast(std::move(made));
}

void bind_log(nb::module_& m) {
  nb::class_<LogRecord> line(m, "LogRecord", "A line that an operator has logged. ``str`` makes of it what stderr shows.");
  using Record = LogRecord;
  Fields<Record>(line, "LogRecord")
      .add(
          "severity", [](const Record& r) { return dwell::text_of(r.severity); },
          "\"trace\", \"debug\", \"info\", \"warning\" or \"error\".")
      .add(
          "text", [](const Record& r) { return r.text; }, "What it says.")
      .add(
          "operator", [](const Record& r) { return operator_of(r).first; }, "The name of the operator.")
      .add(
          "version", [](const Record& r) { return operator_of(r).second; }, "Which version of it, from 1.")
      .add(
          "worker", [](const Record& r) { return r.worker; }, "The number of the worker that ran it.")
      .add(
          "ticket", [](const Record& r) { return r.has_position ? std::optional(r.position) : std::nullopt; },
          "The position of the task's ticket, of a node that of its launch; None for tasks that operators have made, and for nodes of\n"
          "graphs that operators have launched.")
      .add(
          "node", [](const Record& r) { return r.node; }, "Of a node of a graph: its name, \"#3\" without one; else empty.")
      .add(
          "graph", [](const Record& r) { return r.graph; }, "The name of that graph; empty without one.")
      .add(
          "time", [](const Record& r) { return std::chrono::duration<double>(r.at.time_since_epoch()).count(); },
          "When it was logged, by the device, on the clock of ``time.monotonic``.")
      .finish();
  line.def("__str__", [](const Record& r) { return to_string(r); });

  nb::class_<LineReader>(m, "Logs",
                         "The lines that a runtime keeps, oldest first, and those that come: an iterator, made by ``Runtime.logs``. Each "
                         "has a\n"
                         "place of its own.")
      .def(
          "__iter__", [](nb::handle_t<LineReader> self) { return nb::borrow(self); }, nb::sig("def __iter__(self) -> Logs"))
      .def(
          "__next__",
          [](LineReader& self) {
            std::optional<LogRecord> record = self.next();
            if (!record) throw nb::stop_iteration();
            return *std::move(record);
          },
          nb::sig("def __next__(self) -> LogRecord"))
      .def_prop_ro("missed", &LineReader::missed, "Lines that were forgotten before they were read.");
}

}  // namespace dwell::python
