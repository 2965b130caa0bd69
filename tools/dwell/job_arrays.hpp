// The arrays of a job: types and shapes, first values, and their use as arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <dwell/dwell.hpp>

#include "array.hpp"
#include "job.hpp"
#include "npy.hpp"

namespace dwell::tool {

// An array before there is memory for it.
struct ArrayPlan {
  ElementType type = ElementType::f32;
  Shape shape;
  std::optional<NpyHeader> file;  // where it is read from; else it starts as zeros

  std::uint64_t count() const { return element_count(shape, bytes_of(type)); }
};

// In the order of job.arrays. Reads the headers of the job's files. Throws Failure at the array for a file that is missing or broken, or
// is not what the job says of it.
std::vector<ArrayPlan> plan_arrays(const Job& job);

// Makes the arrays and fills them. Throws Failure at the array for which there is no memory or whose file cannot be read.
std::vector<Array> make_arrays(Runtime& runtime, const Job& job, const std::vector<ArrayPlan>& plans);

// Throws Failure at the first argument of the task that the operator does not take.
void check_arguments(const Job& job, const JobTask& task, const Signature& signature, const std::vector<ArrayPlan>& plans);

// Gives them their first values again. Throws Failure as make_arrays.
void refill_arrays(const Job& job, const std::vector<ArrayPlan>& plans, std::vector<Array>& arrays);

// The arguments of one task, which check_arguments has passed, and its groups. What orders it is not among them.
Arguments make_arguments(const JobTask& task, const Signature& signature, const std::vector<Array>& arrays);

}  // namespace dwell::tool
