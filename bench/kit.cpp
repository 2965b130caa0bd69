// The operator author's kit against hand-written code: the kit should not be slower.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/kit_operators.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr std::size_t kSmall = 1024;  // floats per lone task
constexpr double kSlack = 1.05;       // the highest ratio of the kit's time to that by hand

using Function = void(Span<const float>, Span<const float>, Span<float>);

struct Way {
  const char* by;
  const char* name;
  const char* source;
  bool ours;
};
enum class Result : std::uint8_t {
  elements,  // each equals `expected`
  sums,      // one per group, over its block
  running,   // running sums from the beginning of each group's block
};
// The same work in several ways; the first is the kit's.
struct Call {
  const char* what;
  std::vector<Way> ways;
  double bytes;  // moved per element
  Result result;
  double (*expected)(std::size_t index);  // for Result::elements, from the inputs at `index`
};

// Return small whole numbers, so that all sums are exact.
float first_input(std::size_t index) { return static_cast<float>(index % 3); }
float second_input(std::size_t index) { return static_cast<float>(index % 5); }

std::vector<Call> all_work() {
  return {
      {"add",
       {{"transform", "add_kit", kKitAdd, true}, {"plain loop", "add_plain", kPlainAdd, true}, {"by hand", "add_hand", kHandAdd, false}},
       12,
       Result::elements,
       [](std::size_t index) -> double { return first_input(index) + second_input(index); }},
      {"copy",
       {{"copy", "copy_kit", kKitCopy, true}, {"by hand", "copy_hand", kHandCopy, false}},
       8,
       Result::elements,
       [](std::size_t index) -> double { return first_input(index); }},
      {"sum",
       {{"reduce", "sum_kit", kKitSum, true}, {"plain loop", "sum_plain", kPlainSum, true}, {"by hand", "sum_hand", kHandSum, false}},
       4,
       Result::sums,
       nullptr},
      {"running sum",
       {{"inclusive_scan", "scan_kit", kKitScan, true}, {"by hand", "scan_hand", kHandScan, false}},
       8,
       Result::running,
       nullptr},
  };
}

// Arrays for all work, in slices that tasks use in turn.
class Arrays {
 public:
  Arrays(Runtime& runtime, std::size_t floats)
      : x_(runtime.allocate<float>(floats)), y_(runtime.allocate<float>(floats)), z_(runtime.allocate<float>(floats)) {
    std::vector<float> values(floats);
    for (std::size_t i = 0; i < floats; ++i) values[i] = first_input(i);
    x_.write(values);
    for (std::size_t i = 0; i < floats; ++i) values[i] = second_input(i);
    y_.write(values);
  }

  Ticket submit(Runtime& runtime, const Operator<Function>& op, std::size_t first, std::size_t floats, std::uint32_t groups) const {
    return runtime.submit(op, x_.slice(first, floats), y_.slice(first, floats), z_.slice(first, floats), dwell::groups(groups));
  }

  void poison() { z_.write(std::vector<float>(z_.size(), std::numeric_limits<float>::quiet_NaN())); }
  // Returns the number of wrong results of `groups` groups over each slice of `floats`.
  std::size_t wrong(const Call& work, std::size_t floats, std::uint32_t groups) const {
    std::vector<float> z(z_.size());
    z_.read(z);
    std::size_t wrong = 0;
    for (std::size_t slice = 0; slice < z.size(); slice += floats) {
      const auto results = std::span(z).subspan(slice, floats);
      if (work.result == Result::sums) {
        wrong += wrong_sums(results, slice, groups);
      } else if (work.result == Result::running) {
        wrong += wrong_running(results, slice, groups);
      } else {
        for (std::size_t i = 0; i < floats; ++i) wrong += results[i] == work.expected(slice + i) ? 0U : 1U;
      }
    }
    return wrong;
  }

 private:
  static std::size_t wrong_sums(std::span<const float> results, std::size_t first, std::uint32_t groups) {
    double expected = 0;
    for (std::size_t i = 0; i < results.size(); ++i) expected += first_input(first + i);
    double all = 0;
    for (std::uint32_t group = 0; group < groups; ++group) all += results[group];
    return all == expected ? 0 : 1;
  }
  // Each way chooses its blocks. An element that equals its input begins a block; at most `groups` may.
  static std::size_t wrong_running(std::span<const float> results, std::size_t first, std::uint32_t groups) {
    std::size_t wrong = 0;
    std::uint32_t blocks = 1;
    double before = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const double input = first_input(first + i);
      if (results[i] != before + input && results[i] == input)
        ++blocks;
      else if (results[i] != before + input)
        ++wrong;
      before = results[i];
    }
    return wrong + (blocks > groups ? 1 : 0);
  }

  Buffer<float> x_;
  Buffer<float> y_;
  Buffer<float> z_;
};

class Kit {
 public:
  Kit(Runtime& runtime, Report& report) : runtime_(runtime), report_(report), work_(all_work()) {
    for (const Call& work : work_) {
      std::vector<Operator<Function>>& ways = operators_.emplace_back();
      for (const Way& way : work.ways) ways.push_back(runtime.define<Function>(way.name, way.source));
    }
  }

  // Times one task at a time over `slices` slices of 1024 floats.
  void lone(const std::string& title, std::size_t rounds, std::size_t count, bool goals) {
    constexpr std::size_t kSlices = 64;
    Arrays arrays(runtime_, kSlices * kSmall);
    for (std::size_t w = 0; w < work_.size(); ++w) {
      const auto once = [&](const Operator<Function>& op, std::size_t i) {
        arrays.submit(runtime_, op, i % kSlices * kSmall, kSmall, 1).wait();
      };
      const auto times = in_turn(w, arrays, kSmall, 1, rounds, [&](const Operator<Function>& op) {
        return time_at_random(std::max(count, kSlices), [&](std::size_t i) { once(op, i); });
      });
      add_rows(w, "lone " + std::string(work_[w].what) + " of 1024 floats" + title, kSmall, times, goals);
    }
  }

