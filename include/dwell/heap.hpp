// Memory that operators allocate, as the host sees it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <dwell/device/object.hpp>
#include <dwell/device/ref.hpp>
#include <dwell/error.hpp>

namespace dwell {

class Runtime;
namespace runtime {
class Core;
}  // namespace runtime

// What the heap checks of its callers.
enum class HeapChecks : std::uint8_t {
  off,    // nothing: a second free of the same memory damages the heap
  light,  // each free: of memory that is not allocated it fails the task with status::bad_free. Two atomics more for an allocation and free
  // Also each allocation and free of plain memory: of what was written behind its end, or after it was freed, it fails the task that frees
  // or gets it with status::bad_write. Freed memory is filled with 0xDD. 8 bytes more for an allocation at least, and a pass over it.
  full,
};

struct HeapStatistics;

// Options of the heap. It is made by the first operator that uses it, or the first use of Runtime::heap.
struct HeapOptions {
  // The most that it grows to, in bytes; addresses, not memory. 0: the device's memory, at most 64 GiB. The CPU takes memory as it is
  // touched, a GPU in steps of `grow`.
  std::size_t reserve = 0;
  // By how many bytes the heap grows at least; 0: 64 MiB.
  std::size_t grow = 0;
  HeapChecks checks = HeapChecks::light;
  // Called when more than three quarters of `reserve` are in use, behind a collection if there are objects; then each time when half of the
  // rest is used up. On a thread of the runtime, while tasks run. May use the heap and submit tasks; must not close or rebuild the runtime.
  // Options::warn reports its exceptions.
  std::function<void(const HeapStatistics& now)> on_pressure = {};
};

// Counts of one collection.
struct HeapCollection {
  std::uint64_t marked = 0;       // objects that were found reachable, without those made meanwhile
  std::uint64_t freed = 0;        // objects
  std::uint64_t freed_bytes = 0;  // of their slots
  std::uint32_t slices = 0;       // parts that it took
  std::chrono::nanoseconds duration{0};
  std::chrono::nanoseconds marking{0};  // from the first root to the last object, a part of `duration`
};

// Allocations of one size class.
struct HeapClassStatistics {
  std::size_t size = 0;  // bytes of a slot
  std::uint64_t slabs = 0;
  std::size_t bytes = 0;          // of these slabs, with their maps
  std::uint64_t slots = 0;        // of these slabs
  std::uint64_t live = 0;         // allocations
  std::uint64_t cached = 0;       // slots that workers keep at hand
  std::uint64_t free = 0;         // the other slots
  std::uint64_t allocations = 0;  // since the heap was made
  std::uint64_t frees = 0;
  std::uint64_t failures = 0;  // searches for room that found none
};

// A snapshot of the heap. While operators allocate, numbers are of slightly different moments.
struct HeapStatistics {
  std::size_t reserved = 0;          // bytes that it may grow to
  std::size_t mapped = 0;            // bytes that it has
  std::size_t used = 0;              // bytes of these in slabs and in large allocations
  std::size_t tables = 0;            // bytes of these for the heap's own tables
  std::size_t cached = 0;            // bytes of slots that workers keep at hand
  std::size_t fragmented = 0;        // bytes of free slots: of use to their class alone, until their slab is empty
  std::uint64_t large = 0;           // allocations larger than the largest class
  std::size_t large_bytes = 0;       // of their pages
  std::uint64_t large_failures = 0;  // of them that found no room
  std::size_t last_failure = 0;      // bytes that the last allocation without room asked for, of a slot its class's size; 0: there was none
  std::uint64_t types = 0;           // of objects, that were made
  std::uint64_t collections = 0;     // since the heap was made
  HeapCollection last;               // the last one
  std::vector<HeapClassStatistics> classes;

  // Bytes of live slots, of all classes.
  std::size_t live_bytes() const {
    std::size_t all = 0;
    for (const HeapClassStatistics& one : classes) all += one.live * one.size;
    return all;
  }
  // Searches for room that found none, of all sizes.
  std::uint64_t failures() const {
    std::uint64_t all = large_failures;
    for (const HeapClassStatistics& one : classes) all += one.failures;
    return all;
  }
};

// Counts of one compaction.
struct HeapCompaction {
  HeapCollection collected;       // the collection that it begins with
  std::uint64_t moved = 0;        // objects
  std::uint64_t moved_bytes = 0;  // of their slots
  std::uint64_t freed_bytes = 0;  // of pages that any size class may have now
  std::uint32_t slices = 0;       // parts that it took, with those of the collection
  std::chrono::nanoseconds duration{0};
  std::chrono::nanoseconds moving{0};  // behind the collection, a part of `duration`
};

// An object that the host holds: the collector keeps it, and what it leads to, as long as a copy of the handle lives. May outlive the
// runtime. Copies may be made and dropped in any thread.
template <class T>
class Handle {
 public:
  Handle() = default;
  // A reference to the object, for operators.
  Ref<T> ref() const { return ref_; }
  explicit operator bool() const { return static_cast<bool>(ref_); }

