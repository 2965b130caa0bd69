// The arrays of a job: types and shapes, initial values, and their use as arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <dwell/dwell.hpp>

#include "array.hpp"
#include "job.hpp"
#include "npy.hpp"

namespace dwell::tool {

// The type and shape of an array, before its allocation.
struct ArrayPlan {
  ElementType type = ElementType::f32;
  Shape shape;
  std::optional<NpyHeader> file;  // the file with its initial values; else they are 0

  std::uint64_t count() const { return element_count(shape, bytes_of(type)); }
};

// Returns the plans in the order of job.arrays. Reads the headers of the job's files. Throws Failure at the array if its file is missing,
// broken, or differs from the job's description.
std::vector<ArrayPlan> plan_arrays(const Job& job);

// Allocates and fills the arrays. Throws Failure at an array without memory, or whose file cannot be read.
std::vector<Array> make_arrays(Runtime& runtime, const Job& job, const std::vector<ArrayPlan>& plans);

// Throws Failure at the first argument that does not fit the operator.
void check_arguments(const Job& job, const JobTask& task, const Signature& signature, const std::vector<ArrayPlan>& plans);

// Resets the arrays to their initial values. Throws Failure as make_arrays.
void refill_arrays(const Job& job, const std::vector<ArrayPlan>& plans, std::vector<Array>& arrays);

// Returns the arguments and groups of a task that check_arguments has passed, without its ordering.
Arguments make_arguments(const JobTask& task, const Signature& signature, const std::vector<Array>& arrays);

}  // namespace dwell::tool
