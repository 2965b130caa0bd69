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
  std::optional<std::size_t> like;  // another array of the job; without cycles
  std::optional<Shape> shape;
  std::optional<ElementType> type;
  Place place;
};

// A number in a job, as in TOML; a complex number is a list of two.
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
  std::size_t number = 1;  // from 1, in the order of the file
  std::size_t operator_index = 0;
  std::optional<std::vector<std::size_t>> after;  // indices of earlier tasks
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
  // Returns whether its first repetition is ordered after the last of the previous task.
  bool links_to_previous() const { return (link || hard_link) && !after; }
};

struct JobSwap {
  std::size_t operator_index = 0;
  std::filesystem::path source;
  std::uint64_t after = 0;  // number of tasks submitted before, fewer than all
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

  // Returns the number of tasks with their repetitions.
  std::uint64_t total_tasks() const;
  // Returns whether any task has `after`.
  bool has_after() const;
};

// Returns "a, b and c"; "none" if there are no names.
std::string enumerate(const std::vector<std::string>& names);

// Parses `text`, the content of `file`. Throws Failure, which names file and line.
Job parse_job(std::string_view text, const std::filesystem::path& file);

// Returns the content of a text file of at most 16 MiB; only of a regular file unless `kinds` allows others. Throws Failure at `place`,
// which names the file.
std::string read_text(const std::filesystem::path& file, const Place& place, FileKinds kinds = FileKinds::regular);

}  // namespace dwell::tool
