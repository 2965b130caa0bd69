#include "job_arrays.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>

#include "scalar.hpp"

namespace dwell::tool {

namespace {

// Throws Failure if the job and the file disagree about the array.
void check_file(const JobArray& array, const NpyHeader& header) {
  if (array.type && *array.type != header.type) {
    throw failure_at(array.place, "array " + array.name + " should be " + std::string(name_of(*array.type)) + ", but " +
                                      array.file->string() + " holds " + std::string(name_of(header.type)));
  }
  if (array.shape && *array.shape != header.shape) {
    throw failure_at(array.place, "array " + array.name + " should have shape " + text_of(*array.shape) + ", but " + array.file->string() +
                                      " has " + text_of(header.shape));
  }
}

ArrayPlan plan_file(const JobArray& array) {
  ArrayPlan plan;
  try {
    plan.file = read_npy_header(*array.file);
  } catch (const std::runtime_error& problem) {
    throw failure_at(array.place, "array " + array.name + ": " + array.file->string() + " " + problem.what());
  }
  check_file(array, *plan.file);
  plan.type = plan.file->type;
  plan.shape = plan.file->shape;
  return plan;
}

std::string describe(const Job& job, std::size_t index, const ArrayPlan& plan) {
  return "array " + job.arrays[index].name + " (" + std::string(name_of(plan.type)) + ", shape " + text_of(plan.shape) + ")";
}

// Writes the initial values of one of the job's arrays to the array that `array` returns.
template <class Get>
void fill(const Job& job, std::size_t index, const ArrayPlan& plan, const Get& array) {
  const JobArray& wanted = job.arrays[index];
  try {
    Array& to = array();
    // Read in pieces: there may be no memory for another copy of the array.
    constexpr std::uint64_t kPiece = std::uint64_t{1} << 24U;
    const std::uint64_t bytes = plan.count() * bytes_of(plan.type);
    std::optional<NpyData> from;
    if (plan.file) from.emplace(*wanted.file, *plan.file);
    std::vector<std::byte> data(std::min(bytes, kPiece));
    for (std::uint64_t done = 0; done < bytes; done += data.size()) {
      data.resize(std::min<std::uint64_t>(data.size(), bytes - done));
      if (from) from->read(done, data);
      to.write(data, done);
    }
  } catch (const Error& problem) {
    throw failure_at(wanted.place, describe(job, index, plan) + ": " + problem.message());
  } catch (const std::bad_alloc&) {
    throw failure_at(wanted.place, describe(job, index, plan) + ": there is not so much memory");
  } catch (const std::length_error&) {
    throw failure_at(wanted.place, describe(job, index, plan) + ": there is not so much memory");
  } catch (const std::runtime_error& problem) {
    throw failure_at(wanted.place, "array " + wanted.name + ": " + wanted.file->string() + " " + problem.what());
  }
}

}  // namespace

std::vector<ArrayPlan> plan_arrays(const Job& job) {
  std::vector<ArrayPlan> plans(job.arrays.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const JobArray& array = job.arrays[i];
    if (array.file) {
      plans[i] = plan_file(array);
    } else if (array.shape) {
      plans[i].type = *array.type;
      plans[i].shape = *array.shape;
    }
  }
  // Follow `like` to its end, then plan backwards: each array inherits what it does not specify.
  std::vector<bool> planned(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) planned[i] = !job.arrays[i].like;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<std::size_t> way;
    for (std::size_t at = i; !planned[at]; at = *job.arrays[at].like) way.push_back(at);
    for (; !way.empty(); way.pop_back()) {
      const std::size_t at = way.back();
      const ArrayPlan& model = plans[*job.arrays[at].like];
      plans[at].type = job.arrays[at].type.value_or(model.type);
      plans[at].shape = model.shape;
      planned[at] = true;
    }
  }
  return plans;
}

std::vector<Array> make_arrays(Runtime& runtime, const Job& job, const std::vector<ArrayPlan>& plans) {
  std::vector<Array> arrays;
  arrays.reserve(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i)
    fill(job, i, plans[i], [&]() -> Array& { return arrays.emplace_back(runtime, plans[i].type, plans[i].count()); });
  return arrays;
}

void refill_arrays(const Job& job, const std::vector<ArrayPlan>& plans, std::vector<Array>& arrays) {
  for (std::size_t i = 0; i < plans.size(); ++i) fill(job, i, plans[i], [&]() -> Array& { return arrays[i]; });
}

void check_arguments(const Job& job, const JobTask& task, const Signature& signature, const std::vector<ArrayPlan>& plans) {
  const std::string& name = job.operators[task.operator_index].name;
  const std::vector<Parameter>& declared = signature.parameters();
  if (task.arguments.size() != declared.size()) {
    throw failure_at(task.place, "operator " + name + " takes " + std::to_string(declared.size()) + " arguments " + signature.text() +
                                     ", the task gives " + std::to_string(task.arguments.size()));
  }
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const JobArgument& argument = task.arguments[i];
    const std::string where = "argument " + std::to_string(i + 1) + " of operator " + name + " is " + text_of(declared[i]);
    if (const auto* const array = std::get_if<ArrayIndex>(&argument.value)) {
      const ArrayPlan& plan = plans[array->value];
      if (!fits(plan.type, declared[i])) throw failure_at(argument.place, where + ", and cannot be " + describe(job, array->value, plan));
      continue;
    }
    try {
      to_scalar(std::get<Number>(argument.value), declared[i]);
    } catch (const std::invalid_argument& problem) {
      throw failure_at(argument.place, where + ": " + problem.what());
    }
  }
}

Arguments make_arguments(const JobTask& task, const Signature& signature, const std::vector<Array>& arrays) {
  Arguments arguments;
  for (std::size_t i = 0; i < task.arguments.size(); ++i) {
    const Parameter& declared = signature.parameters()[i];
    const auto& value = task.arguments[i].value;
    if (const auto* const array = std::get_if<ArrayIndex>(&value)) {
      arguments.add(declared, arrays[array->value].view());
    } else {
      arguments.add(declared, to_scalar(std::get<Number>(value), declared));
    }
  }
  if (task.groups != 1) arguments.add(groups(task.groups));
  return arguments;
}

}  // namespace dwell::tool
