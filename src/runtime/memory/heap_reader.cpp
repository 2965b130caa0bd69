#include "runtime/memory/heap_reader.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/heap_census.hpp"
#include "runtime/observe/device_memory.hpp"

namespace dwell::runtime {

namespace heap = device::heap;

namespace {

std::size_t less(std::size_t all, std::size_t some) { return all - std::min(all, some); }

// The number of the class of whose slabs `page` is the first; kClasses: it is no such page.
std::uint32_t class_of_slab(const heap::Page& page) {
  const std::uint32_t number = (page.kind & heap::kind::mask) - 1;
  return number < heap::kClasses && page.kind >> heap::kind::shift == 0 ? number : heap::kClasses;
}

bool is_object_run(const heap::Page& page) {
  return (page.kind & heap::kind::mask) == heap::kind::run && (page.object & heap::object::is) != 0;
}

// The slots of a slab that allocations have; without checks those in caches count too.
std::uint32_t live_in(const heap::Heap& of, std::uint32_t slab, const heap::Class& kind) {
  std::uint32_t live = 0;
  for (std::uint32_t word = 0; word < kind.words; ++word) {
    const u32 plain = of.header().checks != 0 ? of.live(slab, kind)[word] : of.taken(slab)[word] & ~heap::no_slots(kind, word);
    live += static_cast<std::uint32_t>(std::popcount(plain | of.objects(slab, kind)[word]));
  }
  return live;
}

}  // namespace

// The tables of a heap and the maps of its slabs, at their offsets: the heap itself where the host reaches it, else a copy.
class HeapReader::Tables {
 public:
  explicit Tables(const HeapReader& reader) {
    const heap::HeapHeader& known = reader.known_;
    if (reader.region_.host() != nullptr) {
      heap_ = {static_cast<u8*>(reader.region_.host())};
      return;
    }
    // Uninitialised, so that pages without a copy take no memory.
    copy_ = std::make_unique_for_overwrite<std::byte[]>(std::size_t{known.pages} * heap::kPageBytes);
    heap_ = {reinterpret_cast<u8*>(copy_.get())};
    const std::uint64_t at = reader.region_.device();
    reader.backend_.copy_to_host(copy_.get(), at, known.bytes);
    std::vector<backend::HostCopy> maps;
    for (std::uint32_t page = known.first_page; page < known.pages; ++page) {
      const std::uint32_t number = class_of_slab(heap_.page(page));
      if (number == heap::kClasses) continue;
      const std::size_t offset = std::size_t{page} * heap::kPageBytes;
      maps.push_back({copy_.get() + offset, at + offset, std::size_t{heap::kMaps} * 4 * known.classes[number].words});
    }
    reader.backend_.copy_all_to_host(maps);
  }

  const heap::Heap& heap() const { return heap_; }

 private:
  std::unique_ptr<std::byte[]> copy_;
  heap::Heap heap_{};
};

// Shows pieces of a heap to functions. Where the host does not reach the heap it copies them, some at a time.
class HeapReader::Pieces {
 public:
  using Look = std::function<void(const u8*)>;
  explicit Pieces(const HeapReader& reader) : reader_(reader) {}

  // Calls `look` with the bytes from `offset` on, now or later, but in `finish` at the latest.
  void add(std::size_t offset, std::size_t bytes, Look look) {
    if (reader_.region_.host() != nullptr) return look(static_cast<const u8*>(reader_.region_.host()) + offset);
    if (used_ + bytes > copied_.size()) {
      finish();
      copied_.resize(std::max(copied_.size(), std::max(bytes, kAtOnce)));
    }
    copies_.push_back({copied_.data() + used_, reader_.region_.device() + offset, bytes});
    looks_.push_back(std::move(look));
    used_ += device::align_up(bytes, alignof(heap::HeapHeader));
  }
  void finish() {
    reader_.backend_.copy_all_to_host(copies_);
    for (std::size_t i = 0; i < looks_.size(); ++i) looks_[i](static_cast<const u8*>(copies_[i].to));
    copies_.clear();
    looks_.clear();
    used_ = 0;
  }

