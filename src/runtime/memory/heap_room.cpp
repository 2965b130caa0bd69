#include "runtime/memory/heap_room.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "device/heap_layout.hpp"

namespace dwell::runtime {

namespace {

constexpr std::size_t kMostHolders = 5;

// "512 bytes", "61.2 MiB"
std::string size_text(std::size_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, kUnits[unit]);
  return text;
}

// "1 slot", "5120 slots"
std::string count_text(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string request_text(std::size_t bytes) {
  if (bytes <= device::heap::kLargestClass) return "a slot of " + std::to_string(bytes) + " bytes";
  const std::size_t pages = (bytes + device::heap::kPageBytes - 1) / device::heap::kPageBytes;
  return std::to_string(bytes) + " bytes, " + count_text(pages, "page") + (pages == 1 ? "" : " in a row");
}

struct Holder {
  std::size_t bytes;
  std::string what;
};

// Returns "5120 slots of 8192 bytes (40.0 MiB), 10 large allocations (10.0 MiB)", those with most bytes first.
std::string holders_text(const HeapStatistics& heap) {
  std::vector<Holder> holders;
  for (const HeapClassStatistics& one : heap.classes)
    holders.push_back({one.live * one.size, count_text(one.live, "slot") + " of " + std::to_string(one.size) + " bytes"});
  holders.push_back({heap.large == 0 ? 0 : heap.large_bytes, count_text(heap.large, "large allocation")});
  std::ranges::stable_sort(holders, std::ranges::greater(), &Holder::bytes);
  std::string text;
  for (const Holder& holder : holders) {
    if (holder.bytes == 0 || &holder - holders.data() == kMostHolders) break;
    text += (text.empty() ? "" : ", ") + holder.what + " (" + size_text(holder.bytes) + ")";
  }
  return text;
}

}  // namespace

std::string room_text(const HeapStatistics& heap) {
  std::string text;
  std::size_t fragmented = heap.fragmented;
  for (const HeapClassStatistics& one : heap.classes)
    if (one.size == heap.last_failure) fragmented -= std::min(fragmented, one.free * one.size);
  const bool of_slot = heap.last_failure != 0 && heap.last_failure <= device::heap::kLargestClass;
  if (heap.last_failure != 0) text += "the last request without room was for " + request_text(heap.last_failure) + "; ";
  const std::size_t unused = heap.mapped - std::min(heap.mapped, heap.used + heap.tables);
  const std::size_t unmapped = heap.reserved - std::min(heap.reserved, heap.mapped);
  text += "of the " + size_text(heap.reserved) + " that the heap may have, " + size_text(heap.live_bytes() + heap.large_bytes) +
          " are live, " + size_text(fragmented) + " free in slots" + (of_slot ? " of other sizes" : "") + ", " + size_text(heap.cached) +
          " kept at hand by workers, " + size_text(unused) + " in pages without use, " + size_text(unmapped) +
          " not mapped; its tables take " + size_text(heap.tables);
  const std::string holders = holders_text(heap);
  if (!holders.empty()) text += "; most is in " + holders;
  return text;
}

}  // namespace dwell::runtime
