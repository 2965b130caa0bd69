// Tickets as {device, position}, and the devices that they name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <dwell/detail/prepared_then.hpp>
#include <dwell/device/status.hpp>
#include <dwell/dwell.hpp>

#include "runtime/generations.hpp"
#include "tests/unit/breakable_backend.hpp"
#include "tests/unit/expect_error.hpp"

namespace dwell::test {
namespace {

using testing::HasSubstr;

static_assert(std::is_trivially_copyable_v<Ticket> && sizeof(Ticket) == 16, "a ticket is returned in two registers");

constexpr std::uint64_t on(std::uint32_t device, std::uint64_t position) { return std::uint64_t{device} << detail::kDeviceAt | position; }

class TicketDevicesTest : public testing::Test {
 protected:
  TicketDevicesTest() {
    Options options;
    options.workers = 1;
    options.ring_slots = 128;
    runtime_.emplace(detail::runtime_on(options, opener(device_), 64));
  }
  Ticket ticket(std::uint64_t word) { return detail::Shell::ticket(detail::Shell::of(*runtime_), word); }

  std::shared_ptr<BreakableDevice> device_ = std::make_shared<BreakableDevice>();
  std::optional<Runtime> runtime_;
};

TEST_F(TicketDevicesTest, AWordHoldsADeviceAndAPosition) {
  for (const std::uint32_t device : {0U, 1U, 5U, detail::kMostDevices - 1})
    for (const std::uint64_t position : {std::uint64_t{0}, std::uint64_t{5}, (std::uint64_t{1} << 32U) + 1, detail::kPosition})
      for (const std::uint64_t mark : {std::uint64_t{0}, detail::kLaunch}) {
        const Ticket it = ticket(on(device, position) | mark);
        EXPECT_EQ(it.device(), device);
        EXPECT_EQ(it.position(), position);
        EXPECT_FALSE(it.captured());
      }
  const Ticket captured = ticket(detail::kCaptured | 7);
  EXPECT_TRUE(captured.captured());
  EXPECT_EQ(captured.device(), 0U);
  EXPECT_EQ(captured.position(), 7U);
  EXPECT_EQ(Ticket().device(), 0U);
}

TEST_F(TicketDevicesTest, MessagesNameTheDeviceBeyondTheFirst) {
  EXPECT_EQ(detail::name_of_ticket(on(0, 5)), "ticket 5");
  EXPECT_EQ(detail::name_of_ticket(on(3, 5)), "ticket 5 of device 3");
  EXPECT_EQ(detail::name_of_ticket(on(0, 5) | detail::kLaunch), "launch 5");
  EXPECT_EQ(detail::name_of_ticket(on(3, 5) | detail::kLaunch), "launch 5 of device 3");
}

TEST_F(TicketDevicesTest, ADeviceThatTheRuntimeLacksIsRefused) {
  auto nothing = runtime_->define<void()>("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}");
  const Ticket done = runtime_->submit(nothing);
  done.wait();
  // Positions that the first device has ended: its own results must not answer for another device.
  const std::uint64_t marks[] = {0, detail::kLaunch};
  for (const std::uint64_t mark : marks) {
    for (const std::uint32_t device : {1U, detail::kMostDevices - 1}) {
      const Ticket other = ticket(on(device, done.position()) | mark);
      const auto refused = [&](const std::function<void()>& call) {
        const Error error = error_of(call);
        EXPECT_EQ(error.kind(), errc::invalid_argument) << error.what();
        EXPECT_THAT(error.message(), HasSubstr("of device " + std::to_string(device) + ": the runtime has 1 device, from 0"));
        expect_fields(error, {"device", "", device, 1});
      };
      refused([&] { other.wait(); });
      refused([&] { static_cast<void>(other.wait_for(std::chrono::seconds(1))); });
      refused([&] { static_cast<void>(other.done()); });
      refused([&] { static_cast<void>(other.cancel()); });
      refused([&] { static_cast<void>(runtime_->cancel(other)); });
      refused([&] { other.then([](const Ticket&) { ADD_FAILURE(); }); });
      refused([&] { other.notify(); });
      refused([&] { detail::PreparedThen(*runtime_, [](const Ticket&) { ADD_FAILURE(); }).call_after(other); });
      refused([&] { runtime_->submit(nothing, after(done, other)); });
      refused([&] { static_cast<void>(runtime_->try_submit(nothing, after_any_result(other))); });
      refused([&] {
        Graph graph;
        graph.add(nothing);
        runtime_->launch(runtime_->instantiate(graph), after(other));
      });
    }
  }
  EXPECT_NO_THROW(runtime_->submit(nothing, after(done)).wait());
  EXPECT_NO_THROW(runtime_->wait_all());
}

}  // namespace
}  // namespace dwell::test
