#include "runtime/device/ring_view.hpp"

#include "runtime/device/sources.hpp"

namespace dwell::runtime {

using device::Header;
using device::Quad;
using device::Scope;
using device::WaitList;
namespace flag = device::flag;

std::optional<Quad> RingView::quad(std::uint64_t position, std::uint32_t index) const {
  const auto at = static_cast<std::uint32_t>(position + index / 4);
  const Quad quad = device::load_quad<Scope::system>(&ring_[device::index_of(at, shift_)].quad[index % 4]);
  if (quad.lap != device::lap_of(at, shift_)) return std::nullopt;
  return quad;
}

std::optional<Header> RingView::header_at(std::uint64_t position) const {
  const std::optional<Quad> head = quad(position, 0);
  if (!head) return std::nullopt;
  const Header header = Header::from(head->word[0], head->word[1]);
  if (header.slots == 0 || header.slots > device::kMaxSlots) return std::nullopt;
  return header;
}

std::optional<RingView::Task> RingView::at(std::uint64_t position) const {
  const std::optional<Header> header = header_at(position);
  const std::optional<Quad> head = quad(position, 0);
  if (!header || !head) return std::nullopt;
  Task task{position, *header};
  const std::uint32_t flags = task.header.flags;
  if (!source_of(*header).is_task || (flags & flag::failed) == flag::failed) return task;
  if (source_of(*header).launches) {
    const std::optional<Quad> arguments = quad(position, 1);
    if (!arguments) return std::nullopt;
    task.graph = arguments->word[0] | static_cast<std::uint64_t>(arguments->word[1]) << 32U;
  }
  if ((flags & flag::after) != 0) {
    const WaitList list = WaitList::from(head->word[2]);
    for (std::uint32_t i = 0; i < list.count; ++i) {
      const std::optional<Quad> entry = quad(position, list.first + i);
      if (!entry) return std::nullopt;
      if (entry->word[2] != WaitList::failed) task.waits.push_back(entry->word[0] | static_cast<std::uint64_t>(entry->word[1]) << 32U);
    }
  } else if ((flags & flag::link) != 0) {
    task.waits.push_back(position - (static_cast<std::uint32_t>(position) - head->word[2]));
  }
  return task;
}

std::uint32_t RingView::add_arguments(std::uint64_t position, std::vector<std::uint32_t>& to) const {
  const std::optional<Header> header = header_at(position);
  if (!header) return 0;
  if (queue_.done(position)) return header->slots;
  for (std::uint32_t index = 1; index < 4 * header->slots; ++index)
    if (const std::optional<Quad> part = quad(position, index)) to.insert(to.end(), {part->word[0], part->word[1], part->word[2]});
  return header->slots;
}

}  // namespace dwell::runtime
