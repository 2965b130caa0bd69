// The threads that run a task together, as an operator sees them.
#pragma once

#include <dwell/device/atomic.hpp>
#include <dwell/device/exec.hpp>
#include <dwell/device/level.hpp>
#include <dwell/device/overrun.hpp>
#include <dwell/device/range.hpp>
#include <dwell/device/ref.hpp>
#include <dwell/device/span.hpp>
#include <dwell/device/status.hpp>
#include <dwell/device/uses.hpp>

namespace dwell {

class Gang;
template <class T>
class Array;

namespace device {

struct Context;
struct Worker;
// A request of an operator to its worker.
enum class Make : u32 { child, continuation, follower, join, arrival };
// Makes such a request. `bytes`: how many the arguments name. Called by one thread.
using SpawnFunction = void (*)(Context* context, u32 opcode, Make how, u64 bytes);
// The heap's functions (heap.hpp), where they are not linked.
struct HeapFunctions;
DWELL_CONSTANT u32 kMaxSpawnWords = 9;         // words of arguments that fit into one slot
DWELL_CONSTANT u32 kMaxBefore = 8;             // most children that one child follows
DWELL_CONSTANT u32 kLaunchOpcode = 1U << 13U;  // no operator's: the task is the launch of a graph
DWELL_CONSTANT u32 kWholeTask = 1U << 16U;     // Context::share of a task that groups do not share

DWELL_CONSTANT u32 kGangBarriers = 8;    // barriers of a gang that have names
DWELL_CONSTANT u32 kGangStateWords = 6;  // that a gang saves when it yields

// The type itself, where it must not be deduced.
template <class T>
struct Undeduced {
  using type = T;
};

// The worker's ring of log lines (log.hpp), in memory of the host.
struct alignas(16) LogRing {
  // Read by each line, in one load.
  u32 from;   // the least severity that is logged
  u32 mask;   // of the ring's slots
  u32 next;   // slots reserved so far
  u32 limit;  // limit of `next` for the least severe lines: `read`, as last seen, plus log_room_of

