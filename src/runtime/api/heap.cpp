#include <dwell/heap.hpp>

#include <algorithm>
#include <string>

#include <dwell/runtime.hpp>

#include "runtime/core.hpp"

namespace dwell {

namespace {

using Allocate = Operator<void(std::uint64_t, std::uint32_t, Span<std::uint32_t>)>;
using Free = Operator<void(Span<const std::uint32_t>)>;

// A definition's first instance, which owns the whole.
std::shared_ptr<detail::OperatorState> first_of(const std::shared_ptr<detail::DefinitionState>& definition) {
  return {definition, &definition->instances.front()};
}

}  // namespace

std::vector<std::uint32_t> Heap::allocate_units(std::size_t count, std::size_t bytes, std::size_t alignment) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kMostHeapAlignment)
    throw Error(errc::invalid_argument, "an alignment of " + std::to_string(alignment) + ": give a power of two of at most 4096");
  std::vector<std::uint32_t> units(count);
  if (count == 0) return units;
  const Allocate allocate(Runtime::handle_of(first_of(core()->heap_operators().allocate)));
  const Buffer<std::uint32_t> into = runtime_->allocate<std::uint32_t>(count, Memory::host);
  runtime_->submit(allocate, std::uint64_t{bytes}, static_cast<std::uint32_t>(alignment), into).wait();
  into.read(std::span(units));
  const auto failed = std::ranges::count(units, 0U);
  if (failed == 0) return units;
  free_units(units);
  const std::size_t given = count - static_cast<std::size_t>(failed);
  throw Error(errc::out_of_memory,
              "the heap has no room for " + std::to_string(count) + " allocations of " + std::to_string(bytes) +
                  " bytes: it had room for " + std::to_string(given) + "; free some, or raise the option heap.reserve",
              {"heap", "", count, given});
}

void Heap::free_units(std::span<const std::uint32_t> units) {
  if (units.empty()) return;
  const Free free(Runtime::handle_of(first_of(core()->heap_operators().free)));
  Buffer<std::uint32_t> from = runtime_->allocate<std::uint32_t>(units.size(), Memory::host);
  from.write(units);
  runtime_->submit(free, from).wait();
}

void Heap::read_bytes(std::uint32_t unit, std::size_t offset, std::span<std::byte> bytes) const { core()->read_heap(unit, offset, bytes); }

void Heap::write_bytes(std::uint32_t unit, std::size_t offset, std::span<const std::byte> bytes) {
  core()->write_heap(unit, offset, bytes);
}

HeapStatistics Heap::statistics() const { return core()->heap().statistics(); }

HeapVerification Heap::verify() { return core()->heap().verify(); }

std::shared_ptr<runtime::Core> Heap::core() const { return detail::Shell::require(runtime_->shell_); }

Heap Runtime::heap() { return Heap(*this); }

}  // namespace dwell
