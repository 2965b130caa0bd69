// The handles of rings.
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <dwell/error.hpp>
#include <dwell/raw_ring.hpp>
#include <dwell/ring.hpp>

#include "runtime/core.hpp"
#include "runtime/device/backoff.hpp"
#include "runtime/memory/rings.hpp"

namespace dwell {

namespace detail {

namespace {

// Returns why a ring's device memory is gone.
Error gone(const RingState& state) {
  return state.control->shell->gone("ring of " + std::to_string(state.slots) + " slots", "make it again");
}

std::shared_ptr<runtime::Core> core_of(const RingState& state) {
  if (auto core = state.control->shell->core()) return core;
  throw gone(state);
}

// Throws why no task will push or pop any more, if so.
void check_open(const RingState& state) {
  const std::shared_ptr<runtime::Core> core = state.control->shell->core();
  if (core == nullptr) throw Error(errc::closed, "the runtime of a ring is closed, and no message is left");
  core->check_open();
}

}  // namespace

RingBase::RingBase(std::shared_ptr<RingState> state)
    : host_(state->host), state_(std::move(state)), use_(state_->control.get()), slots_(state_->slots) {
  words_ = SpanWords::of(state_->control->allocation->device(), 1);
}

const RingState& RingBase::require() const {
  if (state_ == nullptr) throw Error(errc::invalid_argument, "the ring is empty: make one with the runtime's `ring`");
  return *state_;
}

RingOptions RingBase::options() const { return require().options; }

void RingBase::refuse(bool push) const {
  static_cast<void>(require());
  throw Error(errc::unsupported, push ? "the producers of this ring are operators: make it with RingOptions::producers = Side::host"
                                      : "the consumers of this ring are operators: make it with RingOptions::consumers = Side::host");
}

void RingBase::refuse_size(std::size_t bytes) const {
  throw Error(errc::invalid_argument,
              "a message of " + std::to_string(bytes) + " bytes does not fit this ring, whose messages have " +
                  std::to_string(host_->most) + " at most (RingOptions::message_bytes)",
              {"message", "", bytes, host_->most});
}

void RingBase::refuse_closed() const { throw Error(errc::closed, "the ring is closed: it takes no more messages"); }

device::RingCore RingBase::producer() const {
  if (host_ == nullptr || !device::RingCore(host_).may_push()) [[unlikely]]
    refuse(true);
  if (state_->control->shell->stage() != Stage::open) [[unlikely]]
    check_open(*state_);
  return device::RingCore(host_);
}

void RingBase::wait(const std::function<bool()>& once) const {
  const RingState& state = require();
  runtime::Backoff backoff(true);
  while (!once())
    if (backoff.wait()) {
      try {
        check_open(state);
      } catch (const Error&) {
        if (once()) return;  // what came before the end
        throw;
      }
    }
}

bool RingBase::skip_lost() const {
  const std::shared_ptr<runtime::Core> core = state_->control->shell->core();
  if (core != nullptr && !core->keeper().failed()) return false;
  const device::RingCore ring(host_);
  const u64 at = ring.head();
  u64 next = at;
  while (next - at < slots_ && !ring.is_there(next)) ++next;
  if (next == at || next - at == slots_ || ring.claim(at, next) != at) return false;
  device::add<device::Order::relaxed>(&host_->abandoned, u64{1});
  ring.release(at, static_cast<u32>(next - at));
  return true;
}

void RingBase::close() {
  const RingState& state = require();
  if (state.options.producers == Side::host) return device::RingCore(host_).close();
  const std::shared_ptr<runtime::Core> core = core_of(state);
  runtime::Buffers& buffers = core->buffers();
  u64 tail = 0;
  buffers.read(*state.control, offsetof(device::RingControl, tail), &tail, sizeof(tail));
  if ((tail & device::kRingClosed) != 0) return;
  const u64 end = tail;
  tail |= device::kRingClosed;
  buffers.write(*state.control, offsetof(device::RingControl, tail), &tail, sizeof(tail));
  if (host_ != nullptr)
    device::store<device::Order::release, device::Scope::system>(&reinterpret_cast<device::RingShared*>(host_->shared)->end, end);
  else
    buffers.write(*state.control, sizeof(device::RingControl) + offsetof(device::RingShared, end), &end, sizeof(end));
}

RingCounts RingBase::counts() const {
  const RingState& state = require();
  u64 counts[4];
  static_assert(offsetof(device::RingControl, damaged_at) - offsetof(device::RingControl, discarded) == 3 * sizeof(u64));
  if (state.options.consumers == Side::host) {
    for (std::size_t i = 0; i < 4; ++i) counts[i] = device::load<device::Order::relaxed, device::Scope::device>(&host_->discarded + i);
  } else {
    core_of(state)->buffers().look(*state.control, offsetof(device::RingControl, discarded), counts, sizeof(counts));
  }
  return {counts[0], counts[1], counts[2], counts[3]};
}

}  // namespace detail

RawRingBuffer::RawRingBuffer(Runtime& runtime, std::size_t message_bytes, std::size_t slots, const RingOptions& options)
    : RingBase([&] {
        constexpr std::size_t kMost = 4096;
        if (message_bytes == 0 || message_bytes > kMost)
          throw Error(errc::invalid_argument,
                      "a message has 1 to 4096 bytes, not " + std::to_string(message_bytes) + ": use a ring of bytes",
                      {"ring", "", message_bytes, kMost});
        return detail::Shell::require(detail::Shell::of(runtime))->ring({slots, (message_bytes + 15) / 16 * 16, message_bytes}, options);
      }()),
      bytes_(message_bytes) {}

bool RawRingBuffer::try_push(std::span<const std::byte> message, std::uint8_t type) {
  const device::RingCore core = producer();
  if (message.size() != bytes_) refuse_size(message.size());
  u64 at = 0;
  if (core.reserve(1, 1, &at) == 0) return false;
  std::memcpy(core.slot(at), message.data(), bytes_);
  core.commit(at, device::RingHead{static_cast<u32>(bytes_), device::Segment::message, type});
  return true;
}

bool RawRingBuffer::try_pop(std::span<std::byte> message) {
  const device::RingCore core = consumer();
  if (message.size() != bytes_) refuse_size(message.size());
  for (device::RingClaim claim{}; core.claim(&claim);) {
    const bool good = core.is_message(claim);
    if (good) std::memcpy(message.data(), core.slot(claim.position), bytes_);
    core.release(claim.position, claim.slots);
    if (good) return true;
  }
  return false;
}

bool ByteRingBuffer::try_push(std::span<const std::byte> message, std::uint8_t type) {
  const device::RingCore core = producer();
  if (message.size() > core.control().most) refuse_size(message.size());
  return ByteRing(&core.control()).try_push({reinterpret_cast<const u8*>(message.data()), message.size()}, type);
}

void ByteRingBuffer::push(std::span<const std::byte> message, std::uint8_t type) {
  wait([&] {
    if (try_push(message, type)) return true;
    if (device::RingCore(host_).closed()) refuse_closed();
    return false;
  });
}

ByteSlot ByteRingBuffer::reserve(std::size_t bytes) {
  const device::RingCore core = producer();
  if (bytes > core.control().most) refuse_size(bytes);
  return ByteRing(&core.control()).reserve(bytes);
}

ByteMessage ByteRingBuffer::try_pop() { return ByteRing(&consumer().control()).try_pop(); }

ByteMessage ByteRingBuffer::pop() {
  std::optional<ByteMessage> message;
  wait([&] {
    message.emplace(try_pop());
    if (!*message && skip_lost()) message.emplace(try_pop());
    return static_cast<bool>(*message) || finished();
  });
  return std::move(*message);
}

}  // namespace dwell
