#include "runtime/device/ring_slots.hpp"

#include <algorithm>

#include "device/gates.hpp"

namespace dwell::runtime {

using device::Header;
using device::Order;
using device::Quad;
using device::Scope;

static_assert(device::kHeaderWords == 3, "RingSlots::first_free_quad");
static_assert(detail::kMaxWords == device::kMaxArgumentWords && detail::kFirstSlotWords == device::kSlotWords - device::kHeaderWords);

void RingSlots::write_plain(std::uint64_t first, const detail::FirstSlot* slots, std::size_t count, std::uint32_t opcode,
                            std::uint32_t word1) const {
  for (std::size_t placed = 0; placed < count;) {
    // Up to the end of the ring laps are equal and slots are contiguous.
    const std::uint64_t position = first + placed;
    const std::size_t run = std::min<std::size_t>(count - placed, capacity() - index(position));
    device::Slot* const to = ring_ + index(position);
    const std::uint32_t tag = lap(position);
    for (std::size_t i = 0; i < run; ++i) write_slot(to[i], slots[placed + i], tag, opcode, word1, position + i);
    placed += run;
  }
}

void RingSlots::write(std::uint64_t position, const TaskHead& head, const detail::Task& task, const WaitingFor& list) const {
  const Header& header = head.header;
  const std::uint32_t first_entry = first_free_quad(task.words);
  const std::uint32_t end_of_list = first_entry + (head.list ? list.count : 0);
  const auto entry = [&](std::uint32_t quad, std::uint32_t tag) {
    const std::uint32_t i = quad - first_entry;
    const std::uint64_t task_before = list.position[i];
    return Quad{tag, {static_cast<std::uint32_t>(task_before), static_cast<std::uint32_t>(task_before >> 32U), list.kind[i]}};
  };
  for (std::uint32_t slot = 1; slot < header.slots; ++slot) {
    const std::uint64_t at = position + slot;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t quad = slot * 4 + i;
      Quad to{lap(at), {}};
      if (quad >= first_entry && quad < end_of_list) to = entry(quad, lap(at));
      const std::uint32_t from = quad * 3 - device::kHeaderWords;
      for (std::uint32_t j = 0; j < 3 && from + j < task.words; ++j) to.word[j] = task.rest[from + j - detail::kFirstSlotWords];
      device::store_quad<Scope::system>(&ring_[index(at)].quad[i], to);
    }
  }
  detail::FirstSlot first = task.first;
  first.head = 0;  // the header says it all
  for (std::uint32_t quad = first_entry; quad < 4 && quad < end_of_list; ++quad) {
    const Quad it = entry(quad, 0);
    first.quad[quad - 1] =
        detail::Quad{static_cast<std::uint64_t>(it.word[0]) << 32U, it.word[1] | static_cast<std::uint64_t>(it.word[2]) << 32U};
  }
  write_first(position, first, header.word0(), header.word1(), head.named);
}

void RingSlots::write_entry(std::uint64_t position, const Header& header, std::uint32_t word2) const {
  for (std::uint32_t slot = 0; slot < header.slots; ++slot)
    for (std::uint32_t i = 0; i < 4; ++i)
      device::store_quad<Scope::system>(&ring_[index(position + slot)].quad[i],
                                        Quad{lap(position + slot), {header.word0(), header.word1(), word2}});
}

void RingSlots::open_gate(std::uint64_t position) const {
  device::store_quad<Scope::system>(&ring_[index(position)].quad[device::gates::kQuad], Quad{lap(position), {device::gates::kOpen, 0, 0}});
}

std::optional<Header> RingSlots::header(std::uint64_t position) const {
  const Quad head = device::load_quad<Scope::system>(&ring_[index(position)].quad[0]);
  if (head.lap != lap(position)) return std::nullopt;
  return Header::from(head.word[0], head.word[1]);
}

bool RingSlots::is_tracked(std::uint64_t position) const {
  const Quad head = device::load_quad<Scope::system>(&ring_[index(position)].quad[0]);
  return (Header::from(head.word[0], head.word[1]).flags & device::flag::tracked) != 0;
}

std::uint32_t RingSlots::argument(std::uint64_t position, std::uint32_t i) const {
  const std::uint32_t all = device::kHeaderWords + i;
  const device::Slot& slot = ring_[index(position + all / device::kSlotWords)];
  return device::load<Order::relaxed, Scope::system>(&slot.quad[all % device::kSlotWords / 3].word[all % 3]);
}

}  // namespace dwell::runtime