  void* slots;      // Slot
  const u32* read;  // how many slots the host has read
  u64* dropped;     // counters of dropped lines, by severity
  u32 looked;       // when `read` was last polled, in ticks
};

// The worker's ring of events of the timeline (timeline.hpp), in memory of the device.
struct EventRing {
  Quad* quads;  // two an event; null: nothing is noted
  u32* count;   // their number, for the host
  u32 shift;    // of events
  u32 next;     // number of the next one
};

// The resources that a worker lends to the operator that it runs, in memory that all threads of the group share. Valid while the task runs.
struct alignas(16) Context {
  // Read by a worker after a task, in one load.
  i32 status;        // first failure reported by Group::fail, 0 before
  u32 scratch_used;  // bytes handed out by Group::shared in this task
  u32 yield;         // 1: the worker should leave the graph that it works on, as its lease is over
  u32 spawned;       // 1: the task has made others (Group::spawn, Group::then)
  // Arguments of the running task, after its header. On CUDA an address in shared memory.
#if DWELL_SHARED_MEMORY
  u32 arguments;
  u32 reserved;  // one size everywhere
#else
  const u32* arguments;
#endif
  u32 scratch_bytes;    // size of `scratch`
  u32 lease;            // number of the lease that runs this worker
  u32 share;            // the running group of the task: its index (16) | their count (16)
  u32 count;            // of a new follower: children in `before`; of a join: arrivals
  const u32* over;      // number of the last lease whose time is over
  const u32* uses;      // of the image: see Group::opcode
  u64 arena;            // address of the runtime's arena: see block_of
  u32 started;          // when the worker joined the lease, and how long that may last, in ticks: only on the CPU, where all
  u32 lease_ticks;      // workers may be inside operators, with none left to check the clock
  u8* scratch;          // 16-byte aligned
  Worker* worker;       // for the next:
  SpawnFunction spawn;  // makes a task of this opcode, whose arguments are in `task`
  u32 task[kMaxSpawnWords];
  u32 before[kMaxBefore];  // records of children
  u32 gang_asks;           // calls of Gang::should_yield
  u32* gang;               // memory of the gang that runs the task (gang.hpp), or null
  u32 gang_steps;
  u32 gang_passes[1 + kGangBarriers];  // of this group, by barrier
  EventRing events;
  LogRing log;
  u64 heap;         // address of the heap; 0: there is none
  u32 heap_worker;  // number of the worker
  u32 heap_state;   // 0: the next ones are not set yet, which the worker's first call does; else a phase (object.hpp)
  u64 heap_caches;  // addresses of the worker's caches of slots, and of these
  u64 heap_slots;
  u32 heap_room;                           // slots that a cache has room for
  u32 heap_checks;                         // HeapHeader::checks
  u32 heap_pages;                          // that the heap's tables have room for
  u32 heap_caller;                         // number of the worker's first warp
  u32 heap_locks[kGroupThreads / kLanes];  // by warp, a bit a class: the warp's cache of the class is in use
#if !DWELL_LINKED_OPERATORS
  const HeapFunctions* heap_functions;
#endif
  Overruns* overruns;                // of the worker, in host memory
  u32 overrun_count;                 // of them
  alignas(16) u32 exchange[4 * 32];  // device::Exchange: 16-byte values of warps
};

// How the threads of a group combine what each of them has (exchange.hpp).
template <class T>
class Exchange;

// Writes lines of the log (log.hpp).
class LogWriter;

// Calls the heap for a group (heap.hpp).
struct HeapCalls;

}  // namespace device

// A child of the running task, as Group::spawn returns it, for Group::spawn_after. Valid until the operator returns.
class Child {
 private:
  friend class Group;
  u32 number_;  // of its record, in the first thread of the group alone; 0: it was not made
};

// A task that starts after a number of arrivals, as Group::join returns it. A small value: pass it to arriving tasks as an argument
// (DWELL_USES(part, dwell::Join)), or through memory that they read.
class Join {
 private:
  friend class Group;
  u32 number_;  // of its record; 0: it was not made
  u32 round_;   // of the record, which is reused by other tasks
};

// The group of threads that runs one task, or one part of a wide task. Passed by value to the operator, valid while it runs. Members
// marked "together" must be called by all threads of the group, in the same order.
class Group {
 public:
  // The group with this index among `count`, of a task that runs this opcode.
  DWELL_DEVICE Group(device::Context* context, u32 index, u32 count, u32 opcode = 0)
      : context_(context), index_(static_cast<u16>(index)), count_(static_cast<u16>(count)), opcode_(opcode) {
#if DWELL_PARALLEL_GROUP
    rank_ = threadIdx.x;
#endif
  }
  // The group that its worker runs, of a task that runs this opcode.
  DWELL_DEVICE Group(device::Context* context, u32 opcode)
      : context_(context),
        index_(static_cast<u16>(context->share & 0xFFFFU)),
        count_(static_cast<u16>(context->share >> 16U)),
        opcode_(opcode) {
#if DWELL_PARALLEL_GROUP
    rank_ = device::thread_rank();
#endif
  }

  // Rank of the calling thread, 0 to size() - 1.
  DWELL_DEVICE u32 rank() const {
#if DWELL_PARALLEL_GROUP
    __builtin_assume(rank_ < kGroupThreads);
    return rank_;
#else
    return 0;
#endif
  }
  // Threads in this group: 128 on CUDA, 1 on the CPU.
  DWELL_DEVICE u32 size() const { return kGroupThreads; }
  // Which group of the task this is, 0 to count() - 1.
  DWELL_DEVICE u32 index() const { return index_; }
  // The number of groups that share the task: n with dwell::groups(n), else 1.
  DWELL_DEVICE u32 count() const { return count_; }

  // This group as if it had the task to itself: this group's threads alone do all the work of the result's members.
  DWELL_DEVICE Group alone() const {
    Group group = *this;
    group.index_ = 0;
    group.count_ = 1;
    return group;
  }

  // This thread's share of 0 .. n - 1 among all threads of all groups of the task: every (count() * size())-th index on CUDA, a block of
  // indices on the CPU.
  DWELL_DEVICE device::Range range(u64 n) const { return device::range_of(n, index_, count_, rank()); }
  // This thread's share of 0 .. n - 1 among the threads of this group.
  DWELL_DEVICE device::Range local_range(u64 n) const { return alone().range(n); }
  // The elements of `span` that fall to this group when all groups of the task divide it: a block, the `index`-th of `count`. Blocks are
  // equal where that is possible; else those of 256 elements or more begin at multiples of 16, and are aligned to 16 bytes where the span
  // is.
  template <class T>
  DWELL_DEVICE Span<T> part(Span<T> span) const {
    const device::Block block = device::block_of(span.size(), index_, count_);
    return span.subspan(block.first(), block.size());
  }