  // Times one task over `floats`, shared by `groups` groups.
  void large(std::size_t w, const std::string& title, std::size_t floats, std::uint32_t groups, std::size_t rounds) {
    Arrays arrays(runtime_, floats);
    const auto times = in_turn(w, arrays, floats, groups, rounds, [&](const Operator<Function>& op) {
      const Clock::time_point start = Clock::now();
      arrays.submit(runtime_, op, 0, floats, groups).wait();
      return std::vector<double>{nanoseconds_since(start)};
    });
    add_rows(w, std::string(work_[w].what) + title, floats, times, true);
  }

  std::size_t size() const { return work_.size(); }

 private:
  // Returns the times of each way, measured in turn so that changes of the machine affect all, after an untimed round. Checks the results.
  template <class Measure>
  std::vector<std::vector<double>> in_turn(std::size_t w, Arrays& arrays, std::size_t floats, std::uint32_t groups, std::size_t rounds,
                                           Measure measure) {
    const std::vector<Operator<Function>>& ways = operators_[w];
    std::vector<std::vector<double>> times(ways.size());
    for (std::size_t round = 0; round <= rounds; ++round)
      for (std::size_t way = 0; way < ways.size(); ++way) {
        if (round == 0) arrays.poison();
        const std::vector<double> more = measure(ways[way]);
        if (round != 0) {
          times[way].insert(times[way].end(), more.begin(), more.end());
        } else {
          report_.check_none("wrong results of " + std::string(work_[w].ways[way].name) + " over " + text_of_count(floats) + " floats",
                             arrays.wrong(work_[w], floats, groups));
        }
      }
    return times;
  }

  void add_rows(std::size_t w, const std::string& what, std::size_t floats, const std::vector<std::vector<double>>& times, bool goal) {
    double kit = 0;
    double hand = 0;
    for (std::size_t way = 0; way < times.size(); ++way) {
      const Way& by = work_[w].ways[way];
      Row row{what, by.by, by.ours, "ns", spread_of(times[way]), std::nullopt};
      if (floats > kSmall) row.gigabytes_per_second = work_[w].bytes * static_cast<double>(floats) / row.spread.p50;
      if (way == 0) kit = row.spread.p50;
      if (!by.ours) hand = row.spread.p50;
      report_.add(std::move(row));
    }
    if (goal) report_.add(Goal{what + ", against by hand", "x", kit / hand, kSlack});
  }

  Runtime& runtime_;
  Report& report_;
  std::vector<Call> work_;
  std::vector<std::vector<Operator<Function>>> operators_;  // in the order of `work_`
};

// Checks that a plain loop on one worker takes as long in many groups as in one.
void add_groups(const Context& context, Report& report, std::size_t floats, std::size_t rounds) {
  dwell::Options options = context.options();
  options.workers = 1;
  Runtime runtime(std::move(options));
  const auto add = runtime.define<Function>("add_plain", kPlainAdd);
  const Arrays arrays(runtime, floats);
  constexpr std::array<std::uint32_t, 3> kGroups = {1, 4, 16};
  std::array<std::vector<double>, kGroups.size()> times;
  for (std::size_t round = 0; round <= rounds; ++round)
    for (std::size_t i = 0; i < kGroups.size(); ++i) {
      const Clock::time_point start = Clock::now();
      arrays.submit(runtime, add, 0, floats, kGroups[i]).wait();
      if (round != 0) times[i].push_back(nanoseconds_since(start));
    }
  const std::string what = "plain add over " + text_of_count(floats) + " floats, one worker";
  std::array<double, kGroups.size()> middle{};
  for (std::size_t i = 0; i < kGroups.size(); ++i) {
    const Spread spread = spread_of(times[i]);
    middle[i] = spread.p50;
    report.add({what, std::to_string(kGroups[i]) + (kGroups[i] == 1 ? " group" : " groups"), true, "ns", spread,
                12.0 * static_cast<double>(floats) / spread.p50});
  }
  report.add(Goal{what + ", 16 groups against one", "x", middle.back() / middle.front(), kSlack, 1.2});
}

void run(const Context& context, Report& report) {
  constexpr std::size_t kMi = std::size_t{1} << 20U;
  const auto rounds = context.pick<std::size_t>(5, 1);
  const auto count = context.pick<std::size_t>(4'000, 200);
  const auto repeats = context.pick<std::size_t>(25, 2);
  dwell::Options options = context.options();
  options.tier = context.cuda ? Tier::lto : Tier::relocatable;
  {
    Runtime runtime(options);
    Kit kit(runtime, report);
    kit.lone("", rounds, count, true);
    const std::uint32_t workers = runtime.info().workers;
    const std::size_t wide = context.cuda ? context.pick(64 * kMi, 4 * kMi) : context.pick(4 * kMi, kMi / 4);
    for (std::size_t w = 0; w < kit.size(); ++w) {
      kit.large(w, " of 1 Mi floats by one group", kMi, 1, repeats);
      kit.large(w, " of " + text_of_count(wide) + " floats by all workers", wide, workers, repeats);
    }
  }
  if (context.cuda) {
    options.tier = Tier::relocatable;
    Runtime runtime(options);
    Kit(runtime, report).lone(", called through the table", rounds, count, false);
  } else {
    add_groups(context, report, context.pick(4 * kMi, kMi / 4), repeats);
  }
}

const Registration kRegistration{{90, "kit", "the operator author's kit, and the same work by hand", 300, run}};

}  // namespace

}  // namespace dwell::bench
