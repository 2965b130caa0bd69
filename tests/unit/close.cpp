// A submission that is under way while its runtime is closed.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include <dwell/device/status.hpp>
#include <dwell/dwell.hpp>

#include "runtime/generations.hpp"
#include "tests/unit/breakable_backend.hpp"

namespace dwell::test {
namespace {

// Calls `meanwhile`, once set, before it allocates memory of the host.
class SlowBackend final : public BreakableBackend {
 public:
  explicit SlowBackend(const std::function<void()>& meanwhile)
      : BreakableBackend(std::make_shared<BreakableDevice>()), meanwhile_(meanwhile) {}
  std::unique_ptr<backend::Allocation> allocate_host(std::size_t bytes) override {
    if (meanwhile_) meanwhile_();
    return BreakableBackend::allocate_host(bytes);
  }

 private:
  const std::function<void()>& meanwhile_;
};

struct Long {
  u32 words[200];
};

// A callback submits a task whose arguments need memory: it finds the runtime open, and asks for a place when all tasks have been ended.
TEST(ClosingTest, ATaskHasNoPlaceBehindTheEnd) {
  std::function<void()> meanwhile;
  Options options;
  options.workers = 2;
  options.ring_slots = 128;
  Runtime runtime = detail::runtime_on(options, [&](const Options&) {
    return runtime::OpenedDevice{std::make_unique<SlowBackend>(meanwhile), std::make_unique<KernelCompiler>()};
  });
  auto takes =
      runtime.define<void(Long)>("takes", "struct Long { dwell::u32 words[200]; };\nDWELL_OPERATOR(takes)(dwell::Group, Long) {}\n");
  auto nothing = runtime.define<void()>("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}\n");
  const Ticket first = runtime.submit(nothing);
  first.wait();
  runtime.park();
  const Ticket parked = runtime.submit(nothing);
  std::atomic<bool> begun{false};
  meanwhile = [&] {
    begun = true;
    begun.notify_all();
    while (!parked.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  std::optional<Ticket> late;
  errc refusal = errc::ok;
  first.then([&](const Ticket&) {
    try {
      late = runtime.submit(takes, Long{});
    } catch (const Error& error) {
      refusal = error.kind();
    }
  });
  begun.wait(false);
  runtime.close(Close::now);
  EXPECT_EQ(parked.status(), status::cancelled);
  EXPECT_FALSE(late);
  EXPECT_EQ(refusal, errc::closed);
}

}  // namespace
}  // namespace dwell::test