  // Together: out[i] = f(in[i]...) for each element of `out`, divided among all groups of the task; the result of f is converted to T. Each
  // input has as many elements as `out` at least. Elements are of any trivially copyable types. `f` is called once for each element, by
  // some thread, in any order, and must not read what is written. Threads see what the others have written after the next sync.
  // `out` may be one of the inputs: each element is then replaced. If `out` overlaps inputs in part, the result is as if all had been read
  // before any write. That is impossible in wide tasks, and if one input begins before `out` and another after it: then the task fails with
  // status::overlap and writes nothing.
  template <class T, class F, class... In>
  DWELL_DEVICE void transform(Span<T> out, F f, Span<In>... in) const;

  // Together: out[i] = in[i] for each element of `out`, divided among all groups of the task. `in` has as many elements at least. Overlap
  // is as for transform: in a task of one group, the result is as if all had been read before any write.
  template <class T, class In>
  DWELL_DEVICE void copy(Span<T> out, Span<In> in) const;

  // Together: a barrier of all threads of this group. Each sees what the others wrote before.
  DWELL_DEVICE void sync() const { device::sync_group(); }

  // Together: `combine` over the values of all threads of this group, the same result in each. T is trivially copyable and at most 16
  // bytes; the order of combination is the same in every run.
  template <class T, class Combine>
  DWELL_DEVICE T reduce(T value, Combine combine) const;
  // Together: the sum over all threads of this group.
  template <class T>
  DWELL_DEVICE T sum(T value) const {
    return reduce(value, [](T a, T b) { return a + b; });
  }

  // Together: `combine` over `init` and all elements of `in`, each converted to T first, by this group alone; the same result in all its
  // threads. `combine` is associative and commutative, and the order in which it is applied depends on nothing but the number of elements.
  // T is trivially copyable and at most 16 bytes.
  template <class In, class T, class Combine>
  DWELL_DEVICE T reduce(Span<In> in, T init, Combine combine) const;

  // Together, by this group alone: out[i] = `combine` over `init` and in[0] to in[i] (inclusive) or in[i - 1] (exclusive), in this order,
  // for each element of `out`; elements are converted to T first and results to what `out` holds. Returns `combine` over `init` and all
  // of them in each thread. `combine` is associative; the order in which it is applied depends on nothing but the number of elements.
  // `in` has as many elements as `out` at least, and may be the same span. Where elements would be
  // overwritten before they have been read (`out` begins within `in`), the task fails with status::overlap and nothing is written.
  template <class Out, class In, class T, class Combine>
  DWELL_DEVICE T inclusive_scan(Span<Out> out, Span<In> in, T init, Combine combine) const;
  template <class Out, class In, class T, class Combine>
  DWELL_DEVICE T exclusive_scan(Span<Out> out, Span<In> in, T init, Combine combine) const;

  // Together: `n` elements that all threads of this group share until the task ends, uninitialised, 16-byte aligned. Empty when
  // Options::scratch_bytes does not hold them; the task then also fails with status::out_of_scratch.
  template <class T>
  DWELL_DEVICE Span<T> shared(u64 n) const {
    const u64 start = (static_cast<u64>(context_->scratch_used) + 15) & ~15ULL;
    const bool fits = n <= context_->scratch_bytes && start + n * sizeof(T) <= context_->scratch_bytes;
    sync();
    if (rank() == 0) {
      if (fits) context_->scratch_used = static_cast<u32>(start + n * sizeof(T));
    }
    sync();
    if (!fits) {
      fail(status::out_of_scratch);
      return Span<T>();
    }
    return Span<T>(reinterpret_cast<T*>(context_->scratch + start), n);
  }

  // The opcode of an operator that DWELL_USES has named (`uses::fib`): of the version to which the running one is bound.
  template <u32 place, class Function>
  DWELL_DEVICE u32 opcode(Use<place, Function>) const {
    // Word i is the index at which the list of opcode i begins: the opcodes that it uses, by place.
    return context_->uses[context_->uses[opcode_] + place];
  }

