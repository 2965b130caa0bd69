// The runtime: a device, its resident loop, and everything that is submitted to it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <dwell/after.hpp>
#include <dwell/arguments.hpp>
#include <dwell/buffer.hpp>
#include <dwell/compile_options.hpp>
#include <dwell/detail/task.hpp>
#include <dwell/diagnosis.hpp>
#include <dwell/graph.hpp>
#include <dwell/heap.hpp>
#include <dwell/image.hpp>
#include <dwell/inspect.hpp>
#include <dwell/log.hpp>
#include <dwell/metrics.hpp>
#include <dwell/module.hpp>
#include <dwell/operator.hpp>
#include <dwell/options.hpp>
#include <dwell/preemption.hpp>
#include <dwell/ring.hpp>
#include <dwell/stream.hpp>
#include <dwell/task.hpp>
#include <dwell/ticket.hpp>
#include <dwell/trace.hpp>

namespace dwell {

namespace runtime {
class Core;
}
class Batch;

// A runtime's device and its image's resources. A snapshot; what it has done is in Metrics.
struct RuntimeInfo {
  std::uint64_t runtime = 0;     // its number in this process, from 1
  std::uint32_t generation = 0;  // from 1, one more with each Runtime::rebuild
  std::string device;            // "cpu", "cuda:0"
  std::string device_name;       // as the vendor names it
  std::string compiler;          // name and version
  std::uint32_t workers = 0;     // of the current image; before the first definition the requested number, which is an upper bound
  std::uint32_t crew = 0;        // workers that fetch; 0 before the first definition
  std::uint32_t registers = 0;   // a thread of the image; this and all that follow are 0 on the CPU
  std::uint32_t stack_bytes = 0;
  std::uint32_t shared_bytes = 0;    // static
  std::uint32_t constant_bytes = 0;  // of the whole image, the table of operators included
  std::uint32_t barriers = 0;        // a worker
  Tier tier = Tier::relocatable;     // of the image that runs
};

// What close does with tasks in flight: runs all of them, or starts no more.
enum class Close : std::uint8_t { when_done, now };

// Owns a device's resident loop. Several may live in one process, on one device too. All members may be called from any thread, except
// that close (and the destructor) and rebuild must not overlap other calls on the same object; tickets, buffers and operators may still be
// used meanwhile.
class Runtime {
 public:
  // Opens the device. Throws errc::device_unavailable, errc::compiler_unavailable, errc::invalid_argument, errc::out_of_memory.
  explicit Runtime(Options options = {});
  // Calls close() and drops its errors. In a callback of the runtime, for which close would wait, a new thread calls it once the callback
  // has returned; code that std::exit runs there does not count as the callback. Does nothing in a forked child, which may only destroy the
  // parent's runtimes, buffers and modules.
  ~Runtime();
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Compiles `source`, which defines DWELL_OPERATOR(name), and links it into the image. Throws errc::compile_failed,
  // errc::operator_not_found, errc::link_failed, errc::resource_limit, errc::invalid_argument (the name exists, or is no identifier; an
  // unknown compiler option).
  Operator<> define(std::string_view name, const Source& source, const Definition& how = {});
  // As above, with a handle whose arguments are checked at compile time: define<void(float, Span<float>)>(...). Also throws
  // errc::signature_mismatch.
  template <class Function>
  Operator<Function> define(std::string_view name, const Source& source, const Definition& how = {}) {
    return Operator<Function>(define(name, source, how));
  }
  // As define, in the background: returns at once, and the future holds define's errors. Definitions are compiled in parallel
  // (Options::compile_threads) and share hand-overs. A request equal to a pending or completed one returns its operator. Throws
  // errc::closed, and errc::invalid_argument for a name that is invalid or exists.
  std::shared_future<Operator<>> define_async(std::string_view name, const Source& source, const Definition& how = {},
                                              Async<Operator<>> async = {});

