#include "tensor/gang/step_calls.hpp"

#include <atomic>
#include <cstring>
#include <utility>

namespace dwell::tensor::gang {

namespace {

constexpr unsigned kNumberShift = 32;

// Relaxed: a word says by itself which call it is of. Pairs with the loads of await_host.
void store(std::uint64_t& word, std::uint64_t value) { std::atomic_ref(word).store(value, std::memory_order_relaxed); }
std::uint64_t load(const std::uint64_t& word) { return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_relaxed); }

}  // namespace

StepCalls::StepCalls(const Memory& memory, std::uint32_t outputs, std::chrono::nanoseconds lease, Launch launch)
    : memory_(memory), outputs_(outputs), lease_(lease), launch_(std::move(launch)) {}

void StepCalls::put(std::uint32_t first, std::span<const std::byte> bytes) const {
  const std::uint64_t number = static_cast<std::uint64_t>(done_.load(std::memory_order_relaxed) + 1) << kNumberShift;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint32_t)) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    store(memory_.inputs[first + at / sizeof value], number | value);
  }
}

void StepCalls::begin() {
  call_ = done_.load(std::memory_order_relaxed) + 1;  // relaxed: stored by this thread
  seen_ = 0;
  store(*memory_.control, (load(*memory_.control) >> kNumberShift << kNumberShift) | call_);
  if (have_left()) launch_if_gone();
}

bool StepCalls::done() {
  if (done_.load(std::memory_order_relaxed) == call_) return true;  // relaxed: stored by this thread
  while (seen_ < outputs_ && load(memory_.outputs[seen_]) >> kNumberShift == call_) ++seen_;
  if (seen_ < outputs_) {
    // The last kernel may have left just before the call.
    if (have_left()) launch_if_gone();
    return false;
  }
  left_seen_.store(left(), std::memory_order_relaxed);  // relaxed: the next store publishes it
  // Release: pairs with the load of look_ahead, which finds a left_seen_ as new as the call.
  done_.store(call_, std::memory_order_release);
  return true;
}

void StepCalls::get(std::uint32_t first, std::span<std::byte> bytes) const {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint32_t)) {
    const auto value = static_cast<std::uint32_t>(load(memory_.outputs[first + at / sizeof(std::uint32_t)]));
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
}

void StepCalls::leave() {
  const Lock lock(mutex_);
  // All will have left before the results of the next call, or at its launch: the caller launches the next kernel.
  may_launch_ahead_ = false;
  store(*memory_.control, static_cast<std::uint64_t>(launched()) << kNumberShift | call_);
}

std::uint32_t StepCalls::left() const {
  // Relaxed: whatever a kernel has done is seen by those behind it. Pairs with the store of ResidentMember::await_call.
  return std::atomic_ref(const_cast<std::uint32_t&>(*memory_.left)).load(std::memory_order_relaxed);
}

// Called by the caller.
void StepCalls::launch_if_gone() {
  const Lock lock(mutex_);
  const std::uint32_t left = this->left();
  left_seen_.store(left, std::memory_order_relaxed);  // relaxed: the mutex orders it, or the next call's done_
  if (left != launched()) return;                     // look_ahead has launched one
  since_ = Clock::now();
  launch();
  called_ = since_;
  may_launch_ahead_ = true;
}

void StepCalls::launch() {
  const std::uint32_t number = launched() + 1;
  launch_(number);
  launched_.store(number, std::memory_order_relaxed);  // relaxed: stored under the mutex; pairs with launched()
}

// Times are of looks and launches: the caller takes none. `since_` is late by the time between two looks at most, and early by that and the
// time between two calls. A kernel that is launched too early waits behind the last one; if it is too late a call launches it.
bool StepCalls::look_ahead(Clock::time_point now) {
  const Lock lock(mutex_);
  if (!may_launch_ahead_) return false;
  const std::uint32_t done = done_.load(std::memory_order_acquire);  // pairs with the store of StepCalls::done
  // Relaxed: as new as `done`. If it is older than a kernel's leave, the kernel that is launched here is the one that the next call needs.
  const std::uint32_t there = launched() - left_seen_.load(std::memory_order_relaxed);
  if (done != looked_done_) {
    looked_done_ = done;
    called_ = now;
    if (there == 2) since_ = now;  // a call since the last look has seen the kernel in front of the last one
  }
  if (there == 1 && now - since_ >= lease_ / 2 && now - called_ <= lease_ / 4) {
    since_ = now;
    try {
      launch();
    } catch (...) {
      return true;  // a call that finds no kernel reports it; tried again half a lease later
    }
  }
  // Two leases behind the last call all kernels have left.
  return now - called_ <= 2 * lease_;
}

}  // namespace dwell::tensor::gang