  // Together: makes a task of an operator that DWELL_USES has named, a child of this one. It may run at once, on any worker, and sees what
  // threads of this group have written before. This task is complete when its operator has returned and all its children are complete; it
  // fails as the first child that fails, if it has not failed itself. Arguments are converted to the types that DWELL_USES names, and take
  // 9 words of 32 bits together at most: a span takes three. The task fails with status::out_of_tasks when there is no room for the child,
  // which then does not run, and with status::spawn_refused when several groups share it.
  template <u32 place, class... Parameters>
  DWELL_DEVICE Child spawn(Use<place, void(Parameters...)> use, typename device::Undeduced<Parameters>::type... arguments) const;
  // Together: the same, but the child starts only when others are complete, with all that descends from them, failed or not; it sees what
  // they have written. `before` are children that this operator has made in this run: one, or up to 8 as {a, b, c}. A child has up to 6
  // that follow it. The task fails with status::spawn_refused, and makes no child, when `before` names anything else, or one more follows.
  template <class One, u32 place, class... Parameters>  // a template, so that {a} is none
  DWELL_DEVICE Child spawn_after(const One& before, Use<place, void(Parameters...)> use,
                                 typename device::Undeduced<Parameters>::type... arguments) const;
  template <u32 number, u32 place, class... Parameters>
  DWELL_DEVICE Child spawn_after(const Child (&before)[number], Use<place, void(Parameters...)> use,
                                 typename device::Undeduced<Parameters>::type... arguments) const;
  // Together: the same, but the child starts after `arrivals` calls of arrive with it; at once for 0. It sees what the arriving groups had
  // written before. Arguments and failures are those of spawn. A join starves when no arrival can follow: this operator has returned, and
  // all other descendants of the task are complete. Starved joins do not run, and the task fails with status::join_starved.
  template <u32 place, class... Parameters>
  DWELL_DEVICE Join join(u32 arrivals, Use<place, void(Parameters...)> use,
                         typename device::Undeduced<Parameters>::type... arguments) const;
  // Together: arrives at a join, from the operator that has made it or one that descends from its task. A failure of an arriving task does
  // not cancel the join. The task fails with status::join_refused if the join expects no more arrivals, or the task does not descend from
  // the join's maker; with status::spawn_refused if several groups share it. Then the arrival does not count.
  DWELL_DEVICE void arrive(Join join) const;
  // Together: makes a task that follows this one, its continuation: it runs when the operator has returned and all children are complete,
  // failed or not, and sees what they have written. This task is complete when the continuation is, which may itself have children and a
  // continuation. Arguments and failures are those of spawn; a second continuation fails the task with status::spawn_refused.
  template <u32 place, class... Parameters>
  DWELL_DEVICE void then(Use<place, void(Parameters...)> use, typename device::Undeduced<Parameters>::type... arguments) const;

  // Together: launches a graph, all of whose nodes run once, as a child of this task: for completion, failures and the refusal of wide
  // tasks it is as a task that spawn makes; spawn_after and launch_after may name it. It fails as its first node that fails. It runs with
  // the versions of operators that were current when the task of the host was submitted from which this one descends. Launches of one exec,
  // the host's among them, run one after the other, in the order in which they find it taken; those of different execs overlap. A launch
  // that descends from a launch of the same exec would wait for itself: it does not run, and fails with status::launch_refused, as does
  // that of an Exec without a graph.
  DWELL_DEVICE Child launch(Exec exec) const;
  // Together: the same, but the launch begins only when others are complete, as spawn_after.
  template <class One>
  DWELL_DEVICE Child launch_after(const One& before, Exec exec) const;
  template <u32 number>
  DWELL_DEVICE Child launch_after(const Child (&before)[number], Exec exec) const;

  // The gang that runs the task, of which this group is one; of a task of one group, a gang of one. In a task that several groups share
  // without being a gang (dwell::gang) it fails with status::no_gang.
  DWELL_DEVICE Gang gang() const;