  // The image that runs now. Throws errc::invalid_argument before the first definition.
  Image image() const;

  // Compiles a program of ordinary kernels (CUDA C++ with grid and block, not operators) and loads it beside the resident loop. The text is
  // compiled unchanged; it may include dwell's device headers and CUDA's own. `expressions` are the instantiations of kernel templates in
  // their C++ spelling: {"axpy<float>", "reduce<double, 256>"}. The default options are Options::compile.
  // Throws errc::compile_failed, errc::operator_not_found (an expression names no kernel), errc::link_failed (the program does not load),
  // errc::invalid_argument, and errc::unsupported on the CPU.
  Module compile(const Source& source, const std::optional<CompileOptions>& options = {}, const std::vector<std::string>& expressions = {});

  // Makes a stream for launches beside those of other streams. Throws errc::unsupported on the CPU, errc::closed, errc::device_lost.
  Stream make_stream();

  // Allocates cleared memory for `count` elements; device memory comes from Options::device_memory if that is set. Throws
  // errc::out_of_memory, errc::invalid_argument (too many elements; unusable memory of a resource), and what a resource throws.
  template <class T>
  Buffer<T> allocate(std::size_t count, Memory memory = Memory::device) {
    return Buffer<T>(allocate_bytes(count, sizeof(T), memory), count);
  }

  // Wraps foreign memory in a buffer, without a copy: `count` elements at `pointer`, in device memory (of PyTorch, of the program's
  // cudaMalloc), managed or pinned host memory (cudaHostAlloc, cudaHostRegister), and on the CPU any memory of the process. Queries where
  // the memory lies, so that tasks on device memory do not pay for the wider fence of host memory.
  // `keep_alive` is dropped when the buffer has been dropped and the last task and launch that name it have ended, or with the runtime. The
  // thread that drops the buffer, another that uses the runtime's buffers, or one of the runtime drops it. Its deleter may use the runtime,
  // but must not close or rebuild it. If it is null, the caller keeps the memory until then. The caller synchronizes other users of the
  // memory.
  // Throws errc::invalid_argument for null, a count that is too large, a pointer that is not aligned for T, and on CUDA for
  // pageable host memory, memory of another device, and memory of fewer bytes; then `keep_alive` is dropped.
  // NOLINTBEGIN(performance-unnecessary-value-param): moved from, which the check does not see in a template
  template <class T>
  requires(!std::is_void_v<T>) Buffer<T> wrap(T* pointer, std::size_t count, std::shared_ptr<void> keep_alive = {}) {
    return Buffer<T>(wrap_bytes(pointer, count, sizeof(T), alignof(T), std::move(keep_alive)), count);
  }
  // NOLINTEND(performance-unnecessary-value-param)
  Buffer<std::byte> wrap(void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive = {}) {
    return Buffer<std::byte>(wrap_bytes(pointer, bytes, 1, 1, std::move(keep_alive)), bytes);
  }

  // Makes a ring of `slots` messages, a power of two, between operators, or between operators and the host (RingOptions). Throws
  // errc::invalid_argument (a number of slots that is no power of two, both ends on the host), errc::out_of_memory.
  template <class T>
  RingBuffer<T> ring(std::size_t slots, const RingOptions& options = {}) {
    return RingBuffer<T>(make_ring(slots, device::RingWords<T>::quads * 16, sizeof(T), options));
  }
  // Makes a ring of `bytes`, a power of two from 64 on, for messages of any size up to RingOptions::message_bytes. Each takes a multiple of
  // 64 bytes. Throws as above, and errc::invalid_argument for messages larger than half of the ring or 4 MiB.
  ByteRingBuffer byte_ring(std::size_t bytes, const RingOptions& options = {});

