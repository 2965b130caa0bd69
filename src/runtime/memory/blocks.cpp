#include "runtime/memory/blocks.hpp"

#include <bit>
#include <cstring>
#include <utility>

namespace dwell::runtime {

std::size_t Blocks::class_of(std::uint32_t words) {
  const std::size_t bytes = std::bit_ceil(std::size_t{words} * 4);
  return bytes <= kSmallest ? 0 : static_cast<std::size_t>(std::countr_zero(bytes / kSmallest));
}

Blocks::Loan Blocks::take(const detail::Task& task) {
  const std::size_t size_class = class_of(task.words);
  Loan loan;
  {
    const Lock lock(mutex_);
    if (free_[size_class].empty()) collect();
    if (free_[size_class].empty() && !grow(size_class)) return loan;
    loan.block_.splice(loan.block_.end(), free_[size_class], free_[size_class].begin());
    loan.blocks_ = this;
  }
  Block& block = loan.block_.front();
  block.words = task.words;
  std::uint32_t first[detail::kFirstSlotWords];
  for (std::uint32_t i = 0; i < detail::kFirstSlotWords; ++i) first[i] = task.word(i);
  std::memcpy(block.host, first, sizeof(first));
  std::memcpy(block.host + sizeof(first), task.rest, std::size_t{task.words - detail::kFirstSlotWords} * 4);
  loan.word_[0] = static_cast<std::uint32_t>(block.device);
  loan.word_[1] = static_cast<std::uint32_t>(block.device >> 32U);
  // The worker acquires before it reads the block: its cache may hold an older task's arguments.
  loan.flags_ = task.flags | detail::kMemory;
  loan.groups_ = task.groups;
  loan.waits_ = task.waits;
  return loan;
}

void Blocks::collect() {
  for (auto at = in_flight_.begin(); at != in_flight_.end();) {
    const auto block = at++;
    if (!queue_.done(block->position)) continue;
    List& free = free_[class_of(block->words)];
    free.splice(free.begin(), in_flight_, block);
  }
}

bool Blocks::grow(std::size_t size_class) {
  auto& chunks = chunks_[size_class];
  if (chunks.size() * kChunk >= kMostBytes) return false;
  chunks.reserve(kMostBytes / kChunk);
  List made;
  for (std::size_t i = 0; i < kChunk / bytes_of(size_class); ++i) made.push_back({});
  std::unique_ptr<backend::Allocation> chunk = backend_.allocate_host(kChunk);
  keeper_.memory_made();
  std::size_t offset = 0;
  for (Block& block : made) {
    block.host = static_cast<std::byte*>(chunk->host()) + offset;
    block.device = chunk->device() + offset;
    offset += bytes_of(size_class);
  }
  chunks.push_back(std::move(chunk));
  free_[size_class].splice(free_[size_class].end(), made);
  return true;
}

std::vector<std::uint64_t> Blocks::naming(std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> positions;
  const Lock lock(mutex_);
  for (const Block& block : in_flight_) {
    if (queue_.done(block.position)) continue;
    const auto word_at = [&](std::uint32_t i) {
      std::uint32_t word = 0;
      std::memcpy(&word, block.host + std::size_t{i} * 4, sizeof(word));
      return word;
    };
    // Only the signature shows where the spans are: any two words that form an address in the range count.
    for (std::uint32_t i = 0; i + 1 < block.words; ++i) {
      const std::uint64_t address = word_at(i) | static_cast<std::uint64_t>(word_at(i + 1) & 0xFFFFFU) << 32U;
      if (address < begin || address >= end) continue;
      positions.push_back(block.position);
      break;
    }
  }
  return positions;
}

Blocks::Loan::Loan(Loan&& from) noexcept
    : blocks_(std::exchange(from.blocks_, nullptr)),
      word_{from.word_[0], from.word_[1]},
      flags_(from.flags_),
      groups_(from.groups_),
      waits_(from.waits_) {
  block_.splice(block_.end(), from.block_);
}

Blocks::Loan::~Loan() {
  if (blocks_ == nullptr) return;
  const Lock lock(blocks_->mutex_);
  List& free = blocks_->free_[class_of(block_.front().words)];
  free.splice(free.begin(), block_);
}

void Blocks::Loan::submitted(std::uint64_t position) {
  block_.front().position = position;
  const Lock lock(blocks_->mutex_);
  blocks_->in_flight_.splice(blocks_->in_flight_.end(), block_);
  blocks_ = nullptr;
}

}  // namespace dwell::runtime
