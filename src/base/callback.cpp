#include "base/callback.hpp"

#include <exception>
#include <thread>
#include <utility>

namespace dwell {

thread_local Callback* Callback::innermost = nullptr;

const char* Callback::inside(std::uint64_t runtime) noexcept {
  for (const Callback* at = innermost; at != nullptr; at = at->outer_)
    if (at->runtime_ == runtime) return at->what_;
  return nullptr;
}

void Callback::put_off(std::function<void()> act) {
  Callback* outermost = innermost;
  while (outermost->outer_ != nullptr) outermost = outermost->outer_;
  outermost->off_.push_back(std::move(act));
}

void Callback::act() noexcept {
  if (is_forked()) return;
  for (const auto& what : off_) {
    try {
      std::thread(what).detach();
    } catch (const std::exception&) {
      // Without a thread the process keeps what would have ended.
    }
  }
}

}  // namespace dwell
