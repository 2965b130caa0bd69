#include "job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dwell::tool {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kGood = R"([operators.axpy]
source = "axpy.hpp"

[arrays]
x = { file = "x.npy" }
y = { like = "x", dtype = "f64" }
z = { shape = [2, 3], dtype = "u8" }

[[tasks]]
operator = "axpy"
args = [2.5, "x", "y", true, -3]

[[tasks]]
operator = "axpy"
groups = 4
repeat = 10
link = true
drain = true

[swap]
operator = "axpy"
source = "other.hpp"
after = 10

[outputs]
y = "out/y.npy"
)";

std::string error(const std::string& text) {
  try {
    parse_job(text, "a/job.toml");
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit(), Exit::mistake);
    return failure.what();
  }
  return "none";
}

// The good job with one line replaced.
std::string with(const std::string& line, const std::string& other) {
  std::string text = kGood;
  const std::size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), other);
}

// toml++ 3.3 crashes on the first of these, and reaches undefined behaviour on the second.
TEST(Job, UnparsableTextsAreMistakes) {
  std::string key = "a";
  for (int i = 0; i < 1'000'000; ++i) key += ".a";
  EXPECT_THAT(error(key + " = 1"), StartsWith("a/job.toml:1: error: a key has more than"));
  EXPECT_THAT(error("[operators.axpy]\no\xEF\xB9\xBFperators = 1"), StartsWith("a/job.toml:2: error: a character that is not ASCII"));
}

TEST(Job, ComplexNumbersAreListsOfTwo) {
  const Job job = parse_job(with("args = [2.5,", "args = [[2, -1.5],"), "job.toml");
  EXPECT_EQ(std::get<Number>(job.tasks[0].arguments[0].value), Number(std::complex<double>(2, -1.5)));
}

TEST(Job, IsRead) {
  const Job job = parse_job(kGood, "a/job.toml");
  ASSERT_EQ(job.operators.size(), 1U);
  EXPECT_EQ(job.operators[0].name, "axpy");
  EXPECT_EQ(job.operators[0].source, "a/axpy.hpp");
  EXPECT_EQ(job.operators[0].place.text(), "a/job.toml:2");

  ASSERT_EQ(job.arrays.size(), 3U);
  EXPECT_EQ(job.arrays[0].file, "a/x.npy");
  EXPECT_EQ(job.arrays[1].like, 0U);
  EXPECT_EQ(job.arrays[1].type, ElementType::f64);
  EXPECT_EQ(job.arrays[2].shape, (Shape{2, 3}));
  EXPECT_EQ(job.arrays[2].place.line, 7U);

  ASSERT_EQ(job.tasks.size(), 2U);
  const std::vector<JobArgument>& arguments = job.tasks[0].arguments;
  ASSERT_EQ(arguments.size(), 5U);
  EXPECT_EQ(std::get<Number>(arguments[0].value), Number(2.5));
  EXPECT_EQ(std::get<ArrayIndex>(arguments[2].value).value, 1U);
  EXPECT_EQ(std::get<Number>(arguments[3].value), Number(true));
  EXPECT_EQ(std::get<Number>(arguments[4].value), Number(std::int64_t{-3}));
  EXPECT_EQ(job.tasks[0].groups, 1U);
  EXPECT_FALSE(job.tasks[0].link || job.tasks[0].hard_link || job.tasks[0].drain);
  EXPECT_EQ(job.tasks[1].groups, 4U);
  EXPECT_EQ(job.tasks[1].repeat, 10U);
  EXPECT_TRUE(job.tasks[1].link && job.tasks[1].drain && !job.tasks[1].hard_link);
  EXPECT_EQ(job.tasks[1].place.line, 13U);
  EXPECT_EQ(job.total_tasks(), 11U);

  ASSERT_TRUE(job.swap);
  EXPECT_EQ(job.swap->source, "a/other.hpp");
  EXPECT_EQ(job.swap->after, 10U);
  ASSERT_EQ(job.outputs.size(), 1U);
  EXPECT_EQ(job.outputs[0].file, "a/out/y.npy");
  EXPECT_EQ(job.outputs[0].array_index, 1U);
}

TEST(Job, MayLieInTheCurrentFolder) { EXPECT_EQ(parse_job(kGood, "job.toml").operators[0].source, "axpy.hpp"); }

