#include <dwell/heap.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <dwell/runtime.hpp>

#include "runtime/core.hpp"

namespace dwell {

namespace {

using Allocate = Operator<void(std::uint64_t, std::uint32_t, Span<std::uint32_t>)>;
using Free = Operator<void(Span<const std::uint32_t>)>;

using Make = Operator<void(std::uint32_t, std::uint32_t, Span<const std::uint64_t>, Span<std::uint32_t>)>;
using Hold = Operator<void(std::uint32_t, Span<const std::uint32_t>)>;
using HoldField = Operator<void(std::uint32_t, std::uint32_t, std::uint32_t, Span<std::uint32_t>)>;
using Store = Operator<void(std::uint32_t, std::uint32_t, std::uint32_t)>;

// One of the heap's operators: the definition's first instance, which owns the whole.
std::shared_ptr<detail::OperatorState> operator_of(runtime::Core& core, runtime::HeapOperator which) {
  const std::shared_ptr<detail::DefinitionState> definition = core.heap_operator(which);
  return {definition, &definition->instances.front()};
}

// An entry of the table of handles, released with its last owner.
std::shared_ptr<void> owned(const std::shared_ptr<runtime::Handles>& handles, std::uint32_t entry) {
  return {handles.get(), [handles, entry](void*) { handles->release(entry); }};
}

std::string room_clause(runtime::Core& core) {
  const std::string room = core.heap().room();
  return room.empty() ? "" : "; " + room;
}

}  // namespace

std::vector<std::uint32_t> Heap::allocate_units(std::size_t count, std::size_t bytes, std::size_t alignment) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kMostHeapAlignment)
    throw Error(errc::invalid_argument, "an alignment of " + std::to_string(alignment) + ": give a power of two of at most 4096");
  std::vector<std::uint32_t> units(count);
  if (count == 0) return units;
  const Allocate allocate(Runtime::handle_of(operator_of(*core(), runtime::HeapOperator::allocate)));
  const Buffer<std::uint32_t> into = runtime_->allocate<std::uint32_t>(count, Memory::host);
  runtime_->submit(allocate, std::uint64_t{bytes}, static_cast<std::uint32_t>(alignment), into).wait();
  into.read(std::span(units));
  const auto failed = std::ranges::count(units, 0U);
  if (failed == 0) return units;
  free_units(units);
  const std::size_t given = count - static_cast<std::size_t>(failed);
  throw Error(errc::out_of_memory,
              "the heap has no room for " + std::to_string(count) + " allocations of " + std::to_string(bytes) +
                  " bytes: it had room for " + std::to_string(given) + "; free some, or raise the option heap.reserve" +
                  room_clause(*core()),
              {"heap", "", count, given});
}

void Heap::free_units(std::span<const std::uint32_t> units) {
  if (units.empty()) return;
  const Free free(Runtime::handle_of(operator_of(*core(), runtime::HeapOperator::free)));
  Buffer<std::uint32_t> from = runtime_->allocate<std::uint32_t>(units.size(), Memory::host);
  from.write(units);
  runtime_->submit(free, from).wait();
}

void Heap::read_bytes(std::uint32_t unit, std::size_t offset, std::span<std::byte> bytes) const { core()->read_heap(unit, offset, bytes); }

void Heap::write_bytes(std::uint32_t unit, std::size_t offset, std::span<const std::byte> bytes) {
  core()->write_heap(unit, offset, bytes);
}

Heap::Made Heap::make_object(const device::TypeRecord& type, std::span<const std::byte> value) {
  const auto core = this->core();
  const Make make(Runtime::handle_of(operator_of(*core, runtime::HeapOperator::make)));
  const std::shared_ptr<runtime::Handles> handles = core->collector().handles();
  const std::uint32_t entry = handles->take();
  std::shared_ptr<void> owner = owned(handles, entry);
  std::vector<std::uint64_t> words((sizeof(type) + value.size() + 7) / 8);
  std::memcpy(words.data(), &type, sizeof(type));
  std::memcpy(reinterpret_cast<std::byte*>(words.data()) + sizeof(type), value.data(), value.size());
  Buffer<std::uint64_t> data = runtime_->allocate<std::uint64_t>(words.size(), Memory::host);
  data.write(std::span<const std::uint64_t>(words));
  const Buffer<std::uint32_t> made = runtime_->allocate<std::uint32_t>(1, Memory::host);
  runtime_->submit(make, static_cast<std::uint32_t>(value.size()), entry, data, made).wait();
  std::uint32_t unit = 0;
  made.read(std::span(&unit, 1));
  if (unit == 0)
    throw Error(errc::out_of_memory, "the heap has no room for an object of " + std::to_string(type.bytes) +
                                         " bytes; drop what is not needed, or raise the option heap.reserve" + room_clause(*core));
  return {unit, std::move(owner)};
}

std::shared_ptr<void> Heap::hold_unit(std::uint32_t unit) {
  const auto core = this->core();
  const Hold hold(Runtime::handle_of(operator_of(*core, runtime::HeapOperator::hold)));
  const std::shared_ptr<runtime::Handles> handles = core->collector().handles();
  const std::uint32_t entry = handles->take();
  std::shared_ptr<void> owner = owned(handles, entry);
  Buffer<std::uint32_t> units = runtime_->allocate<std::uint32_t>(1, Memory::host);
  units.write(std::span<const std::uint32_t>(&unit, 1));
  runtime_->submit(hold, entry, units).wait();
  return owner;
}

Heap::Made Heap::hold_field(std::uint32_t object, std::uint32_t offset) {
  const auto core = this->core();
  static_cast<void>(core->heap().address_of(object, offset, sizeof(object)));  // refuses what is no reference
  const HoldField hold(Runtime::handle_of(operator_of(*core, runtime::HeapOperator::hold_field)));
  const std::shared_ptr<runtime::Handles> handles = core->collector().handles();
  const std::uint32_t entry = handles->take();
  std::shared_ptr<void> owner = owned(handles, entry);
  const Buffer<std::uint32_t> held = runtime_->allocate<std::uint32_t>(1, Memory::host);
  runtime_->submit(hold, object, offset, entry, held).wait();
  std::uint32_t unit = 0;
  held.read(std::span(&unit, 1));
  if (unit == 0) owner = nullptr;
  return {unit, std::move(owner)};
}

Ref<void> Heap::root_unit(std::string_view name) {
  const auto core = this->core();
  return core->collector().root(std::string(name), [this] {
    const Handle<Cell<void>> cell = make(Cell<void>{Ref<void>{}});
    return runtime::Collector::RootCell{cell.ref_.unit(), cell.entry_};
  });
}

void Heap::store_unit(std::uint32_t object, std::uint32_t offset, std::uint32_t unit) {
  const auto core = this->core();
  static_cast<void>(core->heap().address_of(object, offset, sizeof(unit)));  // refuses what is no reference
  const Store store(Runtime::handle_of(operator_of(*core, runtime::HeapOperator::store)));
  runtime_->submit(store, object, offset, unit).wait();
}

HeapCollection Heap::collect() { return core()->collect_heap(); }

HeapCompaction Heap::compact() { return core()->compact_heap(); }

HeapStatistics Heap::statistics() const { return core()->heap_statistics(); }

HeapVerification Heap::verify() { return core()->verify_heap(); }

HeapCensus Heap::census() { return core()->heap_census(); }

std::shared_ptr<runtime::Core> Heap::core() const { return detail::Shell::require(runtime_->shell_); }

Heap Runtime::heap() { return Heap(*this); }

}  // namespace dwell
