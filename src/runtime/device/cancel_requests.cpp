#include "runtime/device/cancel_requests.hpp"

#include <algorithm>

namespace dwell::runtime {

using device::Order;
using device::Scope;

void CancelRequests::pass_on_kept() noexcept {
  const std::lock_guard guard(lock_);
  pass_on_locked();
}

void CancelRequests::pass_on_locked() noexcept {
  // Acquire: the device has read the entries that are overwritten. Pairs with device::cancels::look.
  const std::uint32_t in_list = asked_ - device::load<Order::acquire, Scope::system>(&report_.cancels_seen);
  const std::size_t count = std::min<std::size_t>(kept_.size(), device::kCancels - in_list);
  for (std::size_t i = 0; i < count; ++i)
    device::store<Order::relaxed, Scope::system>(&report_.cancelled[asked_++ % device::kCancels], kept_[i]);
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count));
  // Release: the positions, and the marks in the ring. Pairs with device::cancels::look.
  device::store<Order::release, Scope::system>(&report_.cancels, asked_);
  any_kept_.store(!kept_.empty(), std::memory_order_relaxed);
}

}  // namespace dwell::runtime
