// The constants by which the planner decides: how many members there are, what they share out, and what rather stays tasks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dwell::tensor::gang {

// Times that differ between devices, in nanoseconds. Defaults: estimates from an H200. cost_probes.hpp measures them.
struct CostTimes {
  double step_ns = 100;
  double instruction_ns = 0.06;
  double multiplication_ns = 0.3;
  double exchange_ns = 1'000;
  double barrier_ns = 1'000;

  bool operator==(const CostTimes&) const = default;
};

struct CostTime {
  const char* name;
  double CostTimes::*value;
  const char* what;
};
inline constexpr std::array<CostTime, 5> kCostTimes{{
    {"step_ns", &CostTimes::step_ns, "a step of a member, with the barrier of its threads"},
    {"instruction_ns", &CostTimes::instruction_ns, "an instruction of an elementwise step in a member, per element"},
    {"multiplication_ns", &CostTimes::multiplication_ns, "a multiplication of a product in a member"},
    {"exchange_ns", &CostTimes::exchange_ns, "from the members' parts of a product to all of it in each member"},
    {"barrier_ns", &CostTimes::barrier_ns, "a barrier of all members, with the tensor between them in global memory"},
}};

struct CostModel {
  CostTimes times = {};

  // Limits that depend on the times (measured_model). Defaults: found on an H200 by trying.
  std::int64_t least_shared_work = std::int64_t{1} << 14U;
  std::int64_t work_of_member = std::int64_t{1} << 15U;
  std::int64_t most_work_alone = std::int64_t{1} << 15U;
  std::int64_t most_elements = std::int64_t{1} << 15U;
  std::int64_t elements_of_member = 2048;

  // The same for all devices.
  std::int64_t outputs_of_member = 8;                           // elements of a shared product's result for each member
  std::uint32_t usual_members = 32;                             // members at most that a product gets by its elements
  std::int64_t most_exchanged = std::int64_t{1} << 13U;         // words of an exchange
  std::int64_t most_work = std::int64_t{1} << 20U;              // multiplications of a product that each member does
  std::int64_t most_elements_alone = std::int64_t{1} << 15U;    // elements of an operation of a single member; beyond, it is refused
  std::int64_t most_elements_on_cpu = std::int64_t{1} << 17U;   // beyond, tasks use several threads
  std::int64_t most_work_on_cpu = std::int64_t{1} << 22U;       // multiplications; beyond, tasks use several threads
  std::uint32_t threads_of_member = 256;                        // of several members
  std::int64_t work_of_thread = 64;                             // multiplications for each thread of a single member
  std::uint64_t most_factor_bytes = std::uint64_t{128} << 10U;  // a factor that a single member copies to its memory
  std::uint64_t least_far_bytes = std::uint64_t{1} << 10U;      // an input that members may read where it lies, to make room

  // Estimates of tasks, in place of a program.
  double burst_ns = 60'000;               // from the submission to the first task
  double submission_ns = 50;              // a task, on the host
  double task_ns = 2'000;                 // a task behind another one
  double task_slowdown = 4;               // a group of a task has so many times fewer threads than a member
  std::int64_t elements_of_group = 1024;  // elements of an operation for each group of its task
  std::int64_t instructions_of_rows = 4;  // per element of a reduction
  double worth_margin = 1.5;              // a program is refused if it takes so many times as long as tasks: estimates are rough
};

struct CostLimit {
  const char* name;
  std::int64_t CostModel::*value;
  const char* what;
};
inline constexpr std::array<CostLimit, 5> kCostLimits{{
    {"least_shared_work", &CostModel::least_shared_work, "multiplications of a product that are worth an exchange"},
    {"work_of_member", &CostModel::work_of_member, "multiplications of a shared product for each member"},
    {"most_work_alone", &CostModel::most_work_alone, "multiplications on call that one member does sooner than several"},
    {"most_elements", &CostModel::most_elements, "elements of a step that each member does"},
    {"elements_of_member", &CostModel::elements_of_member, "elements of a shared step for each member"},
}};

// The model of a device with these times: each limit follows from where both ways take as long. They are powers of two, within a factor of
// 16 of the defaults.
CostModel measured_model(const CostTimes& times);

// Returns whether all are finite and positive, and no nonsense.
bool is_plausible(const CostTimes& times);

// Times as text, a line each. Nothing for any other text, and for times that are not plausible.
std::string text_of(const CostTimes& times);
std::optional<CostTimes> times_of(std::string_view text);

}  // namespace dwell::tensor::gang