 private:
  friend class Heap;
  Handle(Ref<T> ref, std::shared_ptr<void> entry) : ref_(ref), entry_(std::move(entry)) {}

  Ref<T> ref_{};
  std::shared_ptr<void> entry_;
};

// What Heap::verify has found.
struct HeapVerification {
  std::uint64_t mistakes = 0;    // places at which the heap's tables contradict each other; 0: none
  std::size_t first_offset = 0;  // of the first of them, from the heap's start, to 64 KiB
  std::uint64_t live = 0;        // allocations
};

// Objects of one type.
struct HeapTypeCensus {
  std::string name;  // as DWELL_OBJECT has it; "cell" of roots, "array" of all arrays; empty when the type is not known
  std::uint64_t objects = 0;
  std::size_t bytes = 0;  // of their slots or pages

  friend bool operator==(const HeapTypeCensus&, const HeapTypeCensus&) = default;
};

// Allocations of one size class that are no objects.
struct HeapSizeCensus {
  std::size_t size = 0;  // bytes of a slot
  std::uint64_t allocations = 0;

  friend bool operator==(const HeapSizeCensus&, const HeapSizeCensus&) = default;
};

// A slab of slots of one size, or a large allocation.
struct HeapSlabCensus {
  std::size_t offset = 0;  // from the heap's start
  std::size_t bytes = 0;
  std::size_t size = 0;  // of a slot; 0: a large allocation
  std::uint32_t slots = 0;
  std::uint32_t live = 0;  // slots of allocations; with HeapChecks::off, those in caches too

  friend bool operator==(const HeapSlabCensus&, const HeapSlabCensus&) = default;
};

// What lives in the heap: Heap::census.
struct HeapCensus {
  std::vector<HeapTypeCensus> types;  // that have objects, those with most bytes first; apart where layouts differ
  std::vector<HeapSizeCensus> sizes;  // that have allocations, the smallest first
  std::uint64_t large = 0;            // allocations larger than the largest class that are no objects
  std::size_t large_bytes = 0;        // of their pages
  std::vector<HeapSlabCensus> slabs;  // by place
};

// The heap of a runtime, from the host: Runtime::heap. Refers to the runtime, which outlives it and is not moved meanwhile. Members may be
// called from any thread. make, allocate and free are tasks, which cost what a task costs: those of many at once are cheaper. All throw
// errc::out_of_memory, errc::closed, errc::device_lost, and as Runtime::submit.
class Heap {
 public:
  explicit Heap(Runtime& runtime) : runtime_(&runtime) {}

  // Allocates a T and copies `value` into it. Whoever frees it, an operator or the host.
  template <class T>
  requires(!device::ObjectOf<T>::is) Ref<T> make(const T& value) { return make(std::span<const T>(&value, 1)).front(); }
  // Allocates one T for each value. Throws errc::out_of_memory when not all have room; then it has allocated none.
  template <class T>
  requires(!device::ObjectOf<T>::is) std::vector<Ref<T>> make(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>, "objects of the heap are moved as bytes: T is trivially copyable");
    std::vector<Ref<T>> refs;
    refs.reserve(values.size());
    for (const std::uint32_t unit : allocate_units(values.size(), sizeof(T), alignof(T))) refs.push_back(Ref<T>::at(unit));
    for (std::size_t i = 0; i < values.size(); ++i) write(refs[i], values[i]);
    return refs;
  }
  // Makes an object of a type that DWELL_OBJECT declares, and holds it.
  template <class T>
  requires(device::ObjectOf<T>::is) Handle<T> make(const T& value) {
    auto [unit, entry] = make_object(device::ObjectOf<T>::record(), std::as_bytes(std::span(&value, 1)));
    return Handle<T>(Ref<T>::at(unit), std::move(entry));
  }
  // Holds an object that is reachable at the time of the call, of a type whose objects do not move.
  template <class T>
  Handle<T> hold(Ref<T> ref) {
    static_assert(!device::MovesOf<T>::value, "objects of this type move: hold what a field of an object refers to");
    return Handle<T>(ref, hold_unit(ref.unit()));
  }
  // Holds what a field of an object refers to, which a handle or a root keeps; a handle of nothing if the field refers to nothing.
  template <class T, class U>
  Handle<U> hold(Ref<T> object, Field<U> T::*field) {
    auto [unit, entry] = hold_field(object.unit(), offset_of(field));
    return Handle<U>(Ref<U>::at(unit), std::move(entry));
  }
  // Returns the root of this name: an object with one reference, which the heap holds for ever. Operators take it as an argument: see
  // Root. The same name gives the same root.
  template <class T>
  Root<T> root(std::string_view name) {
    return root_unit(name).as<Cell<T>>();
  }
  // Overwrites a reference in an object, as Field::publish.
  template <class T, class U>
  void set(Ref<T> object, Field<U> T::*field, Ref<U> ref) {
    store_unit(object.unit(), offset_of(field), ref.unit());
  }

