#include "orchestrator/policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace dwell::orchestrator {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

// Admits all jobs that can be admitted at `now`. Returns their types.
std::vector<Policy::Type> admit_all(Policy& policy, Policy::Time now = 0ns) {
  std::vector<Policy::Type> types;
  while (const auto job = policy.admit(now)) types.push_back(job->type);
  return types;
}

// Types with jobs that always wait, each with its need and duration; simulated until `until`.
class Load {
 public:
  explicit Load(Policy::Limits limits) : policy(limits) {}

  void add(const JobOptions& options, Policy::Need need, Policy::Time takes) {
    kinds_.push_back({policy.add(options), need, takes});
    worker_time.push_back(0);
    admissions.push_back(0);
  }
  void run(Policy::Time until) {
    for (const Kind& kind : kinds_) {
      for (int i = 0; i < 3; ++i) policy.enqueue(kind.type, kind.need);
    }
    struct Running {
      Policy::Time ends;
      Policy::Admitted job;
    };
    const auto later = [](const Running& a, const Running& b) { return a.ends > b.ends; };
    std::priority_queue<Running, std::vector<Running>, decltype(later)> running(later);
    for (Policy::Time now{0}; now < until;) {
      while (auto job = policy.admit(now)) {
        policy.enqueue(job->type, job->need);
        ++admissions[job->type];
        worker_time[job->type] +=
            static_cast<double>(job->need.workers) * static_cast<double>(std::min(kinds_[job->type].takes, until - now).count());
        running.push({now + kinds_[job->type].takes, *std::move(job)});
      }
      ASSERT_FALSE(running.empty()) << "jobs wait and none is admitted";
      now = running.top().ends;
      policy.end(running.top().job.type, running.top().job.need, now);
      running.pop();
    }
  }
  // The share of all worker time used by a type.
  double part(std::size_t type) const {
    double all = 0;
    for (const double each : worker_time) all += each;
    return worker_time[type] / all;
  }

  Policy policy;
  std::vector<double> worker_time;  // by type
  std::vector<std::uint64_t> admissions;

 private:
  struct Kind {
    Policy::Type type;
    Policy::Need need;
    Policy::Time takes;
  };
  std::vector<Kind> kinds_;
};

TEST(Policy, JobsOfATypeAreAdmittedInOrder) {
  Policy policy({.workers = 10});
  const auto type = policy.add({});
  const std::uint64_t first = policy.enqueue(type, {1, 0});
  const std::uint64_t second = policy.enqueue(type, {1, 0});
  const std::uint64_t third = policy.enqueue(type, {1, 0});
  EXPECT_TRUE(policy.remove(type, second));
  EXPECT_FALSE(policy.remove(type, second));
  EXPECT_EQ(policy.admit(0ns)->job, first);
  EXPECT_EQ(policy.admit(0ns)->job, third);
  EXPECT_FALSE(policy.admit(0ns));
  EXPECT_FALSE(policy.remove(type, first));
}

TEST(Policy, LimitsOfATypeHoldItBackAlone) {
  Policy policy({.workers = 100, .memory = 100});
  const auto by_count = policy.add({.limits = {.at_once = 2}});
  const auto by_workers = policy.add({.limits = {.workers = 7}});
  const auto by_memory = policy.add({.limits = {.memory = 10}});
  for (int i = 0; i < 4; ++i) {
    policy.enqueue(by_count, {1, 1});
    policy.enqueue(by_workers, {2, 1});
    policy.enqueue(by_memory, {1, 4});
  }
  admit_all(policy);
  EXPECT_EQ(policy.in_use(by_count).jobs, 2U);
  EXPECT_EQ(policy.in_use(by_workers).jobs, 3U);
  EXPECT_EQ(policy.in_use(by_workers).need.workers, 6U);
  EXPECT_EQ(policy.in_use(by_memory).jobs, 2U);
  EXPECT_EQ(policy.in_use(by_memory).need.memory, 8U);
  EXPECT_EQ(policy.in_use().jobs, 7U);
  EXPECT_EQ(policy.in_use().need.workers, 2U + 6U + 2U);
  policy.end(by_memory, {1, 4}, 0ns);
  EXPECT_THAT(admit_all(policy), ElementsAre(by_memory));
}

