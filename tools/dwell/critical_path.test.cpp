#include "critical_path.hpp"

#include <string>

#include <gtest/gtest.h>

namespace dwell::tool {
namespace {

// "a c 7 ns": labels and the sum.
std::string path(const std::string& tasks, const std::vector<int>& times) {
  const Job job = parse_job("tasks = [" + tasks + "]\n[operators]\nf = { source = 'f.hpp' }\n", "job.toml");
  const CriticalPath found = critical_path(job, {times.begin(), times.end()});
  std::string text;
  for (const std::size_t task : found.tasks) text += job.tasks[task].label() + ' ';
  return text + std::to_string(found.time.count()) + " ns";
}

TEST(CriticalPath, IsTheLongestSumNotTheMostTasks) {
  const std::string diamond = R"({ name = "a", operator = "f" }, { name = "b", operator = "f", after = ["a"] },
    { name = "c", operator = "f", after = ["a"] }, { name = "d", operator = "f", after = ["b", "c"] }, { name = "e", operator = "f" })";
  EXPECT_EQ(path(diamond, {1, 2, 3, 4, 7}), "a c d 8 ns");
  EXPECT_EQ(path(diamond, {1, 3, 2, 4, 7}), "a b d 8 ns");
  EXPECT_EQ(path(diamond, {1, 3, 2, 4, 9}), "e 9 ns");
}

TEST(CriticalPath, GoesByLinksToo) {
  const std::string rest = R"({ name = "b", operator = "f" }, { name = "c", operator = "f" , )";
  EXPECT_EQ(path(R"({ name = "a", operator = "f" }, )" + rest + "link = true }", {5, 1, 2}), "a 5 ns");
  EXPECT_EQ(path(R"({ name = "a", operator = "f" }, )" + rest + "hard_link = true }", {2, 1, 2}), "b c 3 ns");
  EXPECT_EQ(path(R"({ name = "a", operator = "f" }, )" + rest + "link = true, after = ['a'] }", {3, 1, 2}), "a c 5 ns");
}

TEST(CriticalPath, GoesByDrains) {
  const std::string tasks = R"({ name = "a", operator = "f" }, { name = "b", operator = "f" },
    { name = "c", operator = "f", drain = true }, { name = "d", operator = "f" }, { name = "e", operator = "f", after = ["a"] })";
  EXPECT_EQ(path(tasks, {5, 3, 1, 2, 1}), "a c d 8 ns");
  EXPECT_EQ(path(tasks, {5, 6, 1, 2, 3}), "b c e 10 ns");
}

TEST(CriticalPath, HasATaskWhenAllTakeNoTime) { EXPECT_EQ(path("{ operator = 'f', after = [] }", {0}), "task 1 0 ns"); }

}  // namespace
}  // namespace dwell::tool