  // Allocates `bytes` of the runtime's heap, uninitialised, aligned to `alignment`: a power of two of at most 4096, at least 16. Called by
  // any threads of the group, in any branch, each with its own size; threads that call together share the cost. The memory lives until
  // somebody frees it: any operator, or the host (dwell::Heap). The task fails with status::out_of_memory, and the result refers to
  // nothing, when the heap has no room.
  DWELL_DEVICE Ref<void> allocate(u64 bytes, u32 alignment = 16) const;
  // The same, but the result alone tells that there is no room.
  DWELL_DEVICE Ref<void> try_allocate(u64 bytes, u32 alignment = 16) const;
  // Allocates a T in the heap and initialises it as T{values...}. T is trivially copyable. Called, and fails, as allocate and try_allocate.
  // If T is a type of objects (DWELL_OBJECT), the collector frees it some time after it has become unreachable: neither an argument of a
  // task that has not ended, nor a root, nor a handle of the host leads to it. The references that a running task has are safe until it
  // ends.
  template <class T, class... Values>
  DWELL_DEVICE Ref<T> make(Values... values) const;
  template <class T, class... Values>
  DWELL_DEVICE Ref<T> try_make(Values... values) const;
  // Makes an object of `size` references to nothing. Else as make.
  template <class T>
  DWELL_DEVICE Ref<Array<T>> make_array(u32 size) const;
  template <class T>
  DWELL_DEVICE Ref<Array<T>> try_make_array(u32 size) const;
  // Frees what the heap holds at this reference; nothing for one to nothing. Whoever used the memory has finished before, as the caller has
  // made sure. Called by any threads of the group. With HeapChecks::light, the task fails with status::bad_free when nothing allocated is
  // there, or an object, which is the collector's; else such a call damages the heap.
  template <class T>
  DWELL_DEVICE void free(Ref<T> ref) const;
  // Returns the address of what the reference names. Valid while the task runs, and until it is freed.
  template <class T>
  DWELL_DEVICE T* at(Ref<T> ref) const;

  // Reports the task as failed: its ticket's wait throws errc::task_failed with this code. Positive codes are the user's; the first
  // failure of a task stays. The operator runs on until it returns.
  DWELL_DEVICE void fail(i32 code) const { device::replace_in_group(&context_->status, status::ok, code); }

  // Returns whether lines of this severity are logged (log.hpp). If not, skip work that only serves such a line.
  DWELL_DEVICE bool logs(level severity) const { return static_cast<u32>(severity) >= context_->log.from; }

  // Returns whether the runtime wants the worker back, because the lease has ended, or on CUDA also because more urgent tasks wait
  // (dwell::priority). A long operator should then save its progress and return; Gang::yield does that. May differ between threads; agree
  // on it with reduce where that matters.
  DWELL_DEVICE bool should_yield() const {
    const u32 over = device::load<device::Order::relaxed, device::Scope::device>(context_->over);
    if (static_cast<i32>(over - context_->lease) >= 0) return true;
#if DWELL_CONTROL_WARP
    return *const_cast<const volatile u32*>(&context_->yield) != 0;
#else
    return device::now_ticks() - context_->started > context_->lease_ticks;
#endif
  }

 private:
  template <class T>
  friend class device::Exchange;
  friend class device::LogWriter;
  friend struct device::HeapCalls;

  template <class... Parameters>
  DWELL_DEVICE void make(u32 opcode, device::Make how, const Parameters&... arguments) const;
  DWELL_DEVICE void name_before(const Child* before, u32 number) const;
  DWELL_DEVICE Child made() const;

  device::Context* context_;
  u16 index_;  // at most 65,535 groups share a task
  u16 count_;
  u32 opcode_;
#if DWELL_PARALLEL_GROUP
  u32 rank_;  // read where the operator begins, beside its arguments
#endif
};

#if DWELL_CHECKED && !DWELL_EXCEPTIONS
namespace device {

static DWELL_DEVICE_COLD void refuse(const Index& first, u64 count, u64 size) {
  Context* const context = pointer_to_shared<Context>(checked_context);
  if (atomicCAS(&context->status, status::ok, status::out_of_bounds) != status::ok) return;
  write_overrun(context->overruns, context->overrun_count++, pointer_to_shared<const u32>(context->arguments), first.value, count, size,
                first.at);
  // Pairs with the host's load of the task's completion, which is stored after the group's barrier.
  fence<Scope::system>();
}

}  // namespace device
#endif

}  // namespace dwell
