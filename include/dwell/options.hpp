// Options of a runtime.
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
#include <dwell/heap.hpp>
#include <dwell/log.hpp>
#include <dwell/memory_resource.hpp>
#include <dwell/metrics.hpp>
#include <dwell/parts.hpp>
#include <dwell/tier.hpp>

namespace dwell {

// Limits of a runtime's image. An operator that would exceed one is refused with errc::resource_limit, and the running image stays. Figures
// are those of the whole image, the loop included: registers and barriers are the maximum over all operators, shared memory and constants
// the sum. `dwell doctor --image` prints them. 0: no limit. On the CPU only min_workers applies. An image with inlined operators
// (Options::tier) that exceeds a limit is not used either, and Options::warn reports it.
struct Limits {
  unsigned registers = 0;       // a thread
  unsigned stack_bytes = 0;     // a thread
  unsigned shared_bytes = 0;    // a worker, static; the memory of Group::shared is Options::scratch_bytes
  unsigned constant_bytes = 0;  // __constant__ variables and the table of operators
  unsigned barriers = 0;        // a worker; the loop takes 3
  // Workers that must be resident at once with the image. Operators that need many registers, much shared memory or many barriers leave
  // room for fewer. 0 means 1. A value above the possible Options::workers is an error when the runtime is opened.
  unsigned min_workers = 1;
};

// The order of waiting tasks of one priority: oldest first, or newest first.
enum class QueueOrder : std::uint8_t { fifo, lifo };

// The queues of tasks that wait for a worker, by priority.
struct Priorities {
  std::array<QueueOrder, 8> order = {};
};

// An aggregate: Options{.device = "cpu", .workers = 4}. Where 0 is no valid value, it means the backend's choice.
struct Options {
  // "auto": the first CUDA device if its driver, NVRTC and nvJitLink can be opened, else the CPU. "cpu", "cuda:0", "cuda:1", ...
  std::string device = "auto";

  // Workers: thread blocks on CUDA (0: four a multiprocessor, or as many as fit), threads on the CPU (0: one less than the processors).
  unsigned workers = 0;

  // Bound on the total wait of other CUDA calls (cudaFree, module loading, cudaDeviceSynchronize) for the loop to leave a busy device,
  // unless an operator runs longer. Leases roll meanwhile: each is 9/20 of this. 0: 1 ms on CUDA, 100 ms on the CPU.
  std::chrono::nanoseconds lease{0};

  // How long the loop waits for work before it parks. A task that arrives later pays for a launch. 0: 500 us on CUDA, 100 us on the CPU.
  std::chrono::nanoseconds idle{0};

  // Limit of a task's run time, or of one run of a repeated task; beyond it the runtime fails with errc::task_timeout. Runtime::close
  // throws the same if no launch of an ordinary kernel ends for that long. 0: no limit.
  std::chrono::nanoseconds task_timeout = std::chrono::seconds(10);

  // Watchdog: if incomplete tasks make no progress for this long, every wait for them ends with errc::stalled, which names them and who
  // waits for whom. A running operator or graph counts as progress, however long. So do waits for the launch of a kernel, for
  // Runtime::resume, and for the callback of a host node, unless that waits for this runtime. Choose more than the longest time for which
  // the scheduler may preempt threads: a second is ample. While it suspects a stall, the loop leaves the device briefly, twice in that
  // time. 0: no watchdog.
  std::chrono::nanoseconds stall_timeout{0};

  // Slots of the submission ring: tasks in flight at most (a task with long arguments takes up to eight). A power of two from 128 on.
  unsigned ring_slots = 65536;

  // Limit of incomplete tasks that operators have made, together with the tasks that made them. At least 64 a worker; each takes 128 bytes
  // of device memory. 0: 4096 and 2048 a worker. A task that would exceed it fails.
  unsigned spawned_tasks = 0;

  // Memory of Group::shared, bytes a worker. On CUDA it is shared memory; large values leave room for fewer workers.
  unsigned scratch_bytes = 8192;

  // Memory that operators allocate (Group::make, Heap).
  HeapOptions heap = {};

  // Source of Runtime::allocate's device memory (memory_resource.hpp); the runtime keeps it alive while its memory is in use. Null: the
  // runtime's own pool.
  std::shared_ptr<MemoryResource> device_memory = {};

  // Enables priorities of tasks (dwell::priority). A task that finds no idle worker then passes through the queue of its priority: 40 ns
  // more of a CPU worker, some more L2 accesses on CUDA. Empty: tasks begin in the order in which they become ready.
  std::optional<Priorities> priorities = {};

  // Default compile options, for operators without Definition::options and for Runtime::compile without options.
  CompileOptions compile = {};

  // Compile threads for define_async and redefine_async, started when needed. 0: half of the processors, one to eight.
  unsigned compile_threads = 0;

  // How the image calls its operators. Empty: a new operator runs from a relocatable image at once; once the set of operators has been
  // stable for a while and is in use, an image with all of them inlined is built in the background and takes over. Either tier can be
  // pinned. Tier::lto makes each definition wait for link-time optimisation, and is errc::unsupported on the CPU.
  std::optional<Tier> tier = {};

  // Parts that a GPU's loop contains from the start, beside plain and wide tasks: {Part::links, Part::graphs}, or Parts::all. The first use
  // of any other part links an image with all parts. That call waits as a definition does: for the image, and for running tasks. It never
  // returns if one of these tasks waits for the caller; `warn` reports it after a second. The definition of an operator that makes tasks
  // adds all parts. The first definition with a new set of parts compiles the loop in 2 s; later processes read it from the cache. All
  // parts are four times the code: a new version of an operator keeps other tasks waiting four times as long. The CPU's loop has all parts.
  Parts parts = Parts::used;

  // Limits of the image.
  Limits limits = {};

  // Number of tasks of one tensor program (Batch) after which it is compiled in the background to an operator of its own, with identical
  // results. Up to 64 programs are compiled. 0: never. In a capture, programs of 16 instructions or more are compiled at the first task.
  std::uint32_t compile_programs_after = 1000;

  // Runs the loop only in bursts: tasks wait until Runtime::burst runs those submitted before, in the order of a CUDA stream, or until
  // somebody waits for them, or for room in the ring. `lease` and `idle` are ignored then. `submit` waits on the host for ordinary kernels
  // that precede the task, and callbacks of host nodes must not call CUDA (docs/leases.md).
  bool bursts = false;

  // What the device records of each task (Runtime::metrics). On a GPU counts cost a hundredth of the throughput, times a twelfth. Times
  // also cost some hundred ns a node of a chain, which then takes the slow path.
  Metering metrics = Metering::counts;

  // Lets other processes of the same user inspect the running runtime (dwell top, trace, logs, stuck). Also records the last actions of
  // each worker in shared memory, readable after the process was killed (dwell post-mortem). DWELL_LIVE=off in the environment disables
  // access by other processes.
  bool live = true;

  // Lets Runtime::assign write variables of operators.
  bool inspect_writes = false;

  // Logging of operators.
  Logging log = {};

  // Called with one line for degraded operation (a cache that cannot be written). Empty: such lines are
  // dropped. May be called from any thread.
  std::function<void(std::string_view)> warn = {};
};

}  // namespace dwell