TEST(Policy, CommonLimitsHold) {
  Policy workers({.workers = 5});
  const auto a = workers.add({});
  for (int i = 0; i < 4; ++i) workers.enqueue(a, {2, 1000});
  EXPECT_EQ(admit_all(workers).size(), 2U);
  Policy memory({.workers = 100, .memory = 9});
  const auto b = memory.add({});
  for (int i = 0; i < 4; ++i) memory.enqueue(b, {1, 3});
  EXPECT_EQ(admit_all(memory).size(), 3U);
}

TEST(Policy, AHigherPriorityGoesFirst) {
  Policy policy({.workers = 3});
  const auto low = policy.add({.priority = 1});
  const auto high = policy.add({.priority = 6});
  for (int i = 0; i < 3; ++i) policy.enqueue(low, {1, 0});
  for (int i = 0; i < 2; ++i) policy.enqueue(high, {1, 0});
  EXPECT_THAT(admit_all(policy), ElementsAre(high, high, low));
}

TEST(Policy, TheDominantShareIsEqual) {
  // All jobs of the first type are submitted before those of the second.
  const auto jobs_of = [](Policy::Limits limits, Policy::Need first, Policy::Need second) {
    Policy policy(limits);
    const auto a = policy.add({});
    const auto b = policy.add({});
    for (const auto& [type, need] : {std::pair(a, first), std::pair(b, second)})
      for (int i = 0; i < 20; ++i) policy.enqueue(type, need);
    admit_all(policy);
    return std::pair(policy.in_use(a).jobs, policy.in_use(b).jobs);
  };
  // The example of the paper: 9 processors and 18 GB.
  EXPECT_EQ(jobs_of({.workers = 9, .memory = 18}, {1, 4}, {3, 1}), std::pair(3UL, 2UL));
  // The same resource dominates both types.
  EXPECT_EQ(jobs_of({.workers = 100, .memory = 24}, {1, 4}, {1, 1}), std::pair(3UL, 12UL));
  EXPECT_EQ(jobs_of({.workers = 24, .memory = 100}, {4, 1}, {1, 1}), std::pair(3UL, 12UL));
}

TEST(Policy, WeightsDivideWorkers) {
  for (const std::uint64_t workers : {1U, 2U, 8U, 100U}) {
    Load load({.workers = workers});
    load.add({.weight = 1}, {1, 0}, 10us);
    load.add({.weight = 1}, {1, 0}, 11us);
    load.add({.weight = 2}, {1, 0}, 12us);
    load.run(20ms);
    EXPECT_NEAR(load.part(0), 0.25, 0.03) << workers;
    EXPECT_NEAR(load.part(1), 0.25, 0.03) << workers;
    EXPECT_NEAR(load.part(2), 0.5, 0.03) << workers;
  }
}

TEST(Policy, HeavyTypeDoesNotStarveALightOne) {
  // Jobs of four workers that run a hundred times as long.
  Load load({.workers = 16});
  load.add({}, {4, 0}, 1ms);
  load.add({}, {1, 0}, 10us);
  load.run(50ms);
  EXPECT_NEAR(load.part(0), 0.5, 0.05);
  EXPECT_NEAR(load.part(1), 0.5, 0.05);
}

TEST(Policy, NoPriorityStarves) {
  Policy policy({.workers = 1});
  const auto low = policy.add({.priority = 0});
  const auto high = policy.add({.priority = 7});
  policy.enqueue(low, {1, 0});
  policy.enqueue(low, {1, 0});
  std::vector<std::uint32_t> when;
  for (std::uint32_t i = 0; i < 200; ++i) {
    policy.enqueue(high, {1, 0});
    const auto job = policy.admit(Policy::Time(i));
    ASSERT_TRUE(job);
    if (job->type == low) when.push_back(i);
    policy.end(job->type, job->need, Policy::Time(i + 1));
  }
  EXPECT_THAT(when, ElementsAre(Policy::kAge, 2 * Policy::kAge + 1));
}

