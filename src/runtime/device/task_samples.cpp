#include "runtime/device/task_samples.hpp"

#include <utility>

namespace dwell::runtime {

TaskSamples::TaskSamples(backend::Backend& backend, std::uint32_t ring_shift, std::function<std::uint64_t()> device_now)
    : ring_shift_(ring_shift), device_now_(std::move(device_now)), memory_(backend.allocate_host(sizeof(device::Quad) << ring_shift)) {}

template <class Word>
void TaskSamples::Sample::add(const Word& word) noexcept {
  ++sum.tasks;
  for (const Named& span : spans) {
    const detail::SpanWords words{static_cast<std::uint64_t>(word(span.word)) << 32U,
                                  word(span.word + 1) | static_cast<std::uint64_t>(word(span.word + 2)) << 32U};
    sum.bytes += words.size() * span.bytes;
  }
}

void TaskSamples::assign(std::uint32_t opcode, const Signature& signature) {
  Sample sample;
  std::uint32_t word = 0;
  for (const Parameter& parameter : signature.parameters()) {
    if (parameter.kind == Kind::span || parameter.kind == Kind::const_span) sample.spans.push_back({word, parameter.bytes});
    word += device::words_of(parameter);
  }
  sample.in_ring = word <= detail::kMaxWords;
  const Lock lock(mutex_);
  if (samples_.size() <= opcode) samples_.resize(opcode + 1);
  sample.sum = samples_[opcode].sum;
  samples_[opcode] = std::move(sample);
}

void TaskSamples::take(std::uint64_t position, std::uint32_t opcode, const detail::FirstSlot& first, const std::uint32_t* rest) noexcept {
  const auto low = static_cast<u32>(position);
  const std::uint64_t now = device_now_();
  device::store_quad<device::Scope::system>(
      static_cast<device::Quad*>(memory_->host()) + device::index_of(low, ring_shift_),
      device::Quad{device::lap_of(low, ring_shift_), {static_cast<u32>(now), static_cast<u32>(now >> 32U), 0}});
  const Lock lock(mutex_);
  if (opcode >= samples_.size() || !samples_[opcode].in_ring) return;
  samples_[opcode].add([&](std::uint32_t i) { return i < detail::kFirstSlotWords ? first.word(i) : rest[i - detail::kFirstSlotWords]; });
}

void TaskSamples::take_arguments(std::uint32_t opcode, const std::uint32_t* words) noexcept {
  const Lock lock(mutex_);
  if (opcode < samples_.size()) samples_[opcode].add([&](std::uint32_t i) { return words[i]; });
}

TaskSamples::Bytes TaskSamples::bytes_of(std::uint32_t opcode) const {
  const Lock lock(mutex_);
  return opcode < samples_.size() ? samples_[opcode].sum : Bytes{};
}

}  // namespace dwell::runtime
