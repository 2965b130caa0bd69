#include "runtime/memory/heap_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "runtime/observe/device_memory.hpp"

namespace dwell::runtime {

namespace heap = device::heap;

namespace {

std::size_t less(std::size_t all, std::size_t some) { return all - std::min(all, some); }

}  // namespace

HeapStatistics HeapReader::statistics() const {
  const std::uint64_t at = region_.device();
  heap::HeapHeader header{};
  std::vector<heap::ClassCounts> counts(heap::kClasses);
  std::vector<heap::CacheOfClass> caches(std::size_t{caches_} * heap::kClasses);
  const backend::HostCopy copies[] = {{&header, at, sizeof(header)},
                                      {counts.data(), at + known_.count_table, counts.size() * sizeof(counts[0])},
                                      {caches.data(), at + known_.cache_table, caches.size() * sizeof(caches[0])}};
  read_all_words(backend_, region_, copies);
  HeapStatistics result;
  result.reserved = std::size_t{header.most_pages} * heap::kPageBytes;
  result.mapped = std::size_t{header.pages} * heap::kPageBytes;
  result.tables = std::size_t{header.first_page} * heap::kPageBytes;
  result.used = std::size_t{header.used} * heap::kPageBytes - result.tables;
  result.large = header.runs;
  result.large_bytes = result.used;
  result.types = header.types;
  result.classes.reserve(heap::kClasses);
  for (std::uint32_t number = 0; number < heap::kClasses; ++number) {
    HeapClassStatistics& one = result.classes.emplace_back();
    one.size = heap::size_of_class(number);
    one.slabs = counts[number].slabs;
    one.bytes = one.slabs * (std::size_t{heap::kPageBytes} << header.classes[number].page_shift);
    one.slots = one.slabs * header.classes[number].slots;
    one.failures = counts[number].failures;
    one.frees = counts[number].swept;
    for (std::size_t cache = 0; cache < caches.size(); cache += heap::kClasses) {
      one.allocations += caches[cache + number].taken;
      one.frees += caches[cache + number].given;
      one.cached += caches[cache + number].count;
    }
    one.live = less(one.allocations, one.frees);
    one.free = less(one.slots, one.live + one.cached);
    result.cached += one.cached * one.size;
    result.fragmented += one.free * one.size;
    result.large_bytes = less(result.large_bytes, one.bytes);
  }
  return result;
}

}  // namespace dwell::runtime