 private:
  static constexpr std::size_t kAtOnce = std::size_t{16} << 20U;  // bytes

  const HeapReader& reader_;
  std::vector<u8> copied_;
  std::size_t used_ = 0;
  std::vector<backend::HostCopy> copies_;
  std::vector<Look> looks_;
};

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
  result.large_failures = header.failed_runs;
  result.last_failure = header.failed_bytes;
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

HeapVerification HeapReader::verify() const {
  const Tables tables(*this);
  const heap::Census census = heap::take_census(tables.heap(), caches_);
  HeapVerification result{.mistakes = census.mistakes, .first_offset = std::size_t{census.mistake} * heap::kPageBytes, .live = census.runs};
  for (const heap::Sums& sums : census.classes) result.live += less(sums.taken, sums.cached);
  return result;
}

HeapCensus HeapReader::census() const {
  HeapCensus result;
  const Tables tables(*this);
  const heap::Heap& of = tables.heap();
  const heap::Census all = heap::take_census(of, caches_);
  const auto by_type = std::make_unique<heap::TypeCensus>();
  Pieces pieces(*this);
  for (std::uint32_t page = known_.first_page; page < known_.pages; ++page) {
    const heap::Page& its = of.page(page);
    const std::size_t offset = std::size_t{page} * heap::kPageBytes;
    if (const std::uint32_t number = class_of_slab(its); number != heap::kClasses) {
      const heap::Class& kind = known_.classes[number];
      result.slabs.push_back(
          {offset, std::size_t{heap::kPageBytes} << kind.page_shift, heap::size_of_class(number), kind.slots, live_in(of, page, kind)});
      const u32* const objects = of.objects(page, kind);
      if (std::all_of(objects, objects + kind.words, [](u32 word) { return word == 0; })) continue;
      pieces.add(offset, std::size_t{heap::kPageBytes} << kind.page_shift,
                 [&](const u8* at) { heap::count_objects(kind, at, by_type.get()); });
    } else if ((its.kind & heap::kind::mask) == heap::kind::run) {
      result.slabs.push_back({offset, std::size_t{its.kind >> heap::kind::shift} * heap::kPageBytes, 0, 1, 1});
      if (!is_object_run(its)) continue;
      const std::uint64_t pages = its.kind >> heap::kind::shift;
      by_type->runs += 1;
      by_type->run_pages += pages;
      pieces.add(offset, sizeof(device::ObjectHeader), [bytes = pages * heap::kPageBytes, &by_type](const u8* at) {
        heap::count_object(*reinterpret_cast<const device::ObjectHeader*>(at), bytes, by_type.get());
      });
    }
  }
  pieces.finish();

  for (std::uint32_t type = 0; type <= heap::kMostTypes; ++type) {
    const heap::TypeSums& sums = by_type->types[type];
    if (sums.objects == 0) continue;
    HeapTypeCensus& one = result.types.emplace_back();
    if (type != 0) {
      const device::TypeRecord& record = of.table<device::TypeRecord>(known_.type_table)[type - 1];
      one.name.assign(record.name, ::strnlen(record.name, sizeof(record.name)));
    }
    one.objects = sums.objects;
    one.bytes = sums.bytes;
  }
  std::ranges::sort(result.types, [](const HeapTypeCensus& a, const HeapTypeCensus& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
  for (std::uint32_t number = 0; number < heap::kClasses; ++number) {
    const heap::Sums& sums = all.classes[number];
    const std::uint64_t allocations = less(sums.taken, sums.cached + sums.objects);
    if (allocations != 0) result.sizes.push_back({heap::size_of_class(number), allocations});
  }
  result.large = less(all.runs, by_type->runs);
  result.large_bytes = less(all.run_pages, by_type->run_pages) * heap::kPageBytes;
  return result;
}

}  // namespace dwell::runtime
