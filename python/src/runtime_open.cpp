// How a dwell.Runtime is opened.
#include <dlfcn.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bind.hpp"
#include "log.hpp"
#include "runtime.hpp"

namespace dwell::python {

using namespace nb::literals;

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

HeapChecks checks_from(const std::string& text) {
  if (text == "off") return HeapChecks::off;
  if (text == "light") return HeapChecks::light;
  if (text == "full") return HeapChecks::full;
  throw Error(errc::invalid_argument, "heap_checks is \"off\", \"light\" or \"full\", not \"" + text + "\"", {"argument", "heap_checks"});
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

Parts parts_from(nb::handle object) {
  const auto refused = [](nb::handle one) {
    std::string names;
    for (const std::string_view name : kPartNames) names += std::string(names.empty() ? "" : ", ") + std::string(name);
    return Error(errc::invalid_argument,
                 "parts is \"used\", \"all\", or a list of some of " + names + ", not " + nb::cast<std::string>(nb::repr(one)),
                 {"argument", "parts"});
  };
  if (PyUnicode_Check(object.ptr())) {
    const std::string text = nb::cast<std::string>(nb::str(object));
    if (text != "used" && text != "all") throw refused(object);
    return text == "all" ? Parts::all : Parts::used;
  }
  if (!nb::isinstance<nb::iterable>(object)) throw refused(object);
  Parts parts;
  for (const nb::handle one : nb::tuple(nb::borrow(object))) {
    const auto at = std::ranges::find(kPartNames, nb::cast<std::string>(nb::str(one)));
    if (at == kPartNames.end()) throw refused(one);
    parts.add(static_cast<Part>(at - kPartNames.begin()));
  }
  return parts;
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
                  nb::handle parts, const std::optional<Limits>& limits, std::uint32_t compile_programs_after, std::string_view metrics,
                  bool live, bool inspect_writes, std::size_t heap_reserve, std::size_t heap_grow, const std::string& heap_checks,
                  nb::handle log, nb::object warn, const nb::object& progress) {
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
  options.parts = parts_from(parts);
  if (limits) options.limits = *limits;
  options.compile_programs_after = compile_programs_after;
  options.metrics = metering_from(metrics);
  options.live = live;
  options.inspect_writes = inspect_writes;
  options.heap.reserve = heap_reserve;
  options.heap.grow = heap_grow;
  options.heap.checks = checks_from(heap_checks);
  LogTarget lines = log_target_from(log);
  options.log = std::move(lines.logging);
  const Shared warned(std::move(warn));
  options.warn = warning(warned);
  if (options.device != "cpu") open_packaged_compilers();
  Shared told(progress.is_none() ? progress : nb::module_::import_("dwell._progress").attr("checked")(progress));
  new (self) PyRuntime{open_runtime(std::move(options), {std::move(lines.called), warned}, std::move(told))};
}

}  // namespace

void bind_runtime_opening(nb::class_<PyRuntime>& type) {
  type.def(
      "__init__", &make_runtime, "device"_a = "auto", nb::kw_only(), "workers"_a = 0, "lease"_a = 0.0, "idle"_a = 0.0,
      "task_timeout"_a = 10.0, "stall_timeout"_a = 0.0, "ring_slots"_a = 65536, "spawned_tasks"_a = 0, "scratch_bytes"_a = 8192,
      "priorities"_a = nb::none(), "compile"_a = nb::none(), "compile_threads"_a = 0, "tier"_a = nb::none(), "parts"_a = "used",
      "limits"_a = nb::none(), "compile_programs_after"_a = 1000, "metrics"_a = "counts", "live"_a = true, "inspect_writes"_a = false,
      "heap_reserve"_a = 0, "heap_grow"_a = 0, "heap_checks"_a = "light", "log"_a = nb::none(), "warn"_a = nb::none(),
      "progress"_a = nb::none(),
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
      "parts: what the loop on a GPU can do from the start, beside plain and wide tasks: \"used\", nothing; \"all\"; or a list of\n"
      "    \"links\", \"gates\", \"priorities\", \"gangs\", \"graphs\", \"times\" and \"repeats\". The first use of anything else brings\n"
      "    all; it waits for an image and for the tasks that run\n"
      "limits: Limits of the image\n"
      "compile_programs_after: tasks of one program over tensors after which it is compiled; 0: never\n"
      "metrics: what the device notes of tasks: \"off\", \"counts\" or \"times\"\n"
      "live: lets other processes of the user look at the runtime (dwell top)\n"
      "inspect_writes: lets Runtime.assign write variables of operators\n"
      "heap_reserve: bytes that the heap may grow to; 0: the device's memory, at most 64 GiB\n"
      "heap_grow: by how many bytes it grows at least; 0: 64 MiB\n"
      "heap_checks: \"off\"; \"light\": each free; \"full\": also writes behind the end of memory, and after its free\n"
      "log: where lines go that operators log: a logging.Logger or its name, a callable that takes a dwell.LogRecord, a path\n"
      "    (pathlib.Path), None: stderr; or a dwell.Logging, which has a level and limits too\n"
      "warn: called with one line when something works, but not as well as it could; None: the logger \"dwell\"\n"
      "progress: who is told of a wait for a compiler that has taken a second, then each second and at the end: a callable\n"
      "    (name, seconds, done), called on a thread of its own, at the end on the thread that has waited; True: a line on stderr,\n"
      "    which goes at the end; None: that line where stderr is a terminal; False: nobody",
      nb::sig(
          "def __init__(self, device: str = 'auto', *, workers: int = 0, lease: float = 0.0, idle: float = 0.0, task_timeout: float = "
          "10.0, "
          "stall_timeout: float = 0.0, ring_slots: int = 65536, spawned_tasks: int = 0, scratch_bytes: int = 8192, priorities: bool | "
          "str | typing.Sequence[str] | None = None, compile: CompileOptions | None = None, compile_threads: int = 0, tier: str | None "
          "= None, parts: str | typing.Sequence[str] = 'used', limits: Limits | None = None, compile_programs_after: int = 1000, metrics: "
          "str = 'counts', live: "
          "bool = True, "
          "inspect_writes: bool = False, heap_reserve: int = 0, heap_grow: int = 0, heap_checks: str = 'light', log: "
          "dwell._logging.Logging | logging.Logger | str | os.PathLike[str] | typing.Callable[[LogRecord], object] | None = None, "
          "warn: "
          "typing.Callable[[str], object] | None = None, progress: bool | typing.Callable[[str, float, bool], object] | None = None) -> "
          "None"));
}

}  // namespace dwell::python
