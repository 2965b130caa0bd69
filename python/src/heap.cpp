#include "heap.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bind.hpp"
#include "numpy.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

using Byte = std::uint8_t;

Heap heap_of(const PyHeap& self) {
  require_epoch(self.epoch, "the heap");
  return self.runtime->get().heap();
}

double seconds_of(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) * 1e-9; }

std::uint32_t unit_from(nb::handle object) {
  const PyRef* ref = nullptr;
  if (nb::try_cast(object, ref) && ref != nullptr) return ref->unit;
  if (object.is_none()) return 0;
  std::uint32_t unit = 0;
  if (PyIndex_Check(object.ptr()) != 0 && nb::try_cast(nb::object(nb::steal(PyNumber_Index(object.ptr()))), unit)) return unit;
  PyErr_Clear();
  throw Error(errc::signature_mismatch,
              "a reference to the heap is a dwell.Ref, None, or a number of 32 bits that an operator has given, not " +
                  nb::cast<std::string>(nb::str(object.type().attr("__name__"))),
              {"argument", "ref"});
}

nb::object allocate_memory(const PyHeap& self, std::size_t bytes, std::size_t alignment, std::optional<std::size_t> count) {
  Heap heap = heap_of(self);
  std::vector<Ref<void>> refs;
  {
    const Unlocked unlocked;
    refs = heap.allocate_many(count.value_or(1), bytes, alignment);
  }
  if (!count) return nb::cast(PyRef{refs.front().unit(), {}});
  std::vector<std::uint32_t> units;
  units.reserve(refs.size());
  for (const Ref<void> ref : refs) units.push_back(ref.unit());
  const nb::bytes held(reinterpret_cast<const char*>(units.data()), units.size() * sizeof(units[0]));
  return numpy().attr("frombuffer")(held, "dtype"_a = "uint32").attr("copy")();
}

void free_memory(const PyHeap& self, nb::handle refs) {
  Heap heap = heap_of(self);
  std::vector<Ref<Byte>> all;
  if (!nb::isinstance<PyRef>(refs) && !refs.is_none() && PySequence_Check(refs.ptr()) != 0) {
    for (const nb::handle one : refs) all.push_back(Ref<Byte>::at(unit_from(one)));
  } else {
    all.push_back(Ref<Byte>::at(unit_from(refs)));
  }
  const Unlocked unlocked;
  heap.free(std::span<const Ref<Byte>>(all));
}

