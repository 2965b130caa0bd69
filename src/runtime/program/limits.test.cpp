#include "runtime/program/limits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/expect_error.hpp"

namespace dwell::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A loop of 62 registers, an older operator and a new one.
jit::Image image() {
  return {{},
          {.registers = 254, .stack_bytes = 712, .shared_bytes = 5440, .constant_bytes = 424, .barriers = 13},
          {{"old_1", {.registers = 24}},
           {"tile_1", {.registers = 254, .stack_bytes = 536, .shared_bytes = 4096, .constant_bytes = 400, .barriers = 13}}}};
}

std::optional<Error> refusal_of(const Limits& limits, std::optional<std::uint32_t> after = 792) {
  static const Newcomer kTile[] = {{"tile", "tile_1"}};
  const jit::Image linked = image();
  return refusal(limits, {linked, kTile, 792, after, 8192});
}

std::string refused(const Limits& limits, std::optional<std::uint32_t> after = 792) {
  const auto error = refusal_of(limits, after);
  if (!error) return "";
  EXPECT_EQ(error->kind(), errc::resource_limit);
  EXPECT_THAT(error->message(), HasSubstr("The image that runs stays"));
  return error->message();
}

TEST(Limits, NothingIsRefusedByDefault) {
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({}, 1), "");
  EXPECT_EQ(refused({}, std::nullopt), "") << "not known yet";
}

TEST(Limits, EveryFigureHasALimit) {
  EXPECT_EQ(refused({.registers = 254, .stack_bytes = 712, .shared_bytes = 5440, .constant_bytes = 424, .barriers = 13}), "");
  EXPECT_THAT(refused({.registers = 253}),
              AllOf(HasSubstr("operator 'tile' is refused"), HasSubstr("254 registers a thread ('tile' 254)"), HasSubstr("max_registers")));
  EXPECT_THAT(refused({.stack_bytes = 711}), HasSubstr("712 bytes of stack a thread ('tile' 536)"));
  EXPECT_THAT(refused({.shared_bytes = 5439}),
              AllOf(HasSubstr("5440 bytes of static shared memory a worker ('tile' 4096)"), HasSubstr("smaller tiles")));
  EXPECT_THAT(refused({.constant_bytes = 423}), HasSubstr("424 bytes of constants ('tile' 400)"));
  EXPECT_THAT(refused({.barriers = 12}), HasSubstr("13 barriers a worker ('tile' 13)"));
}

TEST(Limits, FieldsNameTheFirstExceededLimit) {
  const auto expect = [](const Limits& limits, const ErrorFields& fields, std::uint32_t workers = 792) {
    const auto error = refusal_of(limits, workers);
    ASSERT_TRUE(error);
    expect_fields(*error, fields);
  };
  expect({.registers = 253}, {"option", "Options::limits.registers", 254, 253});
  expect({.stack_bytes = 711}, {"option", "Options::limits.stack_bytes", 712, 711});
  expect({.shared_bytes = 5439}, {"option", "Options::limits.shared_bytes", 5440, 5439});
  expect({.constant_bytes = 423, .barriers = 12}, {"option", "Options::limits.constant_bytes", 424, 423});
  expect({.barriers = 12}, {"option", "Options::limits.barriers", 13, 12});
  expect({.min_workers = 264}, {"option", "Options::limits.min_workers", 132, 264}, 132);
}

TEST(Limits, TheLoopsOwnResourcesAreNotChargedToTheOperator) {
  static const Newcomer kSmall[] = {{"old", "old_1"}};
  const jit::Image linked = image();
  const auto error = refusal({.registers = 40}, {linked, kSmall, 0, {}, 0});
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(),
              AllOf(HasSubstr("254 registers a thread ('old' 24), the option limits.registers is 40, which the loop itself exceeds"),
                    HasSubstr("raise the limit"), Not(HasSubstr("max_registers"))));
}

TEST(Limits, AnInlinedImageMayExceedALimit) {
  const jit::Image inlined{{}, {.registers = 168}, {}};
  const auto error = refusal({.registers = 128}, {inlined, {}, 792, 792, 8192});
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(),
              AllOf(HasSubstr("the image with its operators inlined is refused: the image would take 168 registers a thread, "
                              "the option limits.registers is 128"),
                    Not(HasSubstr("the loop itself"))));
}

TEST(Limits, EveryExceededLimitIsNamed) {
  EXPECT_THAT(refused({.registers = 64, .barriers = 4}),
              AllOf(HasSubstr("registers is 64"), HasSubstr("barriers is 4"), Not(HasSubstr("shared memory"))));
}

TEST(Limits, TooFewWorkersNamesTheLimitingFigures) {
  EXPECT_EQ(refused({.min_workers = 264}, 264), "");
  EXPECT_THAT(refused({.min_workers = 264}, 132),
              AllOf(HasSubstr("would hold 132 workers, it holds 792 now; the least is 264 (the option limits.min_workers)"),
                    HasSubstr("254 registers a thread ('tile' 254)"), HasSubstr("5440 bytes of static shared memory"),
                    HasSubstr("13 barriers"), HasSubstr("8192 bytes for Group::shared (the option scratch_bytes)"),
                    HasSubstr("max_registers"), HasSubstr("smaller tiles"), Not(HasSubstr("stack"))));
}

TEST(Limits, AtLeastOneWorkerIsAlwaysLeft) {
  for (const unsigned least : {0U, 1U})
    EXPECT_THAT(refused({.min_workers = least}, 0), AllOf(HasSubstr("would hold no worker"), HasSubstr("the least is 1")));
}

TEST(Limits, SeveralNewcomersAreNamed) {
  static const Newcomer kBoth[] = {{"old", "old_1"}, {"tile", "tile_1"}};
  const jit::Image linked = image();
  const auto error = refusal({.registers = 100}, {linked, kBoth, 0, {}, 0});
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), AllOf(HasSubstr("operators 'old', 'tile' are refused"), HasSubstr("('old' 24, 'tile' 254)")));
}

TEST(Limits, UnknownFiguresExceedNoLimit) {
  static const Newcomer kOne[] = {{"a", "a_1"}};
  const jit::Image on_cpu;
  EXPECT_FALSE(refusal({.registers = 1, .stack_bytes = 1, .shared_bytes = 1, .constant_bytes = 1, .barriers = 1}, {on_cpu, kOne, 4, 4, 0}));
  const auto error = refusal({.min_workers = 5}, {on_cpu, kOne, 4, 4, 8192});
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), AllOf(HasSubstr("would hold 4 workers"), Not(HasSubstr("The image takes"))));
}

TEST(Limits, RoomIsComputedWhereTheDeviceIsKnown) {
  jit::Image linked = image();
  linked.resources.threads = 160;
  backend::DeviceInfo device;
  device.target = "sm_90a";
  device.multiprocessors = 132;
  EXPECT_EQ(room_for(linked, device, 8192), 132U) << "254 registers leave room for one";
  linked.resources.registers = 64;
  EXPECT_EQ(room_for(linked, device, 8192), 4 * 132U) << "13 barriers for four";
  EXPECT_EQ(room_for(linked, device, 1U << 20U), 0U);
  device.target = "sm_61";
  EXPECT_FALSE(room_for(linked, device, 8192));
  EXPECT_FALSE(room_for({}, {}, 8192)) << "the CPU";
}

}  // namespace
}  // namespace dwell::runtime