TEST(Job, NamesTheLineOfAMistake) {
  const std::vector<std::tuple<std::string, std::string, int, std::string>> cases = {
      {"source = \"axpy.hpp\"", "sorce = \"axpy.hpp\"", 2, "unknown key 'sorce' in operator axpy; known are source"},
      {"source = \"axpy.hpp\"", "source = 3", 2, "'source' in operator axpy must be a string"},
      {"source = \"axpy.hpp\"", "", 1, "operator axpy has no 'source'"},
      {"source = \"axpy.hpp\"", "source = \"\"", 2, "is empty"},
      {"[arrays]", "[arays]", 4, "unknown key 'arays' in the job; known are operators, arrays, tasks, swap and outputs"},
      {"x = { file = \"x.npy\" }", "x = \"x.npy\"", 5, "array x must be a table"},
      {"x = { file = \"x.npy\" }", "x = { like = \"y\" }", 5, "array x is like itself"},
      {"x = { file = \"x.npy\" }", "x = { shape = [3] }", 5, "array x needs 'file', or 'like', or 'shape' and 'dtype'"},
      {"like = \"x\"", "like = \"w\"", 6, "there is no array 'w'; the job has x, y and z"},
      {"like = \"x\"", "like = \"x\", shape = [1]", 6, "'like' beside"},
      {"dtype = \"f64\"", "dtype = \"f65\"", 6, "dtype 'f65' is not known; known are f16, bf16, f32"},
      {"shape = [2, 3]", "shape = [2, -3]", 7, "integers from 0 on"},
      {"shape = [2, 3]", "shape = [9223372036854775807, 9]", 7, "too large"},
      {"shape = [2, 3]", "shape = 6", 7, "must be an array"},
      {"operator = \"axpy\"", "operator = \"axpi\"", 10, "there is no operator 'axpi'; the job has axpy"},
      {"args = [2.5,", "args = [\"w\",", 11, "there is no array 'w'"},
      {"args = [2.5,", "args = [[1],", 11, "may hold numbers"},
      {"args = [2.5,", "argz = [2.5,", 11,
       "unknown key 'argz' in task 1; known are name, after, operator, args, groups, repeat, link, hard_link and drain"},
      {"groups = 4", "groups = 0", 15, "between 1 and 65535"},
      {"groups = 4", "groups = 65536", 15, "between 1 and 65535"},
      {"repeat = 10", "repeat = 0", 16, "'repeat' in task 2 is 0"},
      {"repeat = 10", "repeat = 1.5", 16, "must be an integer"},
      {"link = true", "link = 1", 17, "must be true or false"},
      {"source = \"other.hpp\"", "", 20, "swap has no 'source'"},
      {"after = 10", "", 20, "swap has no 'after'"},
      {"after = 10", "after = 11", 23, "after 11 tasks, and the job has only 11"},
      {"after = 10", "after = -1", 23, "'after' in swap is -1"},
      {"y = \"out", "w = \"out", 26, "there is no array 'w'"},
      {"y = \"out/y.npy\"", "y = \"out/y.npy\"\nz = \"out/../out/y.npy\"", 27, "two outputs"},
      {"link = true", "link = yes", 17, ""},
      {"link = true", "groups = 5", 17, ""},
  };
  for (const auto& [line, other, number, message] : cases) {
    const std::string text = error(with(line, other));
    EXPECT_THAT(text, StartsWith("a/job.toml:" + std::to_string(number) + ": error: ")) << other;
    EXPECT_THAT(text, HasSubstr(message)) << other;
  }
}

std::string tasks(const std::string& list) { return "tasks = [\n" + list + "]\n[operators]\nf = { source = \"f.hpp\" }\n"; }

TEST(Job, OrdersTasksBehindThoseThatTheyAreAfter) {
  const Job job = parse_job(tasks("{ operator = 'f', after = ['c', 'b'] },\n"
                                  "{ operator = 'f', name = 'a' },\n"
                                  "{ operator = 'f', name = 'b', after = ['c'], link = true },\n"
                                  "{ operator = 'f', name = 'c', after = [] },\n"),
                            "job.toml");
  ASSERT_EQ(job.tasks.size(), 4U);
  EXPECT_TRUE(job.has_after());
  const std::vector<std::string> titles = {"task 'a'", "task 'c'", "task 'b'", "task 1"};
  for (std::size_t i = 0; i < titles.size(); ++i) EXPECT_EQ(job.tasks[i].title(), titles[i]);
  EXPECT_FALSE(job.tasks[0].after);
  EXPECT_EQ(job.tasks[1].after, std::vector<std::size_t>());
  EXPECT_EQ(job.tasks[2].after, std::vector<std::size_t>{1});
  EXPECT_EQ(job.tasks[3].after, (std::vector<std::size_t>{1, 2}));
  EXPECT_FALSE(job.tasks[2].links_to_previous());
  EXPECT_FALSE(parse_job(kGood, "job.toml").has_after());
}

TEST(Job, NamesTheTasksOfACycle) {
  EXPECT_EQ(error(tasks("{ operator = 'f', name = 'x', after = ['c'] },\n"
                        "{ operator = 'f', name = 'b', after = ['y', 'c'] },\n"
                        "{ operator = 'f', name = 'c', after = ['b'] },\n"
                        "{ operator = 'f', name = 'y' },\n")),
            "a/job.toml:3: error: task 'b' would wait for itself: 'b' is after 'c' is after 'b': take one of them out");
}

TEST(Job, MustNotBeEmpty) {
  for (const char* const text : {"", "tasks = []", "[operators.a]\nsource = \"a\""})
    EXPECT_EQ(error(text), "a/job.toml:1: error: the job is empty: it has no [[tasks]]");
  EXPECT_EQ(error("tasks = [1]"), "a/job.toml:1: error: task 1 must be a table");
}

// toml++ takes for granted that a name follows the brackets.
TEST(Job, WhatTomlDoesNotExpectIsAMistake) { EXPECT_EQ(error("[[[a]]]"), "a/job.toml: error: this is no valid TOML"); }

TEST(Job, ReadsTextFiles) {
  EXPECT_THROW(read_text("/nowhere/to/be/found", {"job.toml", 3}), Failure);
  EXPECT_THROW(read_text("/", {"job.toml", 3}), Failure);
  EXPECT_EQ(read_text("/dev/null", {"job.toml", 3}, FileKinds::any), "");
}

TEST(Job, ReadsNothingThatNeverEnds) {
  const auto error_of = [](const char* file, FileKinds kinds) {
    try {
      static_cast<void>(read_text(file, {"job.toml", 3}, kinds));
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of("/dev/zero", FileKinds::regular), "job.toml:3: error: cannot read /dev/zero: it is not a regular file");
  EXPECT_EQ(error_of("/dev/zero", FileKinds::any), "job.toml:3: error: cannot read /dev/zero: it is longer than 16777216 bytes");
}

}  // namespace
}  // namespace dwell::tool
