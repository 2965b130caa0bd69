#include "tensor/gang/cost_model.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numbers>
#include <system_error>

namespace dwell::tensor::gang {

namespace {

// The power of two next to a quotient of times, no further from the default than the factor: times vary, and plans should not.
std::int64_t limit_of(double quotient, std::int64_t usual) {
  constexpr double kMostFactor = 16;
  const auto middle = static_cast<double>(usual);
  const double near = std::clamp(quotient, middle / kMostFactor, middle * kMostFactor);
  const auto below = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(near)));
  return near > std::numbers::sqrt2 * static_cast<double>(below) ? 2 * below : below;
}

}  // namespace

CostModel measured_model(const CostTimes& times) {
  const CostModel usual;
  CostModel model{.times = times};
  // A member does so many multiplications during an exchange, or elements during a barrier or a step. The factors are such that the times
  // of an H200 give the limits that were found there by trying.
  const double of_exchange = times.exchange_ns / times.multiplication_ns;
  model.least_shared_work = limit_of(2 * of_exchange, usual.least_shared_work);
  model.work_of_member = limit_of(4 * of_exchange, usual.work_of_member);
  model.most_work_alone = limit_of(4 * of_exchange, usual.most_work_alone);
  model.most_elements = limit_of(2 * times.barrier_ns / times.instruction_ns, usual.most_elements);
  model.elements_of_member = limit_of(4 * times.step_ns / times.instruction_ns, usual.elements_of_member);
  return model;
}

bool is_plausible(const CostTimes& times) {
  constexpr double kLeast = 1e-6;
  constexpr double kMost = 1e9;
  return std::ranges::all_of(kCostTimes, [&](const CostTime& time) {
    const double value = times.*time.value;
    return std::isfinite(value) && value >= kLeast && value <= kMost;
  });
}

std::string text_of(const CostTimes& times) {
  std::string text;
  for (const CostTime& time : kCostTimes) {
    char digits[32];
    char* const end = std::to_chars(digits, digits + sizeof(digits), times.*time.value).ptr;
    text += time.name;
    text += ' ';
    text.append(digits, end);
    text += '\n';
  }
  return text;
}

std::optional<CostTimes> times_of(std::string_view text) {
  CostTimes times;
  for (const CostTime& time : kCostTimes) {
    const std::string begin = std::string(time.name) + " ";
    if (!text.starts_with(begin)) return std::nullopt;
    text.remove_prefix(begin.size());
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), times.*time.value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (problem != std::errc() || !text.starts_with('\n')) return std::nullopt;
    text.remove_prefix(1);
  }
  return text.empty() && is_plausible(times) ? std::optional(times) : std::nullopt;
}

}  // namespace dwell::tensor::gang