  // Submits a task: the operator's arguments (Buffer or Slice for a Span, GraphExec for an Exec, RingBuffer for a Ring), then any of
  // groups(n), link, hard_link, drain, after(tickets...), after_any_result(tickets...). Waits while the ring is full, or, for arguments
  // beyond 372 bytes, while 8 MiB of about that size are in flight. Keeps a GraphExec until the task is complete. If operators or arguments
  // of its graph have changed since its last launch, the task waits until no earlier task may launch it. Throws errc::signature_mismatch,
  // errc::stale_handle, errc::device_lost, errc::task_timeout, errc::closed, and errc::stalled while it waits.
  template <class Function, class... Given>
  Ticket submit(const Operator<Function>& op, const Given&... arguments) {
    detail::Rest<Given...> rest;
    const detail::Task task = pack(rest.word, rest.wait_list(), rest.exec_list(), op, arguments...);
    if constexpr (detail::kAlwaysPlain<Given...>)
      return Ticket(shell_, enqueue_plain(op.state(), task.first));
    else
      return Ticket(shell_, enqueue(op.state(), task));
  }
  // As submit, but returns nothing at once when the ring is full.
  template <class Function, class... Given>
  std::optional<Ticket> try_submit(const Operator<Function>& op, const Given&... arguments) {
    detail::Rest<Given...> rest;
    const std::optional<std::uint64_t> position =
        try_enqueue(op.state(), pack(rest.word, rest.wait_list(), rest.exec_list(), op, arguments...));
    if (!position) return std::nullopt;
    return Ticket(shell_, *position);
  }

  // As submit and try_submit, with arguments collected at run time.
  Ticket submit(const Operator<>& op, const Arguments& arguments) {
    check_arguments(op, arguments);
    return Ticket(shell_, enqueue(op.state(), arguments.task_for(shell_)));
  }
  std::optional<Ticket> try_submit(const Operator<>& op, const Arguments& arguments) {
    check_arguments(op, arguments);
    const std::optional<std::uint64_t> position = try_enqueue(op.state(), arguments.task_for(shell_));
    if (!position) return std::nullopt;
    return Ticket(shell_, *position);
  }

  // Submits `count` tasks of one operator with few reservations: `each(i, put)` is called for i = 0 .. count - 1 and calls put with
  // the arguments of task i once. The tasks are in order; other threads' tasks may come between. Returns the last one's ticket (an empty
  // one for none). If a call of `each` throws, earlier tasks are submitted, and its own is not. Likewise if a call puts no task, or
  // several: then submit_many throws errc::invalid_argument, which names the call.
  template <class Function, class Each>
  Ticket submit_many(const Operator<Function>& op, std::size_t count, Each&& each) {
    detail::Batch batch;
    detail::Task long_task;  // the current call's task, if it takes several slots or has an order
    std::uint32_t rest[detail::kMaxWords - detail::kFirstSlotWords];
    std::vector<std::uint32_t> long_rest;  // the arguments that do not fit the ring
    detail::Waits waits;
    detail::ExecList<kMaxParameters> execs;
    std::uint64_t last = 0;
    const auto flush = [&] {
      if (batch.size != 0) last = enqueue_plain(op.state(), batch);
    };
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t puts = 0;
      bool is_long = false;
      const std::size_t before = batch.size;
      try {
        each(i, [&](const auto&... list) {
          if (++puts > 1) return;
          constexpr std::uint32_t words = detail::Rest<std::remove_cvref_t<decltype(list)>...>::words;
          if constexpr (words > detail::kMaxWords) long_rest.resize(words);
          waits.count = 0;
          const detail::Task task = pack(words > detail::kMaxWords ? long_rest.data() : rest, &waits, execs.state, op, list...);
          if (detail::kAlwaysPlain<std::remove_cvref_t<decltype(list)>...> || task.plain()) {
            batch.add(task.first);
          } else {
            long_task = task;
            is_long = true;
          }
        });
        if (puts != 1) [[unlikely]]
          detail::throw_bad_puts(i, puts);
      } catch (...) {
        batch.size = before;
        flush();
        throw;
      }
      if (is_long || batch.size == detail::Batch::kMost) flush();
      if (is_long) last = enqueue(op.state(), long_task);
    }
    flush();
    return count == 0 ? Ticket() : Ticket(shell_, last);
  }

