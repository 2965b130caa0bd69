// The host's side of the arena (device/arena.hpp): its place, the pieces allocated behind its fixed parts, and its moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "device/arena.hpp"

namespace dwell::runtime {

// An arena, laid out and cleared as a runtime begins. Members may be called from any thread unless they say otherwise.
class Arena {
 public:
  // Owns memory behind the parts. The arena outlives it. Its address is valid until the arena moves (Arena::at_rest); its offset, in bytes
  // from the arena's start, always.
  class Piece final : public backend::Allocation {
   public:
    ~Piece() override {
      if (known_) arena_.give_back(offset_);
    }
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;
    std::uint64_t offset() const noexcept { return offset_; }

   private:
    friend class Arena;
    Piece(Arena& arena, std::uint64_t offset, std::size_t bytes) : arena_(arena), offset_(offset) { bytes_ = bytes; }
    void lie_in(const backend::Allocation& memory) {
      device_ = memory.device() + offset_;
      host_ = memory.host() == nullptr ? nullptr : static_cast<std::byte*>(memory.host()) + offset_;
    }

    Arena& arena_;
    const std::uint64_t offset_;
    bool known_ = false;  // to the arena
  };

  // `first_position`: as of device::first_control. Throws errc::out_of_memory, errc::device_lost.
  Arena(backend::Backend& backend, const device::ArenaHeader& layout, std::uint64_t first_position);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  const device::ArenaHeader& layout() const noexcept { return layout_; }
  std::size_t bytes() const;

  // Allocates uninitialised memory, aligned to 256 bytes. Grows the arena if needed. Throws errc::out_of_memory.
  std::unique_ptr<Piece> take(std::size_t bytes);
  // Allocates cleared memory. Also throws errc::device_lost.
  std::unique_ptr<Piece> take_cleared(std::size_t bytes);

  // Calls `look` with the arena's memory, which does not move meanwhile, and returns its result. `look` must neither allocate nor free
  // pieces.
  template <class Look>
  auto at_rest(Look look) const {
    const Lock lock(mutex_);
    return look(static_cast<const backend::Allocation&>(*region_));
  }

  // Copies the arena to new memory on the device, calls `point` with it, and frees the old memory. Called while no lease is on the device,
  // nor starts. Throws errc::out_of_memory and errc::device_lost; then the arena has not moved.
  template <class Point>
  void move(Point point) {
    const Lock lock(mutex_);
    const std::unique_ptr<backend::Region> former = copy();
    point(static_cast<const backend::Allocation&>(*region_));
  }

 private:
  static constexpr std::uint64_t kAligned = 256;

  // A piece behind the parts, or a hole between pieces.
  struct Range {
    std::uint64_t bytes;
    Piece* piece;  // null: a hole
  };

  // Replaces region_ by a copy, and returns the old one.
  std::unique_ptr<backend::Region> copy() DWELL_REQUIRES(mutex_);
  // Returns the first hole of at least `bytes`; ranges_.end() for none.
  std::map<std::uint64_t, Range>::iterator find_hole(std::uint64_t bytes) DWELL_REQUIRES(mutex_);
  void give_back(std::uint64_t offset) noexcept;

  backend::Backend& backend_;
  const device::ArenaHeader layout_;
  mutable Mutex mutex_;
  std::unique_ptr<backend::Region> region_ DWELL_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Range> ranges_ DWELL_GUARDED_BY(mutex_);  // by offset; the last one is a piece
  std::uint64_t end_ DWELL_GUARDED_BY(mutex_);                      // end of the last range
  std::uint64_t holes_ DWELL_GUARDED_BY(mutex_) = 0;                // bytes of all holes
};

}  // namespace dwell::runtime
