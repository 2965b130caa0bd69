#include "runtime/memory/rings.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include <dwell/error.hpp>

namespace dwell::runtime {

namespace {

using device::RingControl;
using device::RingShared;

constexpr std::size_t kSmallPage = 4096;
constexpr std::size_t kPage = 2U << 20U;  // which the device translates once
constexpr std::size_t kMostSlots = std::size_t{1} << 30U;

[[noreturn]] void refuse(const std::string& why, std::uint64_t value, std::uint64_t limit) {
  throw Error(errc::invalid_argument, "a ring " + why, {"ring", "", value, limit});
}

void check(const RingShape& shape, const RingOptions& options) {
  if (!std::has_single_bit(shape.slots) || shape.slots > kMostSlots)
    refuse("of " + std::to_string(shape.slots) + " slots is refused: their number is a power of two, 2^30 at most; the next is " +
               std::to_string(std::min(std::bit_ceil(std::min(shape.slots, kMostSlots)), kMostSlots)),
           shape.slots, kMostSlots);
  // Less than a block may stay in use while the ring is empty.
  const std::size_t limit = std::min<std::size_t>(std::max(shape.slots / 2, std::size_t{1}) * shape.slot_bytes, device::kMostMessageBytes);
  if (shape.most > limit)
    refuse("of " + std::to_string(shape.slots * shape.slot_bytes) + " bytes holds messages of " + std::to_string(limit) +
               " bytes at most, not " + std::to_string(shape.most) +
               ": make it larger, or its messages smaller (RingOptions::message_bytes)",
           shape.most, limit);
  if (options.producers == Side::host && options.consumers == Side::host)
    refuse("with both ends on the host has no use for a runtime: one of producers and consumers is Side::device", 0, 0);
  if (options.first % shape.slots != 0 || options.first >= device::kRingClosed)
    refuse("begins at a multiple of its slots: RingOptions::first is " + std::to_string(options.first), options.first, shape.slots);
}

// Where the parts of a ring's memory lie, from the beginning of what both sides reach.
struct Places {
  std::size_t heads = sizeof(RingShared);
  std::size_t data;
  std::size_t bytes;

  explicit Places(const RingShape& shape)
      : data(heads + shape.slots * sizeof(device::Quad)),
        // The message that begins in the last slot is contiguous too.
        bytes(data + (shape.slots +
                      device::ring_slots_of(static_cast<std::uint32_t>(shape.most), static_cast<std::uint32_t>(shape.slot_bytes)) - 1) *
                         shape.slot_bytes) {}
};

RingControl control_of(const RingShape& shape, const RingOptions& options, Side side, std::uint64_t shared) {
  const Places places(shape);
  RingControl control{};
  control.shared = shared;
  control.heads = shared + places.heads;
  control.data = shared + places.data;
  control.shift = static_cast<std::uint32_t>(std::countr_zero(shape.slots));
  control.block_shift =
      shape.slots > device::kRingBlocks ? control.shift - static_cast<std::uint32_t>(std::countr_zero(device::kRingBlocks)) : 0;
  control.slot_bytes = static_cast<std::uint32_t>(shape.slot_bytes);
  control.most = static_cast<std::uint32_t>(shape.most);
  control.flags = (options.checksum ? device::kRingChecked : 0) | (options.producers != options.consumers ? device::kRingSystem : 0) |
                  (options.producers == side ? device::kRingPushes : 0) | (options.consumers == side ? device::kRingPops : 0);
  control.room = shape.slots;
  control.tail = options.first;
  control.credited = options.first >> control.block_shift;
  control.head = options.first;
  const auto rounds = static_cast<std::uint32_t>(options.first >> control.shift);
  for (std::uint32_t& done : control.done) done = rounds << control.block_shift;
  return control;
}

RingShared shared_of(const RingShape& shape, const RingOptions& options) {
  RingShared shared{};
  shared.end = device::kRingEndless;
  for (std::uint32_t& freed : shared.freed) freed = static_cast<std::uint32_t>(options.first / shape.slots);
  return shared;
}

// `bytes`: a multiple of either.
std::shared_ptr<std::byte> pages(std::size_t bytes) {
  void* const memory = std::aligned_alloc(bytes < kPage ? kSmallPage : kPage, bytes);
  if (memory != nullptr && bytes >= kPage) static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));  // a wish
  if (memory == nullptr)
    throw Error(errc::out_of_memory, "no host memory for a ring of " + std::to_string(bytes) + " bytes", {"host memory", "", bytes, 0});
  std::memset(memory, 0, bytes);
  return {static_cast<std::byte*>(memory), [](std::byte* at) { std::free(at); }};
}

}  // namespace

std::shared_ptr<detail::RingState> make_ring(Buffers& buffers, const RingShape& shape, const RingOptions& options) {
  check(shape, options);
  const Places places(shape);
  auto state = std::make_shared<detail::RingState>();
  state->options = options;
  state->slots = shape.slots;
  const RingShared shared = shared_of(shape, options);
  if (options.producers == options.consumers) {
    state->control = buffers.allocate(sizeof(RingControl) + places.bytes, 1, Memory::device);
    const RingControl control = control_of(shape, options, Side::device, state->control->allocation->device() + sizeof(RingControl));
    buffers.write(*state->control, 0, &control, sizeof(control));
    buffers.write(*state->control, sizeof(control), &shared, sizeof(shared));
    return state;
  }
  const std::size_t unit = sizeof(RingControl) + places.bytes < kPage ? kSmallPage : kPage;
  const std::size_t bytes = (sizeof(RingControl) + places.bytes + unit - 1) / unit * unit;
  state->memory = pages(bytes);
  state->shared = buffers.pin(state->memory, bytes);
  state->host = reinterpret_cast<RingControl*>(state->memory.get());
  std::byte* const at = state->memory.get() + sizeof(RingControl);
  *state->host = control_of(shape, options, Side::host, reinterpret_cast<std::uint64_t>(at));
  std::memcpy(at, &shared, sizeof(shared));
  state->control = buffers.allocate(sizeof(RingControl), 1, Memory::device);
  state->control->flags |= detail::kSystem;
  const RingControl control = control_of(shape, options, Side::device, state->shared->allocation->device() + sizeof(RingControl));
  buffers.write(*state->control, 0, &control, sizeof(control));
  return state;
}

}  // namespace dwell::runtime
