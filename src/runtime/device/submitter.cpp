#include "runtime/device/submitter.hpp"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "runtime/device/submission_queue.hpp"

namespace dwell::runtime {

constinit thread_local CurrentSubmitter CurrentSubmitter::mine{};

namespace submitters {

namespace {

struct OpenQueue {
  std::uint64_t number;
  SubmissionQueue* queue;
};

// The open queues. Leaked: threads end after the destruction of static objects.
struct Registry {
  std::mutex mutex;  // locked before the lock of a queue
  std::uint64_t queues = 0;
  std::vector<OpenQueue> open;

  static Registry& one() {
    static Registry& registry = *new Registry();
    return registry;
  }

  SubmissionQueue* find(std::uint64_t number) const {
    const auto at = std::ranges::find(open, number, &OpenQueue::number);
    return at == open.end() ? nullptr : at->queue;
  }

 private:
  // A forked child drops its parent's queues: threads that it lacks may hold their locks.
  Registry() {
    pthread_atfork([] { one().mutex.lock(); }, [] { one().mutex.unlock(); },
                   [] {
                     one().open.clear();
                     one().mutex.unlock();
                   });
  }
};

constinit thread_local bool thread_ends = false;

// The submitters of one thread, by queue.
class OfThread {
 public:
  OfThread() = default;
  OfThread(const OfThread&) = delete;
  OfThread& operator=(const OfThread&) = delete;
  ~OfThread() {
    thread_ends = true;
    CurrentSubmitter::mine = {};
    const std::lock_guard lock(Registry::one().mutex);
    for (const CurrentSubmitter& one : list_)
      if (SubmissionQueue* const queue = Registry::one().find(one.queue)) queue->remove(*one.submitter);
  }

  Submitter* find(std::uint64_t number) const {
    const auto at = std::ranges::find(list_, number, &CurrentSubmitter::queue);
    return at == list_.end() ? nullptr : at->submitter;
  }

  Submitter* add(SubmissionQueue& queue, std::uint64_t number) {
    const std::lock_guard lock(Registry::one().mutex);
    std::erase_if(list_, [](const CurrentSubmitter& one) { return Registry::one().find(one.queue) == nullptr; });
    list_.reserve(list_.size() + 1);
    Submitter* const submitter = queue.add();
    list_.push_back({number, submitter});
    return submitter;
  }

 private:
  std::vector<CurrentSubmitter> list_;
};

OfThread& of_thread() {
  static thread_local OfThread all;
  return all;
}

}  // namespace

std::uint64_t open(SubmissionQueue& queue) {
  Registry& registry = Registry::one();
  const std::lock_guard lock(registry.mutex);
  registry.open.push_back({registry.queues + 1, &queue});
  return ++registry.queues;
}

void close(std::uint64_t number) {
  Registry& registry = Registry::one();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.open, [number](const OpenQueue& queue) { return queue.number == number; });
}

Submitter* find(std::uint64_t number) { return thread_ends ? nullptr : of_thread().find(number); }

Submitter* mine(SubmissionQueue& queue, std::uint64_t number) {
  if (thread_ends) return nullptr;
  Submitter* submitter = of_thread().find(number);
  if (submitter == nullptr) submitter = of_thread().add(queue, number);
  CurrentSubmitter::mine = {number, submitter};
  return submitter;
}

}  // namespace submitters

}  // namespace dwell::runtime
