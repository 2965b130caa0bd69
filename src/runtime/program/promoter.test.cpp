// Inlining of images, without a compiler or a device.
#include "runtime/program/promoter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/registry_test.hpp"

namespace dwell::runtime {
namespace {

using testing::HasSubstr;

class PromoterTest : public RegistryTest {
 protected:
  PromoterTest() {
    Registry::Settings settings;
    settings.tier = std::nullopt;
    settings.warn = [this](std::string_view line) { warnings_.emplace_back(line); };
    open(settings);
  }
  bool becomes(Tier tier, std::chrono::milliseconds limit = std::chrono::seconds(10)) const {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (registry_->table().tier() != tier && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return registry_->table().tier() == tier;
  }
  std::vector<std::string> warnings_;
};

TEST_F(PromoterTest, AStableImageInUseIsInlined) {
  const auto a = define("a", "a1");
  EXPECT_FALSE(becomes(Tier::lto, std::chrono::milliseconds(1300))) << "nobody uses it";
  finish(submit(*a));
  EXPECT_TRUE(becomes(Tier::lto));
  EXPECT_EQ(registry_->table().tasks(Tier::relocatable), 1U);
  EXPECT_EQ(registry_->table().images(), 2U);
  EXPECT_EQ(opcode_of(submit(*a)), 0U) << "opcodes mean the same in both";
  registry_->redefine(a, std::string("a2"));
  EXPECT_EQ(registry_->table().tier(), Tier::relocatable);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PromoterTest, APromotionEndsNoLeaseAtOnce) {
  const auto a = define("a", "a1");
  device_->begins = false;
  const std::uint64_t task = submit(*a);
  keeper_->submitted();
  ASSERT_EQ(device_->starts, 1);
  device_->begin_lease(1);
  EXPECT_TRUE(becomes(Tier::lto));
  EXPECT_EQ((device::load<device::Order::relaxed, device::Scope::system>(&bench_.report.end)), 0U);
  EXPECT_EQ(device_->programs, 2) << "the lease of the old image goes on: the next one runs the new image";
  finish(task);
}

TEST_F(PromoterTest, InliningKeepsRunningVersions) {
  const auto a = define("a", "a1");
  workshop_->includes = ", edited since";
  finish(submit(*a));
  ASSERT_TRUE(becomes(Tier::lto));
  EXPECT_THAT(image(), testing::ElementsAre("a1"));
}

TEST_F(PromoterTest, NothingIsInlinedOnALostDevice) {
  const auto a = define("a", "a1");
  finish(submit(*a));
  keeper_->give_up(Error(errc::task_timeout, "it hangs"));
  EXPECT_FALSE(becomes(Tier::lto, std::chrono::milliseconds(1500)));
  EXPECT_EQ(device_->programs, 1) << "whoever closes would wait for it";
  registry_->close();
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PromoterTest, AFailedInliningIsReportedAndChangesNothing) {
  const auto a = define("a", "a1");
  workshop_->refuses_link = true;
  finish(submit(*a));
  EXPECT_FALSE(becomes(Tier::lto, std::chrono::milliseconds(1500)));
  registry_->close();
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("they do not link"));
}

}  // namespace
}  // namespace dwell::runtime