  // As above, with arguments collected at run time. Checks all before it submits the first.
  Ticket submit_many(const Operator<>& op, std::span<const Arguments> rows);

  // Captures tasks into a graph: calls `tasks`, and turns each task that the calling thread submits meanwhile to this runtime (submit,
  // try_submit, submit_many) into a node instead of running it. Edges follow from memory, and from link, drain and after: a node that
  // writes through one of its spans runs after all earlier readers and writers of these bytes, a node that reads (Span<const T>) after the
  // last writer. Pointers inside structs are not tracked. Tickets of captured tasks are valid only for `after` in the same capture.
  // Everything else in `tasks`, such as reads of buffers and launches, happens at once.
  // Rethrows exceptions of `tasks` and returns no graph. Throws errc::unsupported inside for hard_link, after_any_result and launches of
  // graphs; errc::invalid_argument for nested captures.
  Graph capture(const std::function<void()>& tasks);

  // Prepares a graph for launches: validates it and copies it to device memory. The graph may be changed or destroyed afterwards. Throws
  // errc::invalid_argument (a cycle, which the message lists; a buffer that was dropped; operators of another runtime; a gang of more
  // groups than there are workers), errc::stale_handle, errc::out_of_memory, errc::closed.
  GraphExec instantiate(const Graph& graph);
  // Runs all nodes of a graph once, in order, as one task, which link, hard_link, drain and after order too. The ticket is complete when
  // all nodes are. Independent nodes still run after a failure; errc::task_failed names the first failed node. Uses the versions of
  // operators that are current at this call. Launches of one GraphExec run one after the other, those of different ones overlap. Throws as
  // submit.
  template <class... Modifiers>
  Ticket launch(const GraphExec& exec, const Modifiers&... modifiers) {
    static_assert((true && ... && (detail::kIsOrder<Modifiers> || detail::kIsPriority<Modifiers>)),
                  "a launch takes link, hard_link, drain, after and priority");
    detail::Waits waits;
    detail::Packing packing(nullptr, &waits);
    (detail::put(packing, shell_, modifiers), ...);
    return Ticket(shell_, launch_graph(exec, packing.flags, waits));
  }

  // Cancels a task, or the launch of a graph, that has not begun: neither its operator nor any node is called, its ticket ends with
  // errc::cancelled, and its successors by `link` and `after` are cancelled as after a failure. It ends when its predecessors have ended. A
  // task that has begun, or is about to, runs to its end, with all its groups; the ticket has its result. Never waits, not even while the
  // ring is full or the runtime is parked.
  // Returns false when the task is known to be complete, for an empty ticket, and for the launch of a kernel, which cannot be cancelled;
  // else true, also the second time. Throws errc::invalid_argument for a ticket of another runtime or of a captured task,
  // errc::stale_handle for one of an earlier generation, errc::closed, errc::device_lost, errc::task_timeout, and std::bad_alloc.
  bool cancel(const Ticket& ticket);

  // Waits until every task submitted so far is complete. Throws errc::device_lost, errc::task_timeout and errc::stalled, but not for failed
  // tasks.
  void wait_all();

  // Returns an eventfd for epoll, poll and io_uring: Ticket::notify adds 1 to it when its task is complete, as io_uring does with a
  // registered eventfd. Readable while the count is not 0; reading 8 bytes returns the count and resets it to 0. One read may stand for
  // several tasks: read first, then check all pending tickets (Ticket::done), and none is missed. The number of tickets is not bounded. The
  // descriptor is non-blocking and the same for each call of a generation. The runtime or rebuild closes it, after the last count; dup it
  // to use it longer. Throws errc::out_of_memory when no descriptor is available, errc::closed.
  int completion_fd();

