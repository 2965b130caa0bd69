#include "runtime/observe/log_sink.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

#include <dwell/error.hpp>

#include "runtime/observe/log_memory.hpp"
#include "runtime/observe/site_limit.hpp"
#include "tests/unit/expect_error.hpp"

namespace dwell::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class LogSinkTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/log"; }
  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }
  static LogRecord record(const std::string& text) {
    LogRecord record;
    record.text = text;
    record.op = "op (version 1)";
    return record;
  }
  LogSink::Warn warn() {
    return [this](std::string_view text) { warnings_.emplace_back(text); };
  }

  const std::string folder_ = testing::TempDir() + "dwell_log_sink_" + std::to_string(getpid());
  std::vector<std::string> warnings_;
};

TEST_F(LogSinkTest, FullFileIsRotated) {
  RotatedFile file(path(), 10, 3);
  for (const char* const text : {"1111\n", "2222\n", "3333\n", "4444\n", "5555555555555555\n", "6666\n"}) EXPECT_EQ(file.write(text), "");
  EXPECT_EQ(content(path()), "6666\n");
  EXPECT_EQ(content(path() + ".1"), "5555555555555555\n") << "what is written at once stays together";
  EXPECT_EQ(content(path() + ".2"), "3333\n4444\n");
  EXPECT_EQ(files(), 3U);
}

TEST_F(LogSinkTest, SingleFileIsTruncated) {
  RotatedFile file(path(), 10, 1);
  for (const char* const text : {"1111\n", "2222\n", "3333\n"}) EXPECT_EQ(file.write(text), "");
  EXPECT_EQ(content(path()), "3333\n");
  EXPECT_EQ(files(), 1U);
}

TEST_F(LogSinkTest, ExistingFileIsAppendedTo) {
  RotatedFile(path(), 0, 1).write("1111\n");
  RotatedFile(path(), 0, 1).write("2222\n");
  EXPECT_EQ(content(path()), "1111\n2222\n");
  RotatedFile(path(), 10, 2).write("3333\n");
  EXPECT_EQ(content(path()), "3333\n") << "its size counts";
}

TEST_F(LogSinkTest, AFileThatCannotBeOpenedIsRefused) {
  DWELL_EXPECT_ERROR(RotatedFile(folder_ + "/none/log", 0, 1), errc::invalid_argument, HasSubstr("No such file"));
}

TEST_F(LogSinkTest, FullDiskIsReportedOnce) {
  Logging logging;
  logging.file = "/dev/full";
  LogSink sink(logging, warn());
  for (int i = 0; i < 3; ++i) {
    sink.take(record("lost"));
    sink.flush();
  }
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], testing::AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
}

// As root, renaming would remove the device from the machine.
TEST_F(LogSinkTest, DeviceIsNeverRotated) {
  std::filesystem::create_symlink("/dev/null", path());
  RotatedFile file(path(), 10, 2);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(file.write("1111\n"), "");
  EXPECT_TRUE(std::filesystem::is_symlink(path()));
  EXPECT_EQ(files(), 1U);
}

TEST_F(LogSinkTest, PipeWithoutReaderIsRefused) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  DWELL_EXPECT_ERROR(RotatedFile(path(), 0, 1), errc::invalid_argument, HasSubstr("nobody reads this pipe"));
}

TEST_F(LogSinkTest, LineWithoutSpaceLeavesNoPart) {
  RotatedFile file(path(), 0, 1);
  EXPECT_EQ(file.write("first\n"), "");
  rlimit64 now{};
  ASSERT_EQ(getrlimit64(RLIMIT_FSIZE, &now), 0);
  rlimit64 less = now;
  less.rlim_cur = 10;
  auto* const before = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit64(RLIMIT_FSIZE, &less), 0);
  const std::string failure = file.write("second\n");
  setrlimit64(RLIMIT_FSIZE, &now);
  std::signal(SIGXFSZ, before);
  EXPECT_THAT(failure, HasSubstr("too large"));
  EXPECT_EQ(file.write("third\n"), "");
  EXPECT_EQ(content(path()), "first\nthird\n");
}

TEST_F(LogSinkTest, ThrowingCallbackIsReportedOnceAndGetsAllLines) {
  Logging logging;
  int lines = 0;
  logging.sink = [&](const LogRecord&) {
    ++lines;
    throw std::runtime_error("the callback's own");
  };
  logging.file = path();
  LogSink sink(logging, warn());
  sink.take(record("one"));
  sink.take(record("two"));
  sink.flush();
  EXPECT_EQ(lines, 2);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("the callback's own"));
  EXPECT_THAT(content(path()), testing::ContainsRegex("info op .version 1. worker 0: one\n.*info op .version 1. worker 0: two\n"));
}

TEST_F(LogSinkTest, LinesGoToStderrByDefault) {
  LogSink sink(Logging{}, warn());
  testing::internal::CaptureStderr();
  sink.take(record("said aloud"));
  sink.flush();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::EndsWith(" info op (version 1) worker 0: said aloud\n"));
}

TEST_F(LogSinkTest, KeptLinesDropTheOldest) {
  LogMemory memory(2);
  for (const char* const text : {"a", "b", "c"}) memory.add(record(text));
  std::uint64_t at = 0;
  const auto first = memory.next(at, {});
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->text, "b");
  EXPECT_EQ(at, 1U) << "the number of what was found";
  at = 0;
  EXPECT_EQ(memory.page(at, 1).size(), 1U);
  EXPECT_EQ(at, 2U);
  EXPECT_EQ(memory.page(at, 10).front().text, "c");
  EXPECT_EQ(at, 3U);
  EXPECT_TRUE(memory.page(at, 10).empty());
  EXPECT_FALSE(memory.next(at, {}).has_value());
  memory.end();
  EXPECT_FALSE(memory.next(at, std::chrono::steady_clock::time_point::max()).has_value()) << "nothing comes any more";
}

TEST_F(LogSinkTest, ALimitCountsByOperatorAndFormat) {
  LogLine line;
  line.op = std::make_shared<const std::string>("op (version 1)");
  line.format = std::make_shared<const std::string>("{}");
  LogLine other = line;
  other.op = std::make_shared<const std::string>("op (version 2)");
  SiteLimit limit(2);
  const auto start = SiteLimit::Clock::now();
  EXPECT_TRUE(limit.admits(line, start));
  EXPECT_TRUE(limit.admits(line, start));
  EXPECT_FALSE(limit.admits(line, start));
  EXPECT_FALSE(limit.admits(line, start));
  EXPECT_TRUE(limit.admits(other, start));
  std::vector<std::uint64_t> told;
  const auto tell = [&](const LogLine&, std::uint64_t count) { told.push_back(count); };
  limit.end_seconds(start + std::chrono::milliseconds(999), tell);
  EXPECT_THAT(told, ElementsAre());
  EXPECT_TRUE(limit.owes());
  limit.end_seconds(start + std::chrono::seconds(1), tell);
  EXPECT_THAT(told, ElementsAre(2U));
  EXPECT_FALSE(limit.owes());
  EXPECT_TRUE(limit.admits(line, start + std::chrono::seconds(1)));
}

}  // namespace
}  // namespace dwell::runtime
