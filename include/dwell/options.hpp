// How a runtime is set up.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <dwell/compile_options.hpp>
#include <dwell/log.hpp>
#include <dwell/memory_resource.hpp>
#include <dwell/metrics.hpp>
#include <dwell/parts.hpp>
#include <dwell/tier.hpp>

namespace dwell {

// Limits of a runtime's image. An operator with which it would exceed one is refused with errc::resource_limit, and the image that
// runs stays. Figures are those of the whole image, the loop included: registers and barriers are the most that any operator needs, shared
// memory and constants add up over all operators. `dwell doctor --image` prints them. 0: no limit. The CPU has none of these figures, so
// there only min_workers counts. An image with its operators inlined (Options::tier) that is over a limit does not take over either, of
// which Options::warn hears.
struct Limits {
  unsigned registers = 0;       // a thread
  unsigned stack_bytes = 0;     // a thread
  unsigned shared_bytes = 0;    // a worker, static; the memory of Group::shared is Options::scratch_bytes
  unsigned constant_bytes = 0;  // __constant__ variables and the table of operators
  unsigned barriers = 0;        // a worker; the loop takes 3
  // Workers that the device must hold at once with the image. An operator that needs many registers, much shared memory or high barriers
  // leaves room for fewer. 0 is taken as 1. More than Options::workers can be is an error when the runtime is opened.
  unsigned min_workers = 1;
};

// Which of the tasks of one priority that wait for a worker comes first: the one that has waited longest, or the last one.
enum class QueueOrder : std::uint8_t { fifo, lifo };

// The queues of tasks that wait for a worker, by priority.
struct Priorities {
  std::array<QueueOrder, 8> order = {};
};

// A plain aggregate: Options{.device = "cpu", .workers = 4}. Zero means "the backend's own choice" wherever a zero makes no sense.
struct Options {
  // "auto": the first CUDA device if its driver, NVRTC and nvJitLink can be opened, else the CPU. "cpu", "cuda:0", "cuda:1", ...
  std::string device = "auto";

  // Workers: thread blocks on CUDA (0: four a multiprocessor, or as many as fit), threads on the CPU (0: one less than the processors).
  unsigned workers = 0;

  // The longest that other CUDA calls wait, in total, for the loop to leave a busy device (cudaFree, module loading,
  // cudaDeviceSynchronize), as long as no operator runs longer. Leases roll meanwhile: each is 9/20 of this. 0: 1 ms on CUDA, 100 ms on the
  // CPU.
  std::chrono::nanoseconds lease{0};

  // How long the loop waits for work before it parks. A task that arrives later pays for a launch. 0: 500 us on CUDA, 100 us on the CPU.
  std::chrono::nanoseconds idle{0};

  // A task that runs longer than this, or a run of a repeated one, fails the runtime with errc::task_timeout. So does a runtime that is
  // being closed while no launch of an ordinary kernel ends for as long. 0: never.
  std::chrono::nanoseconds task_timeout = std::chrono::seconds(10);

  // A watchdog: when tasks are not complete and nothing moves for so long, every wait for them ends with errc::stalled, which names them
  // and who waits for whom. Neither an operator or a graph that runs counts as that, however long, nor what waits for the launch of a
  // kernel, for the callback of a host node that does something else than wait for this runtime, or for Runtime::resume. Choose more than
  // threads may be kept from a processor: a second is much. Twice in that time the loop leaves the device for a moment, while something is
  // suspected. 0: no watchdog.
  std::chrono::nanoseconds stall_timeout{0};

  // Slots of the submission ring: tasks in flight at most (a task with long arguments takes up to eight). A power of two from 128 on.
  unsigned ring_slots = 65536;

  // Tasks that operators have made and that are not complete, together with the tasks that have made them: as many at once, 64 a worker at
  // least, each 128 bytes of device memory. 0: 4096 and 2048 a worker. A task that is to make one more fails.
  unsigned spawned_tasks = 0;

  // Memory that Group::shared hands out, bytes a worker. On CUDA it is shared memory, and much of it leaves room for fewer workers.
  unsigned scratch_bytes = 8192;

  // Where Runtime::allocate gets memory of the device from (memory_resource.hpp); the runtime keeps it as long as its memory is in use.
  // Null: from a pool of the runtime's own.
  std::shared_ptr<MemoryResource> device_memory = {};

  // Lets tasks have priorities (dwell::priority). A task that finds no idle worker then goes through a queue of its priority: 40 ns more of
  // a worker of the CPU, some ways to L2 more on CUDA. Nothing: tasks begin in the order in which they may.
  std::optional<Priorities> priorities = {};

  // How operators are compiled when Definition::options says nothing else, and programs of kernels when Runtime::compile is given none.
  CompileOptions compile = {};

  // Threads that compile what define_async and redefine_async ask for, started when needed. 0: half of the processors, one to eight.
  unsigned compile_threads = 0;

  // How the image calls its operators. Nothing: a new operator runs from a relocatable image at once, and once the set of operators has
  // stood for a while and is in use, an image with all of them inlined is made in the background and takes over. Either tier can be
  // pinned; Tier::lto makes each definition wait for link-time optimisation, and is errc::unsupported on the CPU.
  std::optional<Tier> tier = {};

  // Parts that the loop on a GPU has from the start, beside plain and wide tasks: {Part::links, Part::graphs}, or Parts::all. The first use
  // of any other part links an image with all parts. That call waits as a definition does: for the image, and for the tasks that run. It
  // never returns when one of these tasks waits for the caller; `warn` is told after a second. An operator that makes tasks brings all
  // parts with its definition. A loop with a set that no process has named before takes the compiler 2 s at the first definition, and comes
  // out of the cache afterwards. All parts are four times the code: a new version of an operator keeps other tasks waiting four times as
  // long. The CPU's loop has all parts.
  Parts parts = Parts::used;

  // The share of the device that operators may take.
  Limits limits = {};

  // Tasks of one program over tensors (Batch) after which it is compiled in the background to an operator of its own, which gives the same
  // bits; up to 64 programs are. 0: never. In a capture, programs of 16 instructions or more are compiled with the first.
  std::uint32_t compile_programs_after = 1000;

  // The loop is on the device in bursts alone: tasks wait until Runtime::burst runs those submitted before, in the order of a CUDA stream,
  // or until somebody waits for them, or for room in the ring. `lease` and `idle` mean nothing then. `submit` waits on the host for
  // launches of ordinary kernels that the task waits for, and callbacks of host nodes must not call CUDA (docs/leases.md).
  bool bursts = false;

  // What the device notes of each task (Runtime::metrics). On a GPU counts cost a hundredth of the throughput, times a twelfth, and some
  // hundred ns a node of a chain, whose steps then take the long way.
  Metering metrics = Metering::counts;

  // Lets other processes of the same user look at the runtime while it works (dwell top, trace, logs, stuck), and keeps what each worker
  // did last in shared memory, so that it can be read when the process has been killed (dwell post-mortem). The environment variable
  // DWELL_LIVE set to `off` keeps others from looking.
  bool live = true;

  // Lets Runtime::assign write variables of operators.
  bool inspect_writes = false;

  // What operators log, and where that goes.
  Logging log = {};

  // Called with one line when something works, but not as well as it could (a cache that cannot be written). Empty: such lines are
  // dropped. May be called from any thread.
  std::function<void(std::string_view)> warn = {};
};

}  // namespace dwell
