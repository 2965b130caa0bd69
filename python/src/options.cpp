// Options, and what a runtime tells of itself.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <sstream>

#include "bind.hpp"
#include "fields.hpp"

namespace dwell::python {

using namespace nb::literals;

std::chrono::nanoseconds nanoseconds_from(double seconds, const char* name) {
  if (!(seconds >= 0 && seconds <= 9e9))
    throw Error(errc::invalid_argument, std::string(name) + " is a number of seconds, 0 or more, not " + std::to_string(seconds),
                {"argument", name});
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

namespace {

const char* text_of(Tier tier) { return tier == Tier::lto ? "lto" : "relocatable"; }

const char* text_of(Doing doing) {
  switch (doing) {
    case Doing::runs: return "runs";
    case Doing::waits_to_start: return "waits_to_start";
    case Doing::waits_for_host: return "waits_for_host";
    case Doing::waits_for_gang: return "waits_for_gang";
    case Doing::waits_to_run: return "waits_to_run";
    case Doing::parked: return "parked";
    case Doing::lost: return "lost";
  }
  return "";
}

}  // namespace

void bind_options(nb::module_& m) {
  nb::class_<CompileOptions>(
      m, "CompileOptions",
      "How a source is compiled. Those that are not given are the compiler's own; one that the device's compiler cannot\n"
      "honour is refused.")
      .def(
          "__init__",
          [](CompileOptions* self, std::string arch, int standard, bool fast_math, std::optional<bool> flush_denormals,
             std::optional<bool> contract, std::optional<bool> precise_division, std::optional<bool> precise_sqrt, unsigned max_registers,
             bool lto, bool line_info, bool debug, std::map<std::string, std::string> defines, std::vector<std::string> include_paths,
             std::map<std::string, std::string> headers, std::vector<std::string> flags) {
            new (self) CompileOptions{
                std::move(arch), standard, fast_math, flush_denormals, contract,           precise_division,         precise_sqrt,
                max_registers,   lto,      line_info, debug,           std::move(defines), std::move(include_paths), std::move(headers),
                std::move(flags)};
          },
          nb::kw_only(), "arch"_a = "", "standard"_a = 20, "fast_math"_a = false, "flush_denormals"_a = nb::none(),
          "contract"_a = nb::none(), "precise_division"_a = nb::none(), "precise_sqrt"_a = nb::none(), "max_registers"_a = 0,
          "lto"_a = false, "line_info"_a = false, "debug"_a = false, "defines"_a = std::map<std::string, std::string>(),
          "include_paths"_a = std::vector<std::string>(), "headers"_a = std::map<std::string, std::string>(),
          "flags"_a = std::vector<std::string>(),
          nb::sig(
              "def __init__(self, *, arch: str = '', standard: int = 20, fast_math: bool = False, flush_denormals: bool | None = None, "
              "contract: bool | None = None, precise_division: bool | None = None, precise_sqrt: bool | None = None, max_registers: int = "
              "0, lto: bool = False, line_info: bool = False, debug: bool = False, defines: dict[str, str] = {}, include_paths: "
              "typing.Sequence[str] = [], headers: dict[str, str] = {}, flags: typing.Sequence[str] = []) -> None"))
      .def_rw("arch", &CompileOptions::arch, "The real architecture, \"sm_90\"; empty: the device's own.")
      .def_rw("standard", &CompileOptions::standard, "The version of C++: 14, 17 or 20.")
      .def_rw("fast_math", &CompileOptions::fast_math)
      .def_rw("flush_denormals", &CompileOptions::flush_denormals)
      .def_rw("contract", &CompileOptions::contract, "a * b + c in one rounding.")
      .def_rw("precise_division", &CompileOptions::precise_division)
      .def_rw("precise_sqrt", &CompileOptions::precise_sqrt)
      .def_rw("max_registers", &CompileOptions::max_registers, "Registers that a thread may use, 24 to 255; 0: as many as it likes.")
      .def_rw("lto", &CompileOptions::lto)
      .def_rw("line_info", &CompileOptions::line_info)
      .def_rw("debug", &CompileOptions::debug)
      .def_rw("defines", &CompileOptions::defines, "Name (\"TILE\", \"SQUARE(x)\") to value.")
      .def_rw("include_paths", &CompileOptions::include_paths)
      .def_rw("headers", &CompileOptions::headers, "Name to text, found by #include before any file.")
      .def_rw("flags", &CompileOptions::flags, "For the compiler itself, behind all others.")
      .def(
          "__eq__", [](const CompileOptions& self, const CompileOptions& other) { return self == other; }, nb::is_operator(),
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def(
          "__repr__",
          [](nb::handle_t<CompileOptions> self) {
            const nb::object plain = nb::cast(CompileOptions());
            std::string text = "dwell.CompileOptions(";
            bool first = true;
            for (const char* const name :
                 {"arch", "standard", "fast_math", "flush_denormals", "contract", "precise_division", "precise_sqrt", "max_registers",
                  "lto", "line_info", "debug", "defines", "include_paths", "headers", "flags"}) {
              const nb::object value = self.attr(name);
              if (value.equal(plain.attr(name))) continue;
              text += std::string(first ? "" : ", ") + name + "=" + nb::cast<std::string>(nb::repr(value));
              first = false;
            }
            return text + ")";
          },
          nb::sig("def __repr__(self) -> str"));

  nb::class_<Limits>(m, "Limits",
                     "Limits of a runtime's image: an operator with which it would exceed one is refused with dwell.ResourceLimit.\n"
                     "0: no limit. The CPU has only min_workers.")
      .def(
          "__init__",
          [](Limits* self, unsigned registers, unsigned stack_bytes, unsigned shared_bytes, unsigned constant_bytes, unsigned barriers,
             unsigned min_workers) { new (self) Limits{registers, stack_bytes, shared_bytes, constant_bytes, barriers, min_workers}; },
          nb::kw_only(), "registers"_a = 0, "stack_bytes"_a = 0, "shared_bytes"_a = 0, "constant_bytes"_a = 0, "barriers"_a = 0,
          "min_workers"_a = 1)
      .def_rw("registers", &Limits::registers, "A thread.")
      .def_rw("stack_bytes", &Limits::stack_bytes, "A thread.")
      .def_rw("shared_bytes", &Limits::shared_bytes, "A worker, static.")
      .def_rw("constant_bytes", &Limits::constant_bytes)
      .def_rw("barriers", &Limits::barriers, "A worker; the loop takes 3.")
      .def_rw("min_workers", &Limits::min_workers, "Workers that the device must hold at once with the image.");

  nb::class_<RuntimeInfo> info(m, "RuntimeInfo",
                               "A runtime's device and its image's resources. A snapshot; what it has done is in Metrics.");
  using Info = RuntimeInfo;
  Fields<Info>(info, "RuntimeInfo")
      .add(
          "runtime", [](const Info& i) { return i.runtime; }, "Which one of this process, from 1.")
      .add(
          "generation", [](const Info& i) { return i.generation; }, "From 1, one more with each Runtime.rebuild.")
      .add(
          "device", [](const Info& i) { return i.device; }, "\"cpu\", \"cuda:0\".")
      .add(
          "device_name", [](const Info& i) { return i.device_name; }, "As the vendor names it.")
      .add(
          "compiler", [](const Info& i) { return i.compiler; }, "Name and version.")
      .add(
          "workers", [](const Info& i) { return i.workers; },
          "Of the image that runs; before the first definition as many as were asked for, which an image has at most.")
      .add(
          "crew", [](const Info& i) { return i.crew; }, "Workers that fetch; 0 before the first definition.")
      .add(
          "registers", [](const Info& i) { return i.registers; }, "A thread of the image; 0 on the CPU, as the next four.")
      .add(
          "stack_bytes", [](const Info& i) { return i.stack_bytes; }, "A thread.")
      .add(
          "shared_bytes", [](const Info& i) { return i.shared_bytes; }, "Static, a worker.")
      .add(
          "constant_bytes", [](const Info& i) { return i.constant_bytes; }, "Of the whole image.")
      .add(
          "barriers", [](const Info& i) { return i.barriers; }, "A worker.")
      .add(
          "tier", [](const Info& i) { return text_of(i.tier); }, "\"relocatable\" or \"lto\".")
      .finish();

  nb::class_<TaskState::OnWorker> on_worker(m, "OnWorker", "A worker that runs a part of a task.");
  using On = TaskState::OnWorker;
  Fields<On>(on_worker, "OnWorker")
      .add(
          "worker", [](const On& w) { return w.worker; }, "Its number.")
      .add(
          "node", [](const On& w) { return w.node; }, "Of a graph: the node with which it has begun.")
      .add(
          "since", [](const On& w) { return seconds_of(w.since); }, "For how long, in seconds.")
      .finish();
  nb::class_<TaskState> task(m, "TaskState", "A task, or launch of a graph, that is not complete.");
  using Task = TaskState;
  Fields<Task>(task, "TaskState")
      .add(
          "position", [](const Task& t) { return t.position; }, "Of its ticket.")
      .add(
          "name", [](const Task& t) { return t.name; }, "Operator and version.")
      .add(
          "graph", [](const Task& t) { return t.graph; }, "Whether it is the launch of a graph.")
      .add(
          "cancelled", [](const Task& t) { return t.cancelled; }, "Runtime.cancel has been called.")
      .add(
          "groups", [](const Task& t) { return t.groups; }, "Of a wide task or a gang.")
      .add(
          "doing", [](const Task& t) { return text_of(t.doing); },
          "\"runs\", \"waits_to_start\", \"waits_for_host\", \"waits_for_gang\", \"waits_to_run\", \"parked\" or \"lost\".")
      .add(
          "waits_for", [](const Task& t) { return t.waits_for; }, "Positions of the tasks that it waits for.")
      .add(
          "named", [](const Task& t) { return t.named; }, "What else it waits for.")
      .add(
          "workers", [](const Task& t) { return t.workers; }, "Those that run it.")
      .finish();
  nb::class_<Diagnosis> diagnosis(m, "Diagnosis", "What is not complete, and who waits for whom. ``str`` makes a text of it.");
  Fields<Diagnosis>(diagnosis, "Diagnosis")
      .add(
          "tasks", [](const Diagnosis& d) { return d.tasks; }, "The oldest 64 tasks, oldest first.")
      .add(
          "total", [](const Diagnosis& d) { return d.total; }, "How many are not complete.")
      .add(
          "cycles", [](const Diagnosis& d) { return d.cycles; }, "Positions of tasks that wait for each other in a circle.")
      .add(
          "workers", [](const Diagnosis& d) { return d.workers; }, "Of the image that runs.")
      .add(
          "busy", [](const Diagnosis& d) { return d.busy; }, "Those of them that run, or may run, a task.")
      .add(
          "parked", [](const Diagnosis& d) { return d.parked; }, "By Runtime.park.")
      .add(
          "stalled", [](const Diagnosis& d) { return d.stalled; }, "The watchdog has proved that nothing moves.")
      .finish();
  diagnosis.def("__str__", [](const Diagnosis& d) { return to_string(d); });

  nb::class_<DeviceSummary> device(m, "DeviceSummary", "A device as its driver describes it.");
  using Device = DeviceSummary;
  Fields<Device>(device, "DeviceSummary")
      .add(
          "device", [](const Device& d) { return d.device; }, "As Runtime takes it: \"cpu\", \"cuda:0\".")
      .add(
          "name", [](const Device& d) { return d.name; }, "As the vendor names it.")
      .add(
          "target", [](const Device& d) { return d.target; }, "What operators are compiled for: \"host\", \"sm_90\".")
      .add(
          "driver", [](const Device& d) { return d.driver; }, "The newest CUDA that its driver supports: \"CUDA 13.0\"; empty on the CPU.")
      .add(
          "memory_bytes", [](const Device& d) { return d.memory_bytes; }, "All of it.")
      .add(
          "multiprocessors", [](const Device& d) { return d.multiprocessors; }, "0 on the CPU.")
      .add(
          "workers", [](const Device& d) { return d.workers; }, "With workers=0.")
      .add(
          "problem", [](const Device& d) { return d.problem; }, "Why it cannot run dwell; empty when nothing is known against it.")
      .finish();
  m.def(
      "devices",
      [] {
        const Unlocked unlocked;
        return devices();
      },
      "The devices of this machine: the CPU first, then each CUDA device that the driver shows.");
  m.def("without_cuda", &without_cuda, "Why this build has no CUDA backend, and how to get one; empty where it has one.");
}

}  // namespace dwell::python
