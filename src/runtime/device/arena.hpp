// The host's side of the arena (device/arena.hpp): where it lies, what lies behind its parts, and how it moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "device/arena.hpp"

namespace dwell::runtime {

// An arena, laid out and cleared as a runtime begins. Members may be called from any thread but where they say otherwise.
class Arena {
 public:
  // Memory behind the parts, for as long as it lives. Outlived by the arena. Its address is good until the arena moves (Arena::at_rest);
  // its offset, in bytes from the arena's start, for good.
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

  // Memory with whatever is in it, aligned to 256 bytes. The arena grows when it has no room. Throws errc::out_of_memory.
  std::unique_ptr<Piece> take(std::size_t bytes);
  // The same, cleared. Throws errc::device_lost too.
  std::unique_ptr<Piece> take_cleared(std::size_t bytes);

  // Calls `look` with the arena's memory, which does not move meanwhile, and returns what it returns. `look` must neither take pieces nor
  // give any back.
  template <class Look>
  auto at_rest(Look look) const {
    const Lock lock(mutex_);
    return look(static_cast<const backend::Allocation&>(*region_));
  }

  // Copies the arena elsewhere on the device, calls `point` with its memory there, and gives the former memory back. Called while no lease
  // is on the device, nor starts. Throws errc::out_of_memory and errc::device_lost; then all is where it was.
  template <class Point>
  void move(Point point) {
    const Lock lock(mutex_);
    const std::unique_ptr<backend::Region> former = copy();
    point(static_cast<const backend::Allocation&>(*region_));
  }

 private:
  static constexpr std::uint64_t kAligned = 256;

  // What lies behind the parts: pieces, and holes between them.
  struct Range {
    std::uint64_t bytes;
    Piece* piece;  // null: a hole
  };

  // Puts a copy into the offset of region_, and returns what was there.
  std::unique_ptr<backend::Region> copy() DWELL_REQUIRES(mutex_);
  // The first hole of so many bytes at least; ranges_.end() for none.
  std::map<std::uint64_t, Range>::iterator find_hole(std::uint64_t bytes) DWELL_REQUIRES(mutex_);
  void give_back(std::uint64_t offset) noexcept;

  backend::Backend& backend_;
  const device::ArenaHeader layout_;
  mutable Mutex mutex_;
  std::unique_ptr<backend::Region> region_ DWELL_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Range> ranges_ DWELL_GUARDED_BY(mutex_);  // by offset; the last one is a piece
  std::uint64_t end_ DWELL_GUARDED_BY(mutex_);                      // of the last range
  std::uint64_t holes_ DWELL_GUARDED_BY(mutex_) = 0;                // bytes of all holes
};

}  // namespace dwell::runtime