  // Runs the tasks submitted before in a burst, with Options::bursts: the loop is launched for them and leaves the device afterwards. On
  // CUDA the burst runs in `stream`: it begins after earlier work, and later work begins after it. Bursts run one after the other, also in
  // several streams. `stream` is the user's own CUstream or cudaStream_t of the device's primary context, CU_STREAM_LEGACY or
  // CU_STREAM_PER_THREAD; null: the burst begins at once. Returns when the burst is enqueued; waits while three others are, or the runtime
  // is parked. Does nothing if no task was submitted since the last burst. Throws errc::invalid_argument while the stream is captured,
  // errc::unsupported without Options::bursts.
  void burst(void* stream = nullptr);

  // Takes the loop off the device until resume(): waits for running tasks, not for waiting ones. Tasks may be submitted meanwhile and run
  // after resume. Calls nest: each park needs one resume.
  void park();
  void resume();

  // Ends the runtime. Close::when_done waits for all tasks first. Close::now waits for running operators, and starts nothing more: tasks
  // and launches that have not begun end with errc::cancelled, others with errc::interrupted (a graph between two nodes, a task with live
  // descendants, a gang that has yielded). Both wait for launches of ordinary kernels and for callbacks, and end pending background
  // definitions with errc::cancelled. Afterwards its members throw errc::closed, its buffers and operators errc::stale_handle. A second
  // call does nothing.
  // Throws errc::device_lost; errc::task_timeout when a task or kernel hangs; errc::stalled when tasks never end (Options::stall_timeout),
  // which then end as with Close::now. The runtime is closed in these cases too. Throws errc::invalid_argument in a callback of the
  // runtime, and changes nothing.
  void close(Close how = Close::when_done);

  // Reopens the device with the same Options after errc::device_lost or errc::task_timeout, as the next generation of this runtime, without
  // operators. Buffers, operators, and tickets of lost tasks become stale (errc::stale_handle). Other tickets keep their results, and
  // positions continue. Waits for other threads' calls on those handles.
  // If it throws, the runtime stays failed, and rebuild may be called again:
  // - errc::invalid_argument, the device works, or the caller is a callback of the runtime;
  // - errc::device_lost, the message says what keeps the device from being opened again. On CUDA that is a task that hangs (until it ends
  //   after all), another user in this process (another Runtime, PyTorch) of the context that a fault has taken down, or CUDA itself:
  //   drivers up to CUDA 13.0 at least give a process no new context after a fault. The remedy is a new process;
  // - errc::closed, and as the constructor.
  void rebuild();

  // Returns counts by operator and by worker. Copies the device's counts without stopping the loop; costs the workers nothing and the
  // caller some tens of us. Counts all complete tasks, and some of those that run. Throws errc::closed, errc::device_lost,
  // errc::task_timeout, and std::bad_alloc.
  Metrics metrics() const;
  // Changes Options::metrics while the loop runs. Returns when all leases have the new setting, or after a second if a task runs longer.
  // Throws as metrics, and errc::out_of_memory.
  void set_metrics(Metering metering);

  // Records a timeline for `duration`: events of workers and of the host's threads, on one clock. The first returns it, with at most the
  // last ten million events. The second passes it to the writer in pieces, on a thread of its own, and finishes it. Events that workers
  // overwrite before they are read are dropped and counted. A writer that throws ends the trace, and stop_trace rethrows; so does lack of
  // memory, with std::bad_alloc or errc::out_of_memory. Throws errc::invalid_argument for a second trace at a time, or a negative duration,
  // and as metrics. On CUDA the first trace compiles a kernel that reads the clock, with its errors.
  Trace trace(std::chrono::nanoseconds duration);
  void trace(std::chrono::nanoseconds duration, const std::shared_ptr<TraceWriter>& writer);
  // Records a timeline between two calls. close stops it too.
  void start_trace(std::shared_ptr<TraceWriter> writer);
  void stop_trace();
  // Adds a mark of the calling thread to the current trace, if any.
  void mark(std::string_view text);