nb::object read_memory(const PyHeap& self, nb::handle ref, nb::handle dtype, std::optional<std::size_t> count, std::size_t offset) {
  const Heap heap = heap_of(self);
  const std::uint32_t unit = unit_from(ref);
  const nb::object type = numpy().attr("dtype")(dtype);
  std::vector<std::byte> bytes(nb::cast<std::size_t>(type.attr("itemsize")) * count.value_or(1));
  {
    const Unlocked unlocked;
    heap.read(Ref<void>::at(unit), offset, bytes);
  }
  const nb::bytes held(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const nb::object array = numpy().attr("frombuffer")(held, "dtype"_a = type);
  return count ? array.attr("copy")() : array[nb::int_(0)];
}

// The bytes of an array, or of what NumPy makes one of.
nb::bytes bytes_from(nb::handle values, nb::handle dtype) {
  return nb::bytes(numpy().attr("asarray")(values, "dtype"_a = dtype).attr("tobytes")());
}

void write_memory(const PyHeap& self, nb::handle ref, nb::handle values, nb::handle dtype, std::size_t offset) {
  Heap heap = heap_of(self);
  const std::uint32_t unit = unit_from(ref);
  const nb::bytes bytes = bytes_from(values, dtype);
  const std::span<const std::byte> data(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
  const Unlocked unlocked;
  heap.write(Ref<void>::at(unit), offset, data);
}

PyRef make_memory(const PyHeap& self, nb::handle values, nb::handle dtype) {
  Heap heap = heap_of(self);
  const nb::bytes bytes = bytes_from(values, dtype);
  const std::span<const std::byte> data(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
  if (data.empty()) throw Error(errc::invalid_argument, "Heap.make needs a value of at least a byte", {"argument", "value"});
  const Unlocked unlocked;
  const Ref<void> made = heap.allocate(data.size());
  heap.write(made, 0, data);
  return {made.unit(), {}};
}

nb::dict dict_of(const HeapCollection& done) {
  nb::dict all;
  all["marked"] = done.marked;
  all["freed"] = done.freed;
  all["freed_bytes"] = done.freed_bytes;
  all["slices"] = done.slices;
  all["duration"] = seconds_of(done.duration);
  all["marking"] = seconds_of(done.marking);
  return all;
}

nb::dict collect_heap(const PyHeap& self) {
  Heap heap = heap_of(self);
  HeapCollection done;
  {
    const Unlocked unlocked;
    done = heap.collect();
  }
  return dict_of(done);
}

nb::dict compact_heap(const PyHeap& self) {
  Heap heap = heap_of(self);
  HeapCompaction done;
  {
    const Unlocked unlocked;
    done = heap.compact();
  }
  nb::dict all;
  all["collected"] = dict_of(done.collected);
  all["moved"] = done.moved;
  all["moved_bytes"] = done.moved_bytes;
  all["freed_bytes"] = done.freed_bytes;
  all["slices"] = done.slices;
  all["duration"] = seconds_of(done.duration);
  all["moving"] = seconds_of(done.moving);
  return all;
}

nb::dict heap_statistics(const PyHeap& self) {
  const Heap heap = heap_of(self);
  const HeapStatistics now = heap.statistics();
  nb::dict all;
  all["reserved"] = now.reserved;
  all["mapped"] = now.mapped;
  all["used"] = now.used;
  all["tables"] = now.tables;
  all["cached"] = now.cached;
  all["fragmented"] = now.fragmented;
  all["live"] = now.live_bytes();
  all["large"] = now.large;
  all["large_bytes"] = now.large_bytes;
  all["large_failures"] = now.large_failures;
  all["last_failure"] = now.last_failure;
  all["types"] = now.types;
  all["collections"] = now.collections;
  all["last"] = dict_of(now.last);
  nb::list by_size;
  for (const HeapClassStatistics& each : now.classes) {
    nb::dict one;
    one["size"] = each.size;
    one["slabs"] = each.slabs;
    one["bytes"] = each.bytes;
    one["slots"] = each.slots;
    one["live"] = each.live;
    one["cached"] = each.cached;
    one["free"] = each.free;
    one["allocations"] = each.allocations;
    one["frees"] = each.frees;
    one["failures"] = each.failures;
    by_size.append(one);
  }
  all["classes"] = by_size;
  return all;
}

nb::dict heap_census(const PyHeap& self) {
  Heap heap = heap_of(self);
  HeapCensus found;
  {
    const Unlocked unlocked;
    found = heap.census();
  }
  nb::dict all;
  nb::list types;
  for (const HeapTypeCensus& each : found.types) {
    nb::dict one;
    one["name"] = each.name;
    one["objects"] = each.objects;
    one["bytes"] = each.bytes;
    types.append(one);
  }
  nb::list sizes;
  for (const HeapSizeCensus& each : found.sizes) {
    nb::dict one;
    one["size"] = each.size;
    one["allocations"] = each.allocations;
    sizes.append(one);
  }
  all["types"] = types;
  all["sizes"] = sizes;
  all["large"] = found.large;
  all["large_bytes"] = found.large_bytes;
  return all;
}

nb::dict verify_heap(const PyHeap& self) {
  Heap heap = heap_of(self);
  HeapVerification found;
  {
    const Unlocked unlocked;
    found = heap.verify();
  }
  nb::dict all;
  all["mistakes"] = found.mistakes;
  all["first_offset"] = found.first_offset;
  all["live"] = found.live;
  return all;
}

PyRef heap_root(const PyHeap& self, const std::string& name) {
  Heap heap = heap_of(self);
  const Unlocked unlocked;
  return {heap.root<Byte>(name).unit(), {}};
}

void set_heap_root(const PyHeap& self, nb::handle root, nb::handle ref) {
  Heap heap = heap_of(self);
  const auto cell = Root<Byte>::at(unit_from(root));
  const auto to = Ref<Byte>::at(unit_from(ref));
  const Unlocked unlocked;
  heap.set(cell, &Cell<Byte>::ref, to);
}

PyRef hold_object(const PyHeap& self, nb::handle ref) {
  Heap heap = heap_of(self);
  const auto object = Ref<Byte>::at(unit_from(ref));
  if (!object) throw Error(errc::invalid_argument, "Heap.hold needs an object: the reference names nothing", {"argument", "ref"});
  const Unlocked unlocked;
  return {object.unit(), heap.hold(object)};
}

PyRef hold_rooted(const PyHeap& self, nb::handle root) {
  Heap heap = heap_of(self);
  const auto cell = Root<Byte>::at(unit_from(root));
  const Unlocked unlocked;
  dwell::Handle<Byte> held = heap.hold(cell, &Cell<Byte>::ref);
  return {held.ref().unit(), std::move(held)};
}

}  // namespace

void bind_heap(nb::module_& m) {
  nb::class_<PyRef>(
      m, "Ref",
      "A reference to memory of a runtime's heap, for operators that declare a ``dwell::Ref<T>`` or ``dwell::Root<T>``. False if it\n"
      "names nothing. It keeps nothing, unless ``Heap.hold`` or ``Heap.hold_root`` has returned it.")
      .def(
          "__init__",
          [](PyRef* self, std::uint32_t unit) {
            new (self) PyRef{unit, {}};
          },
          "unit"_a = 0)
      .def_prop_ro(
          "unit", [](const PyRef& self) { return self.unit; }, "The number of 16-byte units from the heap's start; 0: nothing.")
      .def("__index__", [](const PyRef& self) { return self.unit; })
      .def("__int__", [](const PyRef& self) { return self.unit; })
      .def("__bool__", [](const PyRef& self) { return self.unit != 0; })
      .def(
          "__eq__", [](const PyRef& self, const PyRef& other) { return self.unit == other.unit; }, nb::is_operator(),
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__hash__", [](const PyRef& self) { return static_cast<std::int64_t>(self.unit); })
      .def("__repr__", [](const PyRef& self) { return "dwell.Ref(" + std::to_string(self.unit) + ")"; });

  nb::class_<PyHeap>(m, "Heap", "The memory that operators of a runtime allocate while they run: ``Runtime.heap``.")
      .def("allocate", &allocate_memory, "bytes"_a, "alignment"_a = 16, "count"_a = nb::none(),
           nb::sig("def allocate(self, bytes: int, alignment: int = 16, count: int | None = None) -> typing.Any"),
           "Allocates uninitialised memory, as a Ref. With ``count`` so many times, as an array of uint32; many at once are cheaper.")
      .def("make", &make_memory, "value"_a, "dtype"_a = nb::none(),
           nb::sig("def make(self, value: typing.Any, dtype: typing.Any = None) -> Ref"),
           "Allocates memory for a value, or an array of values, and copies it there.")
      .def("free", &free_memory, "refs"_a, nb::sig("def free(self, refs: Ref | int | typing.Sequence[Ref | int] | None) -> None"),
           "Frees what one reference names, or each of several, whoever has allocated it. Tasks that use it have ended.")
      .def("read", &read_memory, "ref"_a, "dtype"_a, "count"_a = nb::none(), "offset"_a = 0,
           nb::sig("def read(self, ref: Ref | int, dtype: typing.Any, count: int | None = None, offset: int = 0) -> typing.Any"),
           "Copies a scalar of a type of NumPy from there, or an array of ``count``. ``offset``: in bytes. Operators may run; the caller\n"
           "orders it with theirs.")
      .def("write", &write_memory, "ref"_a, "values"_a, "dtype"_a = nb::none(), "offset"_a = 0,
           nb::sig("def write(self, ref: Ref | int, values: typing.Any, dtype: typing.Any = None, offset: int = 0) -> None"),
           "Copies values there, from ``offset`` bytes on.")
      .def("root", &heap_root, "name"_a,
           "The root of this name: an object with one reference, which the heap holds for ever. Operators declare a ``dwell::Root<T>``.")
      .def("set_root", &set_heap_root, "root"_a, "ref"_a = nb::none(),
           nb::sig("def set_root(self, root: Ref | int, ref: Ref | int | None = None) -> None"), "Overwrites a root's reference.")
      .def("hold", &hold_object, "ref"_a, nb::sig("def hold(self, ref: Ref | int) -> Ref"),
           "A reference that keeps an object as long as it lives. The object is reachable now, and of a type that does not move.")
      .def("hold_root", &hold_rooted, "root"_a, nb::sig("def hold_root(self, root: Ref | int) -> Ref"),
           "The same for the object that a root refers to, which may be of a type that moves: it stays while it is held.")
      .def("collect", &collect_heap, nb::sig("def collect(self) -> dict[str, typing.Any]"),
           "Frees all objects that are unreachable; returns counts. Tasks run meanwhile. Times are in seconds.")
      .def("compact", &compact_heap, nb::sig("def compact(self) -> dict[str, typing.Any]"),
           "Collects, moves objects of types that DWELL_MOVABLE declares together, and gives pages back; returns counts.")
      .def("statistics", &heap_statistics, nb::sig("def statistics(self) -> dict[str, typing.Any]"),
           "Bytes and counts of the heap, and of each size class.")
      .def("census", &heap_census, nb::sig("def census(self) -> dict[str, typing.Any]"),
           "What lives in the heap, by type of object and by size. Takes the loop off the device meanwhile.")
      .def("verify", &verify_heap, nb::sig("def verify(self) -> dict[str, int]"),
           "Checks the heap's tables against each other, with the loop off the device: \"mistakes\" is 0.");
}

}  // namespace dwell::python