  // Frees all objects that were unreachable at the call: no root, no handle, no argument of a task in flight (also of nodes of graphs), and
  // no object that is reachable refers to them. References in buffers, in structures that are arguments, and among
  // arguments beyond 372 bytes do not count.
  // Returns when that is done; tasks run meanwhile. Waits for the tasks that run at the call, and for a few later ones. Also throws
  // errc::unsupported while the calling thread captures.
  HeapCollection collect();
  // Collects, moves objects of types that DWELL_MOVABLE declares out of slabs of which little is used, and gives the pages of empty slabs
  // back, so that all size classes may have them. Objects that a handle, an argument of a task in flight, or a running task names do not
  // move. Returns when that is done; tasks run meanwhile, and none waits. Throws as `collect`.
  HeapCompaction compact();

  // Allocates uninitialised memory. `alignment`: a power of two of at most 4096.
  Ref<void> allocate(std::size_t bytes, std::size_t alignment = 16) { return Ref<void>::at(allocate_units(1, bytes, alignment).front()); }

  // The same, `count` times. Allocates none when not all have room.
  std::vector<Ref<void>> allocate_many(std::size_t count, std::size_t bytes, std::size_t alignment = 16) {
    std::vector<Ref<void>> refs;
    for (const std::uint32_t unit : allocate_units(count, bytes, alignment)) refs.push_back(Ref<void>::at(unit));
    return refs;
  }

  // Frees what the references name; nothing for one to nothing. Tasks that use it have ended. Throws errc::task_failed, with
  // status::bad_free, when one of them names nothing allocated (HeapChecks::light).
  template <class T>
  void free(Ref<T> ref) {
    const std::uint32_t unit = ref.unit();
    free_units(std::span(&unit, 1));
  }
  template <class T>
  void free(std::span<const Ref<T>> refs) {
    std::vector<std::uint32_t> units;
    units.reserve(refs.size());
    for (const Ref<T> ref : refs) units.push_back(ref.unit());
    free_units(units);
  }

  // Copies an object from the heap, or to it, while operators run; the caller orders it with theirs. Throws errc::invalid_argument for a
  // reference to nothing, or beyond the heap.
  template <class T>
  T read(Ref<T> ref) const {
    T value;
    read_bytes(ref.unit(), device::Before<T>::bytes, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <class T>
  requires(!device::ObjectOf<T>::is) void write(Ref<T> ref, const T& value) {
    write_bytes(ref.unit(), 0, std::as_bytes(std::span(&value, 1)));
  }
  // The same with bytes, from `offset` bytes on.
  void read(Ref<void> ref, std::size_t offset, std::span<std::byte> bytes) const { read_bytes(ref.unit(), offset, bytes); }
  void write(Ref<void> ref, std::size_t offset, std::span<const std::byte> bytes) { write_bytes(ref.unit(), offset, bytes); }

  // Reads the heap's counts, without stopping the loop.
  HeapStatistics statistics() const;
  // Checks the heap's tables against each other, with the loop off the device meanwhile: takes as long as the running tasks, a collection
  // that is under way, and the copy of the tables.
  HeapVerification verify();
  // Counts what lives in the heap by type and by size. Stops the loop as verify does, for as long as each object's header takes to be read,
  // which is copied from a GPU with its slab.
  HeapCensus census();

 private:
  std::vector<std::uint32_t> allocate_units(std::size_t count, std::size_t bytes, std::size_t alignment);
  void free_units(std::span<const std::uint32_t> units);
  void read_bytes(std::uint32_t unit, std::size_t offset, std::span<std::byte> bytes) const;
  void write_bytes(std::uint32_t unit, std::size_t offset, std::span<const std::byte> bytes);

  struct Made {
    std::uint32_t unit;
    std::shared_ptr<void> entry;
  };
  Made make_object(const device::TypeRecord& type, std::span<const std::byte> value);
  std::shared_ptr<void> hold_unit(std::uint32_t unit);
  Made hold_field(std::uint32_t object, std::uint32_t offset);
  // Where a field is, from the begin of its object.
  template <class T, class U>
  static std::uint32_t offset_of(Field<U> T::*field) {
    alignas(T) const std::byte place[sizeof(T)] = {};
    const auto* const at = reinterpret_cast<const std::byte*>(&(reinterpret_cast<const T*>(place)->*field));
    return device::Before<T>::bytes + static_cast<std::uint32_t>(at - place);
  }
  Ref<void> root_unit(std::string_view name);
  void store_unit(std::uint32_t object, std::uint32_t offset, std::uint32_t unit);

  std::shared_ptr<runtime::Core> core() const;

  Runtime* runtime_;
};

}  // namespace dwell
