// Memory beside the ring for arguments of tasks that do not fit into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include <dwell/detail/task.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/device/submission_queue.hpp"

namespace dwell::runtime {

// Blocks of host memory that the device can access, like the ring. A block is in use from `take` until the task that holds its address is
// complete, and is then reused. Blocks have eight sizes, at most kMostBytes of each, and are freed at the end of the runtime. Members may
// be called from any thread.
class Blocks {
  struct Block {
    std::byte* host;
    std::uint64_t device;
    std::uint32_t words;     // in use
    std::uint64_t position;  // of the task
  };
  using List = std::list<Block>;

 public:
  static constexpr std::size_t kMostBytes = 8U << 20U;

  Blocks(backend::Backend& backend, SubmissionQueue& queue, Keeper& keeper) : backend_(backend), queue_(queue), keeper_(keeper) {}
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  // A block that holds the arguments of a task; returned by the destructor unless a task was submitted with it.
  class Loan {
   public:
    Loan() = default;
    Loan(Loan&& from) noexcept;
    Loan& operator=(Loan&&) = delete;
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan();

    explicit operator bool() const { return blocks_ != nullptr; }
    // Returns the task whose argument is the block. It points into the loan.
    detail::Task task() const { return detail::task_of(word_, 2, flags_, groups_, waits_); }
    // Sets the position of that task.
    void submitted(std::uint64_t position);

   private:
    friend class Blocks;
    Blocks* blocks_ = nullptr;
    List block_;  // one
    std::uint32_t word_[2] = {};
    std::uint32_t flags_ = 0;
    std::uint32_t groups_ = 1;
    const detail::Waits* waits_ = nullptr;  // of the task given to `take`
  };
  // Puts the arguments of `task` into a block. Empty when all blocks of the size are in use. Throws errc::out_of_memory.
  Loan take(const detail::Task& task);

  // Returns the tasks in flight with an argument in a block that is an address in [begin, end). May contain others.
  std::vector<std::uint64_t> naming(std::uint64_t begin, std::uint64_t end);

 private:
  static constexpr std::size_t kSmallest = 512;
  static constexpr std::size_t kClasses = 8;  // 512 bytes to 64 KiB
  static constexpr std::size_t kChunk = 256U << 10U;
  static std::size_t class_of(std::uint32_t words);
  static constexpr std::size_t bytes_of(std::size_t size_class) { return kSmallest << size_class; }

  // Reclaims the blocks of complete tasks.
  void collect() DWELL_REQUIRES(mutex_);
  // Allocates more blocks of a class; false at the limit kMostBytes.
  bool grow(std::size_t size_class) DWELL_REQUIRES(mutex_);

  backend::Backend& backend_;
  SubmissionQueue& queue_;
  Keeper& keeper_;
  Mutex mutex_;
  std::vector<std::unique_ptr<backend::Allocation>> chunks_[kClasses] DWELL_GUARDED_BY(mutex_);
  List free_[kClasses] DWELL_GUARDED_BY(mutex_);
  List in_flight_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
