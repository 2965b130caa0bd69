// An image that leaves no room for a worker is refused before anything is handed over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/device/keeper.hpp"
#include "runtime/device/submission_queue.hpp"
#include "runtime/program/registry.hpp"

namespace dwell::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A backend on which an image of n bytes leaves room for 4 - n workers; it counts loaded programs, and runs nothing.
class NarrowBackend final : public backend::Backend {
 public:
  class LoadedImage final : public backend::LoadedImage {
   public:
    LoadedImage(std::uint32_t room, std::atomic<int>* alive) : room_(room), alive_(alive) { ++*alive_; }
    ~LoadedImage() override { --*alive_; }
    LoadedImage(const LoadedImage&) = delete;
    LoadedImage& operator=(const LoadedImage&) = delete;
    std::uint32_t max_workers(std::uint32_t) const override { return room_; }

   private:
    std::uint32_t room_;
    std::atomic<int>* alive_;
  };

  backend::DeviceInfo info() const override { return {}; }
  std::unique_ptr<backend::Allocation> allocate(std::size_t) override { return nullptr; }
  std::unique_ptr<backend::Region> reserve(std::size_t, std::size_t) override { return nullptr; }
  std::unique_ptr<backend::Allocation> allocate_host(std::size_t) override { return nullptr; }
  void copy_to_device(std::uint64_t, const void*, std::size_t) override {}
  void copy_on_device(std::uint64_t, std::uint64_t, std::size_t) override {}
  void clear(std::uint64_t, std::size_t) override {}
  void copy_to_host(void*, std::uint64_t, std::size_t) override {}
  std::unique_ptr<backend::LoadedImage> load(std::span<const std::byte> image) override {
    ++loaded;
    return std::make_unique<LoadedImage>(4 - static_cast<std::uint32_t>(image.size()), &alive);
  }
  void start(backend::LoadedImage&, const device::Lease&) override { ADD_FAILURE() << "there is nothing to run"; }
  void finish() override {}
  std::string fault() override { return {}; }
  void abandon() override {}

  // Waits until `images` images are alive: the keeper destroys older ones on its own thread.
  bool comes_to(int images) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (alive != images && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return alive == images;
  }

  std::atomic<int> alive{0};
  int loaded = 0;
};

// Makes images of one byte for each operator, which claim ten registers for each.
class CountingCompiler final : public jit::Compiler {
 public:
  jit::Object compile(const jit::Unit& unit) override { return {{{unit.exports[0].symbol, {}}}, {}, {}}; }
  std::string fingerprint(const jit::Unit& unit) override { return unit.name; }
  jit::Image link(std::span<const jit::Opcode> entries, Tier, std::uint32_t) override {
    jit::Image image;
    for (const jit::Opcode& opcode : entries) image.bytes.resize(image.bytes.size() + (opcode.object != nullptr ? 1 : 0));
    image.resources.registers = 10 * static_cast<std::uint32_t>(image.bytes.size());
    image.resources.shared_bytes = 4321;
    return image;
  }
  std::string identity() const override { return "counts"; }
};

class NoRoomTest : public testing::Test {
 protected:
  static Keeper::Settings settings(device::LeaseReport* report, device::InFlight* in_flight) {
    Keeper::Settings settings{};
    settings.report = report;
    settings.in_flight = in_flight;
    settings.workers = 3;
    settings.lease.scratch_bytes = 1234;
    return settings;
  }

  std::vector<device::Slot> ring_{128};
  std::vector<device::Completion> completions_{128};
  device::LeaseReport report_{};
  std::vector<device::InFlight> in_flight_{3};
  NarrowBackend backend_;
  SubmissionQueue queue_{ring_.data(), completions_.data(), report_, 7, 0, [](std::uint32_t) { return std::string(); }};
  Keeper keeper_{backend_, queue_, settings(&report_, in_flight_.data()), [](const auto& why, const auto&, bool) { return why; }};
  Registry registry_{std::make_unique<CountingCompiler>(), backend_, keeper_, queue_, nullptr, Registry::Settings{}};
};

TEST_F(NoRoomTest, ImageIsRefusedAndTheOldOneStays) {
  registry_.define("one", "");
  EXPECT_EQ(keeper_.workers(), 3U);
  const auto two = registry_.define("two", "");
  const auto three = registry_.define("three", "");
  EXPECT_EQ(keeper_.workers(), 1U);
  EXPECT_EQ(keeper_.crew(), 1U);
  for (int again = 0; again < 2; ++again) {
    try {
      if (again == 0) {
        registry_.define("four", "");
      } else {
        registry_.redefine(three, "new");
      }
      ADD_FAILURE() << "nothing thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::resource_limit);
      EXPECT_THAT(error.message(),
                  AllOf(HasSubstr("would hold no worker, it holds 1 now"), HasSubstr("40 registers"), HasSubstr("4321 bytes"),
                        HasSubstr("1234 bytes for Group::shared"), HasSubstr("the option scratch_bytes")));
    }
    EXPECT_FALSE(keeper_.failed());
    EXPECT_TRUE(backend_.comes_to(1)) << "the refused program is not unloaded, or the old one is";
    EXPECT_EQ(keeper_.workers(), 1U);
    EXPECT_EQ(registry_.table().images(), 3U);
    EXPECT_EQ(registry_.table().resources().registers, 30U);
    EXPECT_EQ(three->current.load(), 1U);
    EXPECT_EQ(three->versions.load(), 1U);
  }
  EXPECT_THROW(keeper_.resume(), Error) << "the park of the hand-over is still on";
}

TEST_F(NoRoomTest, ARefusedOperatorLeavesNothingBehind) {
  for (const char* const name : {"one", "two", "three"}) registry_.define(name, "");
  for (int again = 0; again < 2; ++again) {
    try {
      registry_.define("four", "");
      ADD_FAILURE() << "nothing thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::resource_limit) << error.message();  // neither a taken name, nor more registers
      EXPECT_THAT(error.message(), HasSubstr("40 registers"));
    }
  }
}

TEST_F(NoRoomTest, TooFewWorkersAreRefusedBeforeTheHandOver) {
  Registry limited(std::make_unique<CountingCompiler>(), backend_, keeper_, queue_, nullptr, {.limits = {.min_workers = 2}});
  limited.define("one", "");
  limited.define("two", "");
  EXPECT_EQ(keeper_.workers(), 2U);
  try {
    limited.define("three", "");
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::resource_limit);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("operator 'three'"), HasSubstr("would hold 1 worker, it holds 2 now; the least is 2")));
  }
  EXPECT_EQ(keeper_.workers(), 2U);
  EXPECT_EQ(limited.table().images(), 2U);
  EXPECT_TRUE(backend_.comes_to(1));
}

TEST_F(NoRoomTest, AFigureBeyondItsLimitIsRefusedBeforeTheImageIsLoaded) {
  Registry limited(std::make_unique<CountingCompiler>(), backend_, keeper_, queue_, nullptr, {.limits = {.registers = 15}});
  limited.define("one", "");
  const int loaded = backend_.loaded;
  try {
    limited.define("two", "");
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::resource_limit);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("'two'"), HasSubstr("20 registers"), HasSubstr("the option limits.registers is 15")));
  }
  EXPECT_EQ(backend_.loaded, loaded);
  EXPECT_EQ(limited.table().images(), 1U);
}

}  // namespace
}  // namespace dwell::runtime
