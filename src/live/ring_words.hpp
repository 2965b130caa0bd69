// Reads tasks from the slots of a ring, for observers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/ring.hpp"

namespace dwell::live {

// Returns the argument words of the task at this position, followed by the rest of its last slot. Empty if the slots were overwritten,
// entirely or in part. For the launch of a graph the first two are the offset of its head in the arena. `slot_at(index)` returns an
// optional Slot.
template <class SlotAt>
std::vector<std::uint32_t> ring_words(const SlotAt& slot_at, std::uint32_t shift, std::uint32_t position) {
  std::vector<std::uint32_t> words;
  std::uint32_t slots = 1;
  for (std::uint32_t i = 0; i < slots; ++i) {
    const std::uint32_t at = position + i;
    const std::optional<device::Slot> slot = slot_at(device::index_of(at, shift));
    if (!slot) return {};
    for (const device::Quad& quad : slot->quad) {
      if (quad.lap != device::lap_of(at, shift)) return {};
      words.insert(words.end(), quad.word, quad.word + 3);
    }
    if (i == 0) slots = device::Header::from(words[0], words[1]).slots;
    if (slots > device::kMaxSlots) return {};
  }
  words.erase(words.begin(), words.begin() + device::kHeaderWords);
  return words;
}

}  // namespace dwell::live
