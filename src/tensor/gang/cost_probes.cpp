#include "tensor/gang/cost_probes.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <dwell/error.hpp>

#include "tensor/product.hpp"
#include "tensor/program_builder.hpp"

namespace dwell::tensor::gang {

namespace {

constexpr std::size_t kOperations = 16;  // of a probe
constexpr std::int64_t kFew = 32;        // elements
constexpr std::int64_t kMany = 8192;
constexpr std::int64_t kShared = std::int64_t{1} << 14U;  // too many for a member's memory
constexpr std::int64_t kSide = 128;                       // of a product's weights
constexpr double kWork = kSide * kSide;
constexpr std::uint32_t kMostMembers = 32;

constexpr std::array<const char*, kProbes> kNames{"steps", "elements", "products", "exchanges", "barriers"};

bool is_shared(Probe probe) { return probe == Probe::exchanges || probe == Probe::barriers; }

std::uint32_t members_of(const Limits& limits) { return std::min(std::bit_floor(limits.most_members), kMostMembers); }

// Adds the first element to each. So threads read what others have written, and meet between steps; else the compiler keeps elements in
// registers from step to step.
void note_sum(Noted& noted, const TensorView& to, const TensorView& from) {
  ProgramBuilder builder(to.shape());
  const TensorView first = from.slice(0, 0, 1).expand(to.shape());  // operands refer to views
  const std::array<Operand, 2> operands{from, first};
  builder.add(TensorOp::add, to.type(), to, operands);
  std::vector<std::uint32_t> words;
  builder.write_to(words);
  noted.add(NotedOperation::Kind::program, words);
}

void note_product(Noted& noted, const TensorView& to, const TensorView& from, const TensorView& weights) {
  const TensorView turned = weights.transpose(0, 1);
  const tensor::Operation operation = operation_of(Product{.to = to, .a = from, .b = turned}, true, 1);
  noted.add(NotedOperation::Kind::product, std::span(operation.words.data(), operation.words.size()));
}

double median_of(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::ranges::nth_element(all, middle);
  return *middle;
}

// How many repeats take long enough for the difference of two runs to be far above what launches and waits vary by.
std::uint32_t repeats_of(Probe probe, const TimeProbe& time) {
  constexpr double kLongEnough = 600'000;
  constexpr std::uint32_t kMost = 4096;
  std::uint32_t repeats = 8;
  static_cast<void>(time(probe, repeats));  // the first run loads code
  while (repeats < kMost && time(probe, repeats) < kLongEnough) repeats *= 2;
  return repeats;
}

// Nanoseconds of one repeat.
double of_repeat(Probe probe, std::uint32_t repeats, const TimeProbe& time) {
  constexpr int kSamples = 9;
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) {
    const double shorter = time(probe, repeats);
    samples.push_back((time(probe, 2 * repeats) - shorter) / repeats);
  }
  return median_of(samples);
}

// Nanoseconds of one repeat, by rounds that agree. Nothing if none do.
std::optional<double> steady_time(Probe probe, const TimeProbe& time) {
  constexpr int kTries = 3;
  constexpr std::size_t kRounds = 3;
  constexpr double kMostSpread = 0.25;
  const std::uint32_t repeats = repeats_of(probe, time);
  for (int i = 0; i < kTries; ++i) {
    std::vector<double> rounds;
    for (std::size_t round = 0; round < kRounds; ++round) rounds.push_back(of_repeat(probe, repeats, time));
    const double middle = median_of(rounds);
    const auto [least, most] = std::ranges::minmax(rounds);
    if (most - least <= kMostSpread * middle) return middle;
  }
  return std::nullopt;
}

// An idle device may run at a lower clock.
void warm_up(const TimeProbe& time) {
  constexpr double kLongEnough = 30e6;
  constexpr int kMostRuns = 1000;
  double so_far = 0;
  for (int i = 0; i < kMostRuns && so_far < kLongEnough; ++i) so_far += time(Probe::products, 64);
}

[[noreturn]] void refuse_to_measure(const std::string& why) {
  throw Error(errc::unsupported, "the costs of the device cannot be measured: " + why + "; measure again when nothing else uses it");
}

CostTimes times_from(const std::array<double, kProbes>& of_operation, std::uint32_t members) {
  const auto of = [&](Probe probe) { return of_operation.at(static_cast<std::size_t>(probe)); };
  CostTimes times;
  times.step_ns = of(Probe::steps);
  times.instruction_ns = (of(Probe::elements) - times.step_ns) / (kMany - kFew);
  times.multiplication_ns = (of(Probe::products) - times.step_ns) / kWork;
  times.exchange_ns = of(Probe::exchanges) - times.step_ns - times.multiplication_ns * kWork / members;
  times.barrier_ns = of(Probe::barriers) - times.step_ns - times.instruction_ns * kShared / members;
  // Digits beyond the third are noise.
  for (const CostTime& time : kCostTimes) {
    double& value = times.*time.value;
    if (!std::isfinite(value) || value <= 0) refuse_to_measure(std::string(time.name) + " is not above the noise");
    const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
    value = std::round(value / unit) * unit;
  }
  if (!is_plausible(times)) refuse_to_measure("its times make no sense");
  return times;
}

}  // namespace

Plan plan_of_probe(Probe probe, std::uint64_t memory, const Limits& limits) {
  constexpr std::uint64_t kApart = sizeof(float) * kShared;
  const Dims shape = probe == Probe::steps      ? Dims{kFew}
                     : probe == Probe::elements ? Dims{kMany}
                     : probe == Probe::barriers ? Dims{kShared}
                                                : Dims{1, kSide};
  const TensorView x(memory, ElementType::f32, shape);
  const TensorView y(memory + kApart, ElementType::f32, shape);
  const TensorView weights(memory + 2 * kApart, ElementType::f32, Dims{kSide, kSide});
  Noted noted;
  for (std::size_t i = 0; i < kOperations; ++i) {
    const TensorView& from = i % 2 == 0 ? x : y;
    const TensorView& to = i % 2 == 0 ? y : x;
    if (probe == Probe::products || probe == Probe::exchanges)
      note_product(noted, to, from, weights);
    else
      note_sum(noted, to, from);
  }
  Limits here = limits;
  here.costs = {};
  here.members = is_shared(probe) ? members_of(limits) : 1;
  if (here.threads == 0) here.threads = here.costs.threads_of_member;
  here.repeats = 2;  // or any other number
  return plan_of(
      noted, [](const TensorView::Extent&) { return true; }, here);
}

CostTimes measure_times(const TimeProbe& time, const Limits& limits) {
  warm_up(time);
  std::array<double, kProbes> of_operation{};
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    const std::optional<double> repeat = steady_time(static_cast<Probe>(probe), time);
    if (!repeat) refuse_to_measure(std::string("the times of ") + kNames.at(probe) + " vary by more than a quarter");
    of_operation.at(probe) = *repeat / static_cast<double>(kOperations);
  }
  return times_from(of_operation, members_of(limits));
}

}  // namespace dwell::tensor::gang
