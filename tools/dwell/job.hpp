// A job: which operators run over which arrays, as a TOML file says it. Parsing resolves every name and checks all that can be checked
// without opening another file.
//
//   [operators.axpy]             # the name that DWELL_OPERATOR(axpy) defines
//   source = "axpy.hpp"          # paths are relative to the job
//
//   [arrays]
//   x = { file = "x.npy" }                      # shape and dtype may be added; the file must then agree
//   y = { like = "x" }                          # zeros, shaped like x; dtype may be added
//   z = { shape = [100, 20], dtype = "f32" }    # zeros
//
//   [[tasks]]
//   name = "scale"               # for `after` and for messages
//   after = ["load", "clear"]    # starts when all repetitions of these have succeeded, and is cancelled if one fails
//   operator = "axpy"
//   args = [2.0, "x", "y"]       # numbers, booleans, [real, imaginary], and arrays by name
//   groups = 4                   # share it among so many groups
//   repeat = 1000                # submit it so many times
//   link = true                  # each starts after the one before, and is cancelled if that fails
//   hard_link = true             # each starts after the one before, failed or not
//   drain = true                 # each starts after all before, and holds back all after
//
// Beside `after`, link and hard_link hold among the task's own repetitions. A task may stand above those that it is after, in a job where
// nothing else goes by the order of the file.
//
//   [swap]                       # once N tasks are submitted, redefine while tasks go on being submitted
//   operator = "axpy"
//   source = "axpy2.hpp"
//   after = 500
//
//   [outputs]
//   y = "y.npy"
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.hpp"
#include "element_type.hpp"
#include "failure.hpp"
#include "npy.hpp"

namespace dwell::tool {

struct JobOperator {
  std::string name;
  std::filesystem::path source;
  Place place;
};

struct JobArray {
  std::string name;
  std::optional<std::filesystem::path> file;
  std::optional<std::size_t> like;  // another array of the job, never in a circle
  std::optional<Shape> shape;
  std::optional<ElementType> type;
  Place place;
};

// A value that a job states, as TOML knows them; a complex number is a list of two.
using Number = std::variant<bool, std::int64_t, double, std::complex<double>>;

// One of the job's arrays.
struct ArrayIndex {
  std::size_t value = 0;
};

struct JobArgument {
  std::variant<Number, ArrayIndex> value;
  Place place;
};

struct JobTask {
  std::string name;        // empty: none
  std::size_t number = 1;  // in the file, from 1
  std::size_t operator_index = 0;
  std::optional<std::vector<std::size_t>> after;  // tasks of the job, all before this one
  std::vector<JobArgument> arguments;
  std::uint32_t groups = 1;
  std::uint64_t repeat = 1;
  bool link = false;
  bool hard_link = false;
  bool drain = false;
  Place place;
  Place after_place;

  // "load", or "task 2".
  std::string label() const { return name.empty() ? "task " + std::to_string(number) : name; }
  // "task 'load'", or "task 2".
  std::string title() const { return name.empty() ? label() : "task '" + name + "'"; }
  // Whether its first repetition is ordered behind the last of the task before.
  bool links_to_previous() const { return (link || hard_link) && !after; }
};

struct JobSwap {
  std::size_t operator_index = 0;
  std::filesystem::path source;
  std::uint64_t after = 0;  // tasks submitted, fewer than all
  Place place;
};

struct JobOutput {
  std::size_t array_index = 0;
  std::filesystem::path file;
  Place place;
};

struct Job {
  std::filesystem::path file;
  std::vector<JobOperator> operators;
  std::vector<JobArray> arrays;
  std::vector<JobTask> tasks;  // at least one; in the order of submission
  std::optional<JobSwap> swap;
  std::vector<JobOutput> outputs;

  // With repetitions.
  std::uint64_t total_tasks() const;
  // Whether any task has `after`.
  bool has_after() const;
};

// "a, b and c"; "none" when there are no names.
std::string enumerate(const std::vector<std::string>& names);

// `text` is the content of `file`. Throws Failure, which names file and line.
Job parse_job(std::string_view text, const std::filesystem::path& file);

// The content of a text file of 16 MiB at most, and a regular one unless the person has named it otherwise. Throws Failure at `place`
// (where the file is named).
std::string read_text(const std::filesystem::path& file, const Place& place, FileKinds kinds = FileKinds::regular);

}  // namespace dwell::tool