  // Returns a reader of the operators' log lines (dwell/device/log.hpp): the kept ones (Logging::kept), oldest first, then later ones.
  // `wait` is how long the steps of a range-based for loop wait for each line. Includes all lines that existed at this call; a line may
  // arrive microseconds after the end of its task. Throws errc::closed, errc::device_lost, errc::task_timeout.
  Logs logs(std::chrono::nanoseconds wait = {});
  // Changes the threshold (Logging::from) while the loop runs. Returns as set_metrics, and throws as logs.
  void set_log_level(level from);

  // Reads the current value of `name` while the loop runs, without stopping it. `name` is a variable that an operator's source exports with
  // DWELL_INSPECT ("residual", "progress.step", all members of "progress"; "solve.residual" where several operators have one), an operator
  // ("solve": its counts), or a structure of the runtime: "ring", "queue", "held", "workers", "leases", "image", "graphs", "memory". On
  // CUDA each read of a variable is one to some copies of the driver. Variables are those of the current version, in the image that runs
  // from now on. Throws errc::invalid_argument for an unknown name, listing the names, and for an ambiguous one; and as metrics.
  Inspection inspect(std::string_view name);
  // Calls `callback` with the result of inspect, now and at each interval `every`, on a thread of its own. Ends when the Watch is stopped
  // or destroyed, the runtime is closed, or inspect or the callback throws, which Options::warn reports. The callback may use the runtime,
  // but must not close it. Throws as inspect, errc::invalid_argument for an interval below 1 us and an empty callback, errc::out_of_memory.
  [[nodiscard]] Watch watch(std::string name, std::chrono::nanoseconds every, std::function<void(const Inspection&)> callback);
  // Writes a variable of an operator, while operators may read and write it. Aligned words of 4 and 8 bytes are written atomically. On CUDA
  // the next image initialises the variable anew, as in the source. Throws errc::unsupported without Options::inspect_writes, for a
  // variable that a Seqlock guards and, on a CPU, for a const one; errc::signature_mismatch unless the variable has exactly this type and
  // count; errc::invalid_argument as inspect; and as metrics.
  template <class T>
  void assign(std::string_view name, const T& value) {
    assign(name, device::Describe<T>::value, 1, std::as_bytes(std::span(&value, 1)));
  }
  template <class T>
  void assign(std::string_view name, std::span<const T> values) {
    assign(name, device::Describe<T>::value, values.size(), std::as_bytes(values));
  }
  void assign(std::string_view name, const Parameter& type, std::size_t count, std::span<const std::byte> bytes);

  // The memory that operators allocate. Refers to this runtime.
  Heap heap();

  RuntimeInfo info() const;
  // Returns the options this runtime was opened with.
  Options options() const;

  // Reports all incomplete tasks: the workers each one runs on, or what it waits for, and cycles of tasks that wait for each other. Never
  // waits and does not touch the device, so it may be called at any time, from callbacks too, and while other threads wait. Visits every
  // task in flight, some 100 ns each. to_string formats the result. Throws errc::closed, and std::bad_alloc.
  Diagnosis diagnose() const;

  // Waits up to `timeout` for a free worker at `priority`. Workers of less urgent tasks yield behind the operator that runs
  // (Group::should_yield lets a long one yield earlier). Reports how long it took and who did not yield. Runs nothing itself, and requests
  // one worker only: more would idle until the last one is free. The next task submitted with that priority gets the worker. After an
  // incomplete drain, and in a parked runtime, it requests none, and the result says so. A request that was not met in time stays for the
  // next call. Callbacks may call it, since it never waits longer than `timeout`. Throws errc::unsupported without Options::priorities and
  // in a capture, errc::invalid_argument for a priority above 7 or a negative time, errc::closed, errc::device_lost, errc::task_timeout,
  // errc::stalled.
  Preemption preempt(unsigned priority, std::chrono::nanoseconds timeout);