TEST(Policy, ALargeJobIsNotPassedOverForEver) {
  Policy policy({.workers = 4});
  const auto large = policy.add({});
  const auto small = policy.add({});
  policy.enqueue(small, {1, 0});
  ASSERT_TRUE(policy.admit(0ns));
  policy.enqueue(large, {4, 0});
  std::uint32_t before = 0;
  for (std::uint32_t i = 0;; ++i) {
    ASSERT_LT(i, 1000U);
    for (int j = 0; j < 4; ++j) policy.enqueue(small, {1, 0});
    const std::vector<Policy::Type> types = admit_all(policy, Policy::Time(i));
    if (std::ranges::count(types, large) != 0) break;
    before += static_cast<std::uint32_t>(types.size());
    policy.end(small, {1, 0}, Policy::Time(i));
  }
  EXPECT_EQ(before, Policy::kAge);
  EXPECT_EQ(policy.in_use(large).jobs, 1U);
}

TEST(Policy, JobAtItsTypesLimitDoesNotBlockOthers) {
  Policy policy({.workers = 4});
  const auto held = policy.add({.priority = 7, .limits = {.at_once = 1}});
  const auto other = policy.add({});
  policy.enqueue(held, {1, 0});
  policy.enqueue(held, {1, 0});
  ASSERT_EQ(policy.admit(0ns)->type, held);
  for (std::uint32_t i = 0; i < 3 * Policy::kAge; ++i) {
    policy.enqueue(other, {1, 0});
    ASSERT_EQ(admit_all(policy, Policy::Time(i)), std::vector<Policy::Type>{other});
    policy.end(other, {1, 0}, Policy::Time(i));
  }
}

TEST(Policy, JobPutBackWaitsForAnEnd) {
  Policy policy({.workers = 10});
  const auto first = policy.add({.priority = 5});
  const auto second = policy.add({});
  policy.enqueue(second, {1, 0});
  const auto running = policy.admit(0ns);
  const std::uint64_t job = policy.enqueue(first, {2, 0});
  policy.enqueue(first, {2, 0});
  policy.enqueue(second, {1, 0});
  auto admitted = policy.admit(0ns);
  ASSERT_EQ(admitted->job, job);
  policy.put_back(*std::move(admitted), 0ns);
  EXPECT_EQ(policy.in_use(first).jobs, 0U);
  EXPECT_EQ(policy.waiting(first), 2U);
  // Jobs of other types are still admitted.
  EXPECT_THAT(admit_all(policy), ElementsAre(second));
  policy.end(running->type, running->need, 0ns);
  EXPECT_EQ(policy.admit(0ns)->job, job);
}

TEST(Policy, JobPutBackRepeatedlyRunsAlone) {
  Policy policy({.workers = 10});
  const auto scarce = policy.add({});
  const auto other = policy.add({});
  for (int i = 0; i < 10; ++i) policy.enqueue(other, {1, 0});
  admit_all(policy);
  policy.enqueue(scarce, {1, 0});
  bool alone = false;
  for (int i = 0; i < 1000 && !alone; ++i) {
    policy.enqueue(other, {1, 0});
    policy.end(other, {1, 0}, Policy::Time(i));
    while (auto job = policy.admit(Policy::Time(i))) {
      if (job->type != scarce) continue;
      alone = policy.in_use().jobs == 1;
      if (alone) break;
      policy.put_back(*std::move(job), Policy::Time(i));
    }
  }
  EXPECT_TRUE(alone);
}

TEST(Policy, ReportsWhyAJobIsRefused) {
  Policy policy({.workers = 8, .memory = 100});
  const auto type = policy.add({.limits = {.workers = 6, .memory = 200, .waiting = 2}});
  const auto check = [](const std::optional<Policy::Excess>& excess, const char* what, bool of_type, std::uint64_t value,
                        std::uint64_t limit) {
    ASSERT_TRUE(excess) << what;
    EXPECT_STREQ(excess->what, what);
    EXPECT_EQ(excess->of_type, of_type);
    EXPECT_EQ(excess->value, value);
    EXPECT_EQ(excess->limit, limit);
  };
  EXPECT_FALSE(policy.never(type, {6, 100}));
  check(policy.never(type, {7, 0}), "workers", true, 7, 6);
  check(policy.never(type, {0, 201}), "memory", true, 201, 200);
  check(policy.never(type, {0, 101}), "memory", false, 101, 100);
  check(policy.never(policy.add({}), {9, 0}), "workers", false, 9, 8);
  policy.enqueue(type, {1, 0});
  EXPECT_FALSE(policy.full(type));
  policy.enqueue(type, {1, 0});
  check(policy.full(type), "waiting", true, 3, 2);
}

