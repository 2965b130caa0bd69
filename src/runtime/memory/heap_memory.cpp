#include "runtime/memory/heap_memory.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/heap.hpp"
#include "runtime/memory/heap_reader.hpp"
#include "runtime/memory/heap_room.hpp"

namespace dwell::runtime {

namespace heap = device::heap;

namespace {

constexpr std::size_t kDefaultStep = std::size_t{64} << 20U;
// How often a working device is asked whether operators wait for memory; one that rests is asked less often.
constexpr auto kLooks = std::chrono::milliseconds(1);
constexpr auto kLooksAtRest = std::chrono::milliseconds(20);

std::uint32_t pages_of(std::size_t bytes) {
  const std::size_t pages = (bytes + heap::kPageBytes - 1) / heap::kPageBytes;
  return static_cast<std::uint32_t>(std::min<std::size_t>(pages, heap::kMostPages));
}

}  // namespace

struct HeapMemory::Made {
  heap::HeapHeader header;  // as it was laid out; `pages` is what is mapped
  std::unique_ptr<backend::Region> region;
  std::unique_ptr<backend::Allocation> report;
  std::uint32_t step;  // pages

  const std::uint32_t& wanted() const { return static_cast<const heap::HeapReport*>(report->host())->wanted; }
};

HeapMemory::HeapMemory(backend::Backend& backend, Keeper& keeper, const HeapOptions& options, std::uint32_t workers,
                       std::function<void(std::string_view)> warn)
    : backend_(backend), keeper_(keeper), options_(options), workers_(workers), warn_(std::move(warn)) {}

HeapMemory::~HeapMemory() { finish(); }

void HeapMemory::finish() noexcept {
  grower_.request_stop();
  if (grower_.joinable()) grower_.join();
}

void HeapMemory::ensure() {
  if (there_.load(std::memory_order_acquire)) return;
  const Lock lock(mutex_);
  if (made_ != nullptr) return;
  const backend::DeviceInfo info = backend_.info();
  const std::size_t reserve = options_.reserve != 0 ? options_.reserve : info.memory_bytes;
  auto made = std::make_unique<Made>();
  made->header = heap::lay_out({.pages = pages_of(reserve),
                                .workers = workers_,
                                .warps = info.on_host ? 1 : 128U / 32U,
                                .cache = info.on_host ? heap::kCacheOnCpu : heap::kCacheOnGpu});
  const std::uint32_t least = made->header.first_page + 64;
  if (made->header.most_pages < least)
    throw Error(errc::invalid_argument,
                "the option heap.reserve is " + std::to_string(reserve) + " bytes: the heap's tables alone take " +
                    std::to_string(made->header.bytes) + "; give at least " + std::to_string(std::size_t{least} * heap::kPageBytes),
                {"option", "Options::heap.reserve", reserve, std::size_t{least} * heap::kPageBytes});
  made->step = std::max(pages_of(options_.grow != 0 ? options_.grow : kDefaultStep), 1U);
  const bool at_once = info.on_host && options_.grow == 0;  // the system gives memory as it is touched
  const std::uint32_t first = std::min(made->header.most_pages, made->header.first_page + made->step);
  made->region = backend_.reserve(std::size_t{first} * heap::kPageBytes, std::size_t{made->header.most_pages} * heap::kPageBytes);
  made->report = backend_.allocate_host(sizeof(heap::HeapReport));
  made->header.pages = first;
  if (at_once) {
    try {
      made->header.pages += map_some(*made, made->header.most_pages - first);
    } catch (const Error&) {
      made->header.most_pages = first;
    }
  }
  made->header.checks = options_.checks == HeapChecks::off     ? 0
                        : options_.checks == HeapChecks::light ? heap::kChecksFrees
                                                               : heap::kChecksWrites;
  made->header.report = made->report->device();
  made->header.threshold =
      std::min(made->header.first_page + static_cast<std::uint32_t>(kDefaultStep / heap::kPageBytes), made->header.most_pages / 4 * 3);
  std::vector<std::uint64_t> map(made->header.first_page / 64 + 1);
  for (std::uint32_t page = 0; page < made->header.first_page; ++page) map[page / 64] |= std::uint64_t{1} << (page % 64);
  const std::uint64_t at = made->region->device();
  backend_.copy_to_device(at, &made->header, sizeof(made->header));
  backend_.copy_to_device(at + made->header.page_map, map.data(), map.size() * sizeof(map[0]));
  keeper_.change_leases([at](device::Lease& lease) { lease.heap = at; });
  const bool grows = made->header.pages < made->header.most_pages;
  made_ = std::move(made);
  there_.store(true, std::memory_order_release);
  if (grows) grower_ = std::jthread([this](const std::stop_token& stop) { grow_when_asked(stop); });
}

HeapMemory::Made& HeapMemory::made() {
  ensure();
  const Lock lock(mutex_);
  return *made_;
}

void HeapMemory::grow_when_asked(const std::stop_token& stop) {
  const Made& heap = made();
  // `header` changes in this thread alone. A limit that is reached or lowered is final.
  while (!stop.stop_requested() && heap.header.pages < heap.header.most_pages) {
    const std::uint32_t wanted = __atomic_load_n(&heap.wanted(), __ATOMIC_RELAXED);
    if (wanted > heap.header.pages) {
      grow_to(wanted);
      continue;
    }
    std::this_thread::sleep_for(keeper_.asleep() ? kLooksAtRest : kLooks);
  }
}

void HeapMemory::grow_to(std::uint32_t pages) {
  const Lock lock(mutex_);
  heap::HeapHeader& header = made_->header;
  // In steps of half the heap, so that a heap that fills quickly rarely waits.
  const std::uint32_t wanted = std::min(std::max({pages, header.pages + made_->step, header.pages + header.pages / 2}), header.most_pages);
  if (wanted <= header.pages) return;
  try {
    header.pages += map_some(*made_, wanted - header.pages);
    backend_.copy_to_device(made_->region->device() + offsetof(heap::HeapHeader, pages), &header.pages, sizeof(header.pages));
  } catch (const Error& error) {
    // Whoever waits learns from this that no more comes.
    header.most_pages = header.pages;
    try {
      backend_.copy_to_device(made_->region->device() + offsetof(heap::HeapHeader, most_pages), &header.most_pages,
                              sizeof(header.most_pages));
    } catch (const Error&) {
      return;  // the device is lost, which others report
    }
    if (warn_)
      warn_(std::string("the heap stays at ") + std::to_string(std::size_t{header.pages} * heap::kPageBytes) + " bytes: " + error.what());
  }
}

bool HeapMemory::take_wish_to_collect() {
  if (!there_.load(std::memory_order_acquire)) return false;
  const Lock lock(mutex_);
  std::uint32_t* const wish = &static_cast<heap::HeapReport*>(made_->report->host())->collect;
  return __atomic_load_n(wish, __ATOMIC_RELAXED) != 0 && __atomic_exchange_n(wish, 0U, __ATOMIC_RELAXED) != 0;
}

std::uint64_t HeapMemory::address() {
  Made& heap = made();
  const Lock lock(mutex_);
  return heap.region->device();
}

std::uint32_t HeapMemory::first_page() {
  Made& heap = made();
  const Lock lock(mutex_);
  return heap.header.first_page;
}

std::uint32_t HeapMemory::most_pages() {
  Made& heap = made();
  const Lock lock(mutex_);
  return heap.header.most_pages;
}

std::uint32_t HeapMemory::handle_entries() {
  Made& heap = made();
  const Lock lock(mutex_);
  return heap.header.handles;
}

std::uint32_t HeapMemory::map_some(Made& made, std::uint32_t more) {
  for (;; more /= 2) try {
      made.region->grow((std::size_t{made.header.pages} + more) * heap::kPageBytes);
      return more;
    } catch (const Error& error) {
      if (error.kind() != errc::out_of_memory || more <= 1) throw;
    }
}

std::uint64_t HeapMemory::address_of(std::uint32_t unit, std::size_t offset, std::size_t bytes) {
  Made& heap = made();
  const Lock lock(mutex_);
  const std::size_t at = std::size_t{unit} * heap::kUnit + offset;
  const std::size_t end = std::size_t{heap.header.pages} * heap::kPageBytes;
  if (unit == 0) throw Error(errc::invalid_argument, "the reference names nothing in the heap");
  if (at < std::size_t{heap.header.first_page} * heap::kPageBytes || at > end || bytes > end - at)
    throw Error(errc::invalid_argument, "the reference names " + std::to_string(bytes) + " bytes at offset " + std::to_string(at) +
                                            " of the heap, which has allocations from " +
                                            std::to_string(std::size_t{heap.header.first_page} * heap::kPageBytes) + " to " +
                                            std::to_string(end));
  return heap.region->device() + at;
}

HeapStatistics HeapMemory::statistics() {
  Made& heap = made();
  const Lock lock(mutex_);
  return HeapReader(backend_, *heap.region, heap.header, workers_).statistics();
}

std::string HeapMemory::room() {
  if (!there_.load(std::memory_order_acquire) || keeper_.failed()) return {};
  try {
    return room_text(statistics());
  } catch (const Error&) {
    return {};  // the device is lost, which others report
  }
}

template <class Look>
auto HeapMemory::at_rest(Look look) {
  Made& heap = made();
  keeper_.outlast_tasks();  // or a long task would delay all others once the loop is to leave
  const ParkGuard parked = keeper_.park_loop();
  const Lock lock(mutex_);
  return look(HeapReader(backend_, *heap.region, heap.header, workers_));
}

HeapVerification HeapMemory::verify() {
  return at_rest([](const HeapReader& reader) { return reader.verify(); });
}

HeapCensus HeapMemory::census() {
  return at_rest([](const HeapReader& reader) { return reader.census(); });
}

}  // namespace dwell::runtime