 private:
  friend class Batch;
  friend class Heap;
  friend class detail::PreparedThen;
  friend struct detail::Shell;
  explicit Runtime(detail::Shell* shell) : shell_(shell) {}

  static Operator<> handle_of(std::shared_ptr<detail::OperatorState> state) { return Operator<>(std::move(state)); }

  template <class Function, class... Given>
  [[gnu::always_inline]] detail::Task pack(std::uint32_t* rest, detail::Waits* waits, std::shared_ptr<detail::ExecState>* execs,
                                           const Operator<Function>& op, const Given&... arguments) {
    if constexpr (std::is_same_v<Function, void>) {
      static constexpr detail::Given<Given...> given;
      check_arguments(op, given.list, given.count);
    } else {
      static_assert(Operator<Function>::template fits<Given...>(), "the arguments do not fit the operator's parameters");
    }
    if constexpr (detail::Rest<Given...>::words > detail::kMostWords) {
      detail::throw_too_many_words();
    } else {
      detail::Packing packing(rest, waits, execs);
      (detail::put(packing, shell_, arguments), ...);
      return packing.task();
    }
  }

  // Submits a task packed by the caller, without checks of its arguments.
  Ticket submit_packed(const Operator<>& op, const detail::Task& task) { return Ticket(shell_, enqueue(op.state(), task)); }
  // Returns whether the calling thread captures.
  bool captures() const noexcept;
  // Adds the counts of a batch's flush to Metrics.
  void count_batch(std::uint64_t operations, std::uint64_t tasks) const noexcept;
  std::uint64_t launch_graph(const GraphExec& exec, std::uint32_t flags, const detail::Waits& waits);
  void check_arguments(const detail::OperatorBase& op, const Parameter* given, std::uint32_t count) const;
  void check_arguments(const Operator<>& op, const Arguments& arguments) const {
    check_arguments(op, arguments.parameters().data(), static_cast<std::uint32_t>(arguments.parameters().size()));
  }
  std::shared_ptr<detail::BufferState> allocate_bytes(std::size_t count, std::size_t element, Memory memory);
  std::shared_ptr<detail::RingState> make_ring(std::size_t slots, std::size_t slot_bytes, std::size_t most, const RingOptions& options);
  std::shared_ptr<detail::BufferState> wrap_bytes(void* pointer, std::size_t count, std::size_t element, std::size_t alignment,
                                                  std::shared_ptr<void> keep_alive);
  // Wait while the ring is full, and return the position of the last task. Quads are passed in vector registers.
  [[gnu::always_inline]] std::uint64_t enqueue(detail::OperatorState* op, const detail::Task& task) {
    return task.plain() ? enqueue_plain(op, task.first) : enqueue_any(op, task);
  }
  [[gnu::always_inline]] std::uint64_t enqueue_plain(detail::OperatorState* op, const detail::FirstSlot& slot) {
    return enqueue_plain(op, slot.head, slot.quad[0], slot.quad[1], slot.quad[2]);
  }
  std::uint64_t enqueue_plain(detail::OperatorState* op, std::uint64_t head, detail::Quad first, detail::Quad second, detail::Quad third);
  // Enqueues and empties the batch.
  std::uint64_t enqueue_plain(detail::OperatorState* op, detail::Batch& batch);
  std::uint64_t enqueue_any(detail::OperatorState* op, const detail::Task& task);
  std::optional<std::uint64_t> try_enqueue(detail::OperatorState* op, const detail::Task& task);
  // Enqueues a task that may launch graphs. Waits for room, or returns nothing.
  std::optional<std::uint64_t> enqueue_launching(runtime::Core& core, detail::OperatorState& op, const detail::Task& task, bool waits);

  detail::Shell* shell_ = nullptr;  // the newest generation
};

}  // namespace dwell
