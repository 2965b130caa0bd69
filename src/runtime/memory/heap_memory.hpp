// The memory of a runtime's heap: made at the first use, grown as operators ask.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <dwell/heap.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "base/thread.hpp"
#include "device/heap_layout.hpp"
#include "runtime/device/keeper.hpp"

namespace dwell::runtime {

// Lays out the heap (device/heap_layout.hpp), points leases at it, and maps more memory. Members may be called from any thread.
class HeapMemory {
 public:
  // `workers`: the most of any lease. Makes nothing yet.
  HeapMemory(backend::Backend& backend, Keeper& keeper, const HeapOptions& options, std::uint32_t workers,
             std::function<void(std::string_view)> warn);
  ~HeapMemory();
  HeapMemory(const HeapMemory&) = delete;
  HeapMemory& operator=(const HeapMemory&) = delete;

  // Makes the heap unless it is there: later leases have it. Throws errc::out_of_memory, errc::device_lost.
  void ensure();
  // Returns whether there is one.
  bool is_made() const { return there_.load(std::memory_order_acquire); }
  // Ends the thread that grows the heap. The heap stays.
  void finish() noexcept;

  // Returns the address on the device of `bytes` at this offset. Throws errc::invalid_argument unless they lie in pages of allocations.
  std::uint64_t address_of(std::uint32_t unit, std::size_t offset, std::size_t bytes);
  // Returns whether operators have asked for a collection since the last call. False without a heap.
  bool take_wish_to_collect();
  // Its address on the device, the first page of allocations, the most pages that there may be, and the entries of the table of handles.
  // They make the heap.
  std::uint64_t address();
  std::uint32_t first_page();
  std::uint32_t most_pages();
  std::uint32_t handle_entries();
  HeapStatistics statistics();
  // Returns clauses about the heap's room for a message (heap_room.hpp). Empty when they cannot be had: there is no heap, or the device has
  // failed.
  std::string room();
  // As Heap::verify, census. No collection runs meanwhile.
  HeapVerification verify();
  HeapCensus census();

 private:
  struct Made;
  // Calls `look` with a reader of the heap, while no task uses it.
  template <class Look>
  auto at_rest(Look look);

  Made& made();
  void grow_when_asked(const std::stop_token& stop);
  // Maps memory until the heap has `pages`, or as many as there is memory for.
  void grow_to(std::uint32_t pages);
  // Maps so many pages more, or half as many and so on, and returns how many. Throws as Region::grow when there is not even one.
  static std::uint32_t map_some(Made& made, std::uint32_t more);

  backend::Backend& backend_;
  Keeper& keeper_;
  const HeapOptions options_;
  const std::uint32_t workers_;
  const std::function<void(std::string_view)> warn_;
  Mutex mutex_;  // held while the heap is made, or grows
  std::atomic<bool> there_{false};
  std::unique_ptr<Made> made_ DWELL_GUARDED_BY(mutex_);
  std::jthread grower_;
};

}  // namespace dwell::runtime
