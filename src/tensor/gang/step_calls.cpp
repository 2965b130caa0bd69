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
  const std::uint64_t number = static_cast<std::uint64_t>(done_ + 1) << kNumberShift;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint32_t)) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    store(memory_.inputs[first + at / sizeof value], number | value);
  }
}

void StepCalls::begin() {
  call_ = done_ + 1;
  seen_ = 0;
  store(*memory_.control, (load(*memory_.control) >> kNumberShift << kNumberShift) | call_);
  if (have_left()) launch();
}

bool StepCalls::done() {
  if (done_ == call_) return true;
  while (seen_ < outputs_ && load(memory_.outputs[seen_]) >> kNumberShift == call_) ++seen_;
  if (seen_ < outputs_) {
    // The last kernel may have left just before the call.
    if (have_left()) launch();
    return false;
  }
  done_ = call_;
  look_ahead();
  return true;
}

void StepCalls::get(std::uint32_t first, std::span<std::byte> bytes) const {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint32_t)) {
    const auto value = static_cast<std::uint32_t>(load(memory_.outputs[first + at / sizeof(std::uint32_t)]));
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
}

void StepCalls::leave() const { store(*memory_.control, static_cast<std::uint64_t>(launched_) << kNumberShift | call_); }

std::uint32_t StepCalls::left() const {
  // Relaxed: whatever a kernel has done is seen by those behind it.
  return std::atomic_ref(const_cast<std::uint32_t&>(*memory_.left)).load(std::memory_order_relaxed);
}

void StepCalls::launch() {
  launch_(launched_ + 1);
  ++launched_;
}

// A kernel is launched ahead once another one is half through its lease: without calls, both leave.
void StepCalls::look_ahead() {
  if (launched_ - left() != 1) return;
  const Clock::time_point now = Clock::now();
  if (last_ != launched_) {
    last_ = launched_;
    since_ = now;
  } else if (now - since_ > lease_ / 2) {
    try {
      launch();
    } catch (...) {
      since_ = now;  // the call is done: the next one that finds no kernel reports it
    }
  }
}

}  // namespace dwell::tensor::gang
