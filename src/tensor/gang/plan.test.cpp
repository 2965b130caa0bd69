#include "tensor/gang/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tensor/device/member.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/noted_operations.hpp"

namespace dwell::tensor::gang {
namespace {

using testing::HasSubstr;

bool all(const TensorView::Extent&) { return true; }

// Steps of a list whose form's text has these words.
std::size_t steps_with(const Plan& plan, const std::string& words, std::size_t list = 0) {
  return static_cast<std::size_t>(std::ranges::count_if(steps_of(plan, list), [&](std::size_t at) {
    return plan.forms.at((plan.list[at] & 0xFFFFU) - 1).body.find(words) != std::string::npos;
  }));
}

TEST(GangPlanTest, LargeProductsAreSharedOutAndSmallOnesAreNot) {
  const NotedNetwork network;
  const Plan plan = plan_of(network.noted, all, on_a_gpu());
  EXPECT_EQ(plan.members, 32U);
  EXPECT_EQ(steps_with(plan, "multiply_kept<"), 2U);
  EXPECT_EQ(steps_with(plan, "gather<"), 2U);
  EXPECT_EQ(steps_with(plan, "multiply<"), 1U) << "8 columns are not worth an exchange";
  EXPECT_EQ(steps_with(plan, "begin_weights<"), 2U);
  EXPECT_EQ(plan.exchanged, 256U);
}

TEST(GangPlanTest, ASingleMemberExchangesNothing) {
  const NotedNetwork network;
  for (const Limits& limits : {on_a_gpu(1), Limits{.local_bytes = std::uint64_t{1} << 20U}}) {
    const Plan plan = plan_of(network.noted, all, limits);
    EXPECT_EQ(plan.members, 1U);
    EXPECT_EQ(steps_with(plan, "gather<"), 0U);
    EXPECT_EQ(plan.exchanged, 0U);
  }
}

TEST(GangPlanTest, ARepeatedProgramCopiesBeforeAndBehindItsRuns) {
  const NotedNetwork network;
  Limits limits = on_a_gpu();
  limits.repeats = 20;
  const Plan plan = plan_of(network.noted, all, limits);
  ASSERT_EQ(plan.begins.size(), 3U);
  EXPECT_EQ(steps_with(plan, "begin_weights<", 0), 2U);
  EXPECT_EQ(steps_with(plan, "begin_weights<", 1) + steps_with(plan, "begin_copy<", 1) + steps_with(plan, "copy_out<", 1), 0U);
  EXPECT_EQ(steps_with(plan, "multiply_kept<", 1), 2U);
  EXPECT_GE(steps_with(plan, "copy_out<", 2), 1U);
  const std::vector<std::size_t> run = steps_of(plan, 1);
  EXPECT_NE(plan.list[run.back()] & device::kStepSync, 0U) << "the next run may write what others still read";
}

// Tensors that members share: the next run reads what others have written in this one.
TEST(GangPlanTest, MembersMeetBehindARunThatWritesWhatTheyShare) {
  Noted noted;
  const TensorView x = made_up({256, 256});
  note_program(noted, TensorOp::mul, x, std::vector<Operand>{x, x});
  Limits limits = on_a_gpu(8);
  limits.repeats = 20;
  const Plan plan = plan_of(noted, all, limits);
  const std::vector<std::size_t> run = steps_of(plan, 1);
  ASSERT_EQ(run.size(), 2U);
  EXPECT_THAT(plan.forms.at((plan.list[run.back()] & 0xFFFFU) - 1).body, HasSubstr("m.barrier<"));
}

TEST(GangPlanTest, AMemberOnACpuCopiesNothingAndItsLoopsAreVectorized) {
  Noted noted;
  const TensorView x = made_up({64});
  const TensorView between = made_up({64});
  const TensorView y = made_up({64});
  note_program(noted, TensorOp::add, between, std::vector<Operand>{x, x});
  note_program(noted, TensorOp::tanh, y, std::vector<Operand>{between});
  const Plan plan = plan_of(
      noted, [&](const TensorView::Extent& memory) { return memory.first == y.address(); }, Limits{.local_bytes = std::uint64_t{1} << 20U});
  EXPECT_EQ(steps_with(plan, "begin_copy<") + steps_with(plan, "copy_out<"), 0U);
  EXPECT_EQ(steps_with(plan, "DWELL_INDEPENDENT_STEPS"), 2U);
  EXPECT_EQ(plan.local_bytes, 256U);
}

TEST(GangPlanTest, OneExchangeServesIndependentProducts) {
  Noted noted;
  const TensorView x = made_up({1, 64});
  const TensorView a = made_up({1, 512});
  const TensorView b = made_up({1, 512});
  note_linear(noted, a, x, made_up({512, 64}), made_up({512}));
  note_linear(noted, b, x, made_up({512, 64}), made_up({512}));
  const TensorView bias = made_up({64});
  note_linear(noted, made_up({1, 64}), a, made_up({64, 512}), bias);
  note_linear(noted, made_up({1, 64}), b, made_up({64, 512}), bias);
  const Plan plan = plan_of(noted, all, on_a_gpu());
  EXPECT_EQ(steps_with(plan, "gather<"), 1U);
  EXPECT_EQ(plan.exchanged, 1024U);
}

// A cell of an LSTM: members own units, with their gates, and hand on nothing but the units' outputs.
TEST(GangPlanTest, MembersGoOnWithTheElementsThatTheyOwn) {
  constexpr std::int64_t kHidden = 128;
  Noted noted;
  const TensorView x = made_up({1, 64});
  const TensorView h = made_up({1, kHidden});
  const TensorView c = made_up({1, kHidden});
  const TensorView a = made_up({1, 4 * kHidden});
  const TensorView b = made_up({1, 4 * kHidden});
  const TensorView w = made_up({4 * kHidden, 64});
  const TensorView u = made_up({4 * kHidden, kHidden});
  const TensorView bias = made_up({4 * kHidden});
  for (int step = 0; step < 3; ++step) {
    note_linear(noted, a, x, w, bias);
    note_linear(noted, b, h, u, bias);
    note_program(noted, TensorOp::add, a, std::vector<Operand>{a, b});
    note_program(noted, TensorOp::mul, c, std::vector<Operand>{a.slice(1, 0, kHidden), a.slice(1, kHidden, kHidden)});
    note_program(noted, TensorOp::tanh, h, std::vector<Operand>{c});
  }
  const auto needed = [&](const TensorView::Extent& memory) { return memory.first == h.address() || memory.first == c.address(); };
  const Plan plan = plan_of(noted, needed, on_a_gpu());
  EXPECT_EQ(plan.members, 32U);
  EXPECT_EQ(steps_with(plan, "gather<"), 2U) << "none behind the last step";
  EXPECT_EQ(plan.exchanged, static_cast<std::uint32_t>(kHidden));
  EXPECT_EQ(steps_with(plan, "m.put("), 2U);
  EXPECT_EQ(steps_with(plan, "begin_weights<"), 2U);
}

// A state that only elementwise steps read stays with its owners from run to run; one that a product reads is handed on.
TEST(GangPlanTest, OwnersKeepAStateFromRunToRun) {
  constexpr std::int64_t kHidden = 128;
  Noted noted;
  const TensorView h = made_up({1, kHidden});
  const TensorView c = made_up({1, kHidden});
  const TensorView a = made_up({1, kHidden});
  note_linear(noted, a, h, made_up({kHidden, kHidden}), made_up({kHidden}));
  note_program(noted, TensorOp::add, c, std::vector<Operand>{c, a});
  note_program(noted, TensorOp::tanh, h, std::vector<Operand>{c});
  Limits limits = on_a_gpu(16);
  limits.repeats = 20;
  const Plan plan = plan_of(noted, all, limits);
  EXPECT_EQ(steps_with(plan, "gather<", 1), 1U);
  EXPECT_EQ(plan.exchanged, static_cast<std::uint32_t>(kHidden)) << "of h alone";
}

TEST(GangPlanTest, EqualStepsShareAForm) {
  Noted noted;
  TensorView x = made_up({100});
  for (int i = 0; i < 50; ++i) {
    const TensorView y = made_up({100});
    note_program(noted, TensorOp::tanh, y, std::vector<Operand>{x});
    x = y;
  }
  const Plan plan = plan_of(
      noted, [&](const TensorView::Extent& memory) { return memory.first == x.address(); }, on_a_gpu());
  EXPECT_EQ(steps_with(plan, "TensorOp::tanh"), 50U);
  EXPECT_EQ(std::ranges::count_if(plan.forms, [](const FormText& form) { return form.body.find("TensorOp::tanh") != std::string::npos; }),
            1);
  EXPECT_EQ(steps_with(plan, "copy_out<"), 1U) << "the others are read by nobody";
  EXPECT_LE(plan.local_bytes, 3U * 416) << "results share memory when their lives do not overlap";
}

TEST(GangPlanTest, WhatIsReadBeforeItIsWrittenIsCopiedInAndOut) {
  Noted noted;
  const TensorView state = made_up({10});
  note_program(noted, TensorOp::add, state, std::vector<Operand>{state, Number(1)});
  const Plan plan = plan_of(
      noted, [](const TensorView::Extent&) { return false; }, on_a_gpu());
  EXPECT_EQ(steps_with(plan, "begin_copy<"), 1U);
  EXPECT_EQ(steps_with(plan, "copy_out<"), 1U) << "the next run goes on from it";
}

TEST(GangPlanTest, MembersShareLargeTensorsAndMeetBeforeOthersUseThem) {
  Noted noted;
  const TensorView x = made_up({256, 256});
  const TensorView y = made_up({256, 256});
  note_program(noted, TensorOp::add, y, std::vector<Operand>{x, x});
  note_program(noted, TensorOp::mul, x, std::vector<Operand>{y, y});
  note_program(noted, TensorOp::sub, y, std::vector<Operand>{x, x});
  const Plan plan = plan_of(noted, all, on_a_gpu());
  EXPECT_EQ(plan.members, 32U);
  EXPECT_EQ(steps_with(plan, "m.barrier<"), 2U);
  EXPECT_EQ(steps_with(plan, "begin_copy<") + steps_with(plan, "copy_out<"), 0U);
  EXPECT_EQ(steps_with(plan, "e += kMembers * kThreads"), 3U);
}

TEST(GangPlanTest, StepsWhoseResultsNobodyReadsAreDropped) {
  Noted noted;
  const TensorView x = made_up({10});
  const TensorView dead = made_up({10});
  const TensorView y = made_up({10});
  note_program(noted, TensorOp::add, dead, std::vector<Operand>{x, x});
  note_program(noted, TensorOp::mul, dead, std::vector<Operand>{dead, dead});
  note_program(noted, TensorOp::tanh, y, std::vector<Operand>{x});
  const Plan plan = plan_of(
      noted, [&](const TensorView::Extent& memory) { return memory.first == y.address(); }, on_a_gpu());
  EXPECT_EQ(steps_with(plan, "TensorOp::add") + steps_with(plan, "TensorOp::mul"), 0U);
  EXPECT_EQ(steps_with(plan, "TensorOp::tanh"), 1U);
}

TEST(GangPlanTest, StepsThatDoNotDependOnEachOtherStayTasks) {
  Noted noted;
  const TensorView x = made_up({1024});
  for (int i = 0; i < 2000; ++i) note_program(noted, TensorOp::add, made_up({1024}), std::vector<Operand>{x, x});
  DWELL_EXPECT_ERROR(plan_of(noted, all, on_a_gpu()), errc::unsupported, HasSubstr("2000 steps hardly depend on each other"));
}

TEST(GangPlanTest, AnExpensiveExchangeGivesOneMemberAndACheapOneMany) {
  const NotedNetwork network;
  CostTimes times;
  times.multiplication_ns = 0.05;
  Limits limits = on_a_gpu();
  times.exchange_ns = 20'000;
  limits.costs = measured_model(times);
  EXPECT_EQ(plan_of(network.noted, all, limits).members, 1U);
  times.exchange_ns = 800;
  limits.costs = measured_model(times);
  EXPECT_EQ(plan_of(network.noted, all, limits).members, 32U);

  // 2,048 multiplications.
  Noted small;
  note_linear(small, made_up({1, 64}), made_up({1, 32}), made_up({64, 32}), made_up({64}));
  EXPECT_EQ(plan_of(small, all, limits).members, 1U);
  times.exchange_ns = 40;
  limits.costs = measured_model(times);
  EXPECT_EQ(plan_of(small, all, limits).members, 8U);
}

TEST(GangPlanTest, TimesDecideWhetherTasksAreFaster) {
  Noted noted;
  const TensorView x = made_up({10});
  for (int i = 0; i < 100; ++i) note_program(noted, TensorOp::add, made_up({10}), std::vector<Operand>{x, x});
  Limits limits = on_a_gpu();
  EXPECT_EQ(plan_of(noted, all, limits).members, 1U);
  limits.costs.times.step_ns = 10'000;
  DWELL_EXPECT_ERROR(plan_of(noted, all, limits), errc::unsupported, HasSubstr("100 steps hardly depend on each other"));
}

TEST(GangPlanTest, TheReasonIsNamedWhenAProgramDoesNotFit) {
  Noted other;
  other.add(NotedOperation::Kind::other, {});
  DWELL_EXPECT_ERROR(plan_of(other, all, on_a_gpu()), errc::unsupported, HasSubstr("elements that an index chooses"));
  Noted large;
  const TensorView x = made_up({1 << 20});
  note_program(large, TensorOp::add, x, std::vector<Operand>{x, x});
  DWELL_EXPECT_ERROR(plan_of(large, all, on_a_gpu(1)), errc::unsupported, HasSubstr("1048576 elements"));
}

}  // namespace
}  // namespace dwell::tensor::gang
