#include "runtime/device/arena.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include <dwell/error.hpp>

#include "device/graph_layout.hpp"

namespace dwell::runtime {

namespace {

// A cell's number has 31 bits, next to a mark.
constexpr std::uint64_t kArenaLimit = static_cast<std::uint64_t>(device::kPoisoned) * device::kCell;

// The limit to which an arena of `bytes` may grow: the device's memory.
std::uint64_t limit_of(const backend::Backend& backend, std::uint64_t bytes) {
  return std::clamp<std::uint64_t>(backend.info().memory_bytes, std::min(bytes, kArenaLimit), kArenaLimit);
}

}  // namespace

Arena::Arena(backend::Backend& backend, const device::ArenaHeader& layout, std::uint64_t first_position)
    : backend_(backend), layout_(layout), region_(backend.reserve(layout.bytes, limit_of(backend, layout.bytes))), end_(layout.bytes) {
  const device::Control control = device::first_control(layout, first_position);
  const Lock lock(mutex_);
  backend_.copy_to_device(region_->device(), &layout_, sizeof(layout_));
  backend_.copy_to_device(region_->device() + layout_.control, &control, sizeof(control));
}

std::size_t Arena::bytes() const {
  const Lock lock(mutex_);
  return region_->bytes();
}

std::map<std::uint64_t, Arena::Range>::iterator Arena::find_hole(std::uint64_t bytes) {
  if (holes_ < bytes) return ranges_.end();
  return std::ranges::find_if(ranges_, [&](const auto& at) { return at.second.piece == nullptr && at.second.bytes >= bytes; });
}

std::unique_ptr<Arena::Piece> Arena::take(std::size_t bytes) {
  const std::uint64_t taken = device::align_up(std::max<std::size_t>(bytes, 1), kAligned);
  const Lock lock(mutex_);
  const auto hole = find_hole(taken);
  const std::uint64_t offset = hole == ranges_.end() ? end_ : hole->first;
  if (offset + taken > kArenaLimit)
    throw Error(errc::out_of_memory, "the arena has no room for " + std::to_string(bytes) + " bytes: it ends at 128 GiB",
                {"arena", "", offset + taken, kArenaLimit});
  std::unique_ptr<Piece> piece(new Piece(*this, offset, bytes));
  if (hole == ranges_.end()) {
    if (offset + taken > region_->bytes()) region_->grow(offset + taken);
    ranges_.emplace(offset, Range{taken, piece.get()});
    end_ = offset + taken;
  } else {
    if (hole->second.bytes > taken) ranges_.emplace(offset + taken, Range{hole->second.bytes - taken, nullptr});
    hole->second = {taken, piece.get()};
    holes_ -= taken;
  }
  piece->known_ = true;
  piece->lie_in(*region_);
  return piece;
}

std::unique_ptr<Arena::Piece> Arena::take_cleared(std::size_t bytes) {
  std::unique_ptr<Piece> piece = take(bytes);
  at_rest([&](const backend::Allocation& memory) {
    backend_.write_to_device(memory.device() + piece->offset(), bytes, [&](std::byte* to) { std::memset(to, 0, bytes); });
  });
  return piece;
}

void Arena::give_back(std::uint64_t offset) noexcept {
  const Lock lock(mutex_);
  auto at = ranges_.find(offset);
  at->second.piece = nullptr;
  holes_ += at->second.bytes;
  // Merges adjacent holes, and drops a hole after the last piece.
  if (const auto next = std::next(at); next != ranges_.end() && next->second.piece == nullptr) {
    at->second.bytes += next->second.bytes;
    ranges_.erase(next);
  }
  if (at != ranges_.begin() && std::prev(at)->second.piece == nullptr) {
    std::prev(at)->second.bytes += at->second.bytes;
    at = std::prev(ranges_.erase(at));
  }
  if (std::next(at) != ranges_.end()) return;
  end_ = at->first;
  holes_ -= at->second.bytes;
  ranges_.erase(at);
}

std::unique_ptr<backend::Region> Arena::copy() {
  std::unique_ptr<backend::Region> region = backend_.reserve(end_, limit_of(backend_, end_));
  backend_.copy_on_device(region->device(), region_->device(), end_);
  region_.swap(region);
  for (const auto& [offset, range] : ranges_)
    if (range.piece != nullptr) range.piece->lie_in(*region_);
  return region;
}

}  // namespace dwell::runtime
