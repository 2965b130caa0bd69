// Reads a heap's tables.
#pragma once

#include <cstdint>

#include <dwell/heap.hpp>

#include "backend/backend.hpp"
#include "device/heap_layout.hpp"

namespace dwell::runtime {

// A view of the heap in `region`. `known`: its header as it was laid out; `pages` is what is mapped. Neither changes meanwhile. Members may
// be called from any thread. They throw errc::device_lost.
class HeapReader {
 public:
  // `workers`: that the heap was laid out for.
  HeapReader(backend::Backend& backend, const backend::Allocation& region, const device::heap::HeapHeader& known, std::uint32_t workers)
      : backend_(backend), region_(region), known_(known), caches_(workers * known.warps) {}

  // Reads the counts, while operators work. Nothing of collections.
  HeapStatistics statistics() const;
  // Check the tables, and count what lives in the heap, while nobody uses it: no task and no collection. On a GPU they copy the tables and
  // the maps of slabs; census also copies the slabs that have objects, some at a time.
  HeapVerification verify() const;
  HeapCensus census() const;

 private:
  class Tables;
  class Pieces;

  backend::Backend& backend_;
  const backend::Allocation& region_;
  const device::heap::HeapHeader& known_;
  const std::uint32_t caches_;
};

}  // namespace dwell::runtime