TEST(Policy, IdleTimeEarnsNoCredit) {
  Policy policy({.workers = 1});
  const auto busy = policy.add({});
  const auto idle = policy.add({});
  Policy::Time now{0};
  const auto step = [&] {
    const auto job = policy.admit(now);
    policy.enqueue(job->type, {1, 0});
    now += 1ms;
    policy.end(job->type, job->need, now);
    return job->type;
  };
  policy.enqueue(busy, {1, 0});
  for (int i = 0; i < 50; ++i) step();
  policy.enqueue(idle, {1, 0});
  std::vector<Policy::Type> types;
  for (int i = 0; i < 20; ++i) types.push_back(step());
  EXPECT_NEAR(static_cast<double>(std::ranges::count(types, busy)), 10, 1);
}

TEST(Policy, JobBeyondTheLimitsRunsAlone) {
  Policy policy({.workers = 8});
  const auto type = policy.add({});
  policy.enqueue(type, {6, 0});
  policy.enqueue(type, {6, 0});
  policy.limit({.workers = 4});
  EXPECT_EQ(admit_all(policy).size(), 1U);
  policy.end(type, {6, 0}, 0ns);
  EXPECT_EQ(admit_all(policy).size(), 1U);
}

TEST(Policy, RandomJobsAreAdmittedOnceWithinAllLimits) {
  std::mt19937 random(5);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random()) % bound; };
  for (int round = 0; round < 20; ++round) {
    const Policy::Limits limits{5 + below(10), 20 + below(20)};
    Policy policy(limits);
    std::vector<JobOptions> types;
    for (int i = 0; i < 6; ++i) {
      types.push_back({.priority = below(8),
                       .weight = 1 + below(4),
                       .limits = {.workers = below(3) * 4, .memory = below(3) * 15, .at_once = 1 + below(5), .waiting = 50}});
      policy.add(types.back());
    }
    std::set<std::uint64_t> waiting;
    std::vector<Policy::Admitted> running;
    for (int i = 0; i < 3000; ++i) {
      const Policy::Time now(i);
      const Policy::Type type = below(6);
      const Policy::Need need{below(5), below(16)};
      switch (below(4)) {
        case 0:
        case 1:
          if (!policy.never(type, need) && !policy.full(type)) waiting.insert(policy.enqueue(type, need));
          break;
        case 2:
          if (running.empty()) break;
          std::swap(running[below(static_cast<std::uint32_t>(running.size()))], running.back());
          policy.end(running.back().type, running.back().need, now);
          running.pop_back();
          break;
        default:
          if (waiting.empty()) break;
          for (Policy::Type each = 0; each < 6; ++each)
            if (policy.remove(each, *waiting.begin())) {
              waiting.erase(waiting.begin());
              break;
            }
      }
      while (auto job = policy.admit(now)) {
        ASSERT_EQ(waiting.erase(job->job), 1U);
        if (below(10) == 0 && !running.empty()) {
          waiting.insert(job->job);
          policy.put_back(*std::move(job), now);
        } else {
          running.push_back(*std::move(job));
        }
        Policy::Need used;
        std::vector<Policy::Use> by_type(6);
        for (const Policy::Admitted& each : running) {
          used.workers += each.need.workers;
          used.memory += each.need.memory;
          ++by_type[each.type].jobs;
          by_type[each.type].need.workers += each.need.workers;
          by_type[each.type].need.memory += each.need.memory;
        }
        ASSERT_LE(used.workers, limits.workers);
        ASSERT_LE(used.memory, limits.memory);
        ASSERT_EQ(policy.in_use().need.workers, used.workers);
        ASSERT_EQ(policy.in_use().need.memory, used.memory);
        for (Policy::Type each = 0; each < 6; ++each) {
          const JobLimits& own = types[each].limits;
          ASSERT_LE(by_type[each].jobs, own.at_once);
          ASSERT_TRUE(own.workers == 0 || by_type[each].need.workers <= own.workers);
          ASSERT_TRUE(own.memory == 0 || by_type[each].need.memory <= own.memory);
        }
      }
      ASSERT_TRUE(waiting.empty() || !running.empty()) << "nobody would admit those that wait";
    }
  }
}

}  // namespace
}  // namespace dwell::orchestrator
