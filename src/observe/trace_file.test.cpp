#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>

#include <dwell/trace.hpp>

#include "jit/base/temporary_directory.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/sample_trace.hpp"

namespace dwell {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::filesystem::path kFull = "/dev/full";

// A file name in either format, on a full disk.
class TraceFileOnAFullDisc : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFull)) GTEST_SKIP() << "no " << kFull;
    path_ = folder_.path() / GetParam();
    std::filesystem::create_symlink(kFull, path_);
  }

  // Expects `call` to fail with the file's name and the reason.
  void expect_full(const std::function<void()>& call) const {
    DWELL_EXPECT_ERROR(call(), errc::io_failed, AllOf(HasSubstr(path_.string()), HasSubstr("No space left")));
  }

  std::filesystem::path path_;

 private:
  jit::TemporaryDirectory folder_;
};
INSTANTIATE_TEST_SUITE_P(Formats, TraceFileOnAFullDisc, testing::Values("work.json", "work.pftrace"),
                         [](const auto& format) { return std::filesystem::path(format.param).extension().string().substr(1); });

TEST_P(TraceFileOnAFullDisc, SmallTracesFailAtFinish) {
  const std::unique_ptr<TraceWriter> writer = trace_file(path_);
  expect_full([&] {
    writer->write(test::sample_trace()[0]);  // may stay in the buffer
    writer->finish();
  });
}

TEST_P(TraceFileOnAFullDisc, LargeTracesFailAtWrite) {
  const std::unique_ptr<TraceWriter> writer = trace_file(path_);
  Trace piece = test::sample_trace()[0];
  const TraceEvent event = piece.events.at(0);
  piece.events.assign(10'000, event);
  expect_full([&] { writer->write(piece); });
  expect_full([&] { writer->write(test::sample_trace()[0]); });
  expect_full([&] { writer->finish(); });
}

TEST_P(TraceFileOnAFullDisc, ErrorHasTheReasonOfTheWrite) {
  const std::unique_ptr<TraceWriter> writer = trace_file(path_);
  Trace piece = test::sample_trace()[0];
  const TraceEvent event = piece.events.at(0);
  piece.events.assign(10'000, event);
  expect_full([&] { writer->write(piece); });
  errno = EAGAIN;  // as left by an unrelated call
  expect_full([&] { writer->finish(); });
}

TEST(TraceFile, InvalidNameIsRefused) {
  DWELL_EXPECT_ERROR(static_cast<void>(trace_file("/tmp/" + std::string(300, 'x'))), errc::io_failed, HasSubstr("too long"));
}

TEST(TraceFile, OldFileStaysUntilTheFirstPiece) {
  const jit::TemporaryDirectory folder;
  const std::filesystem::path path = folder.path() / "work.json";
  const auto content = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  static_cast<void>(trace_file(path));
  EXPECT_FALSE(std::filesystem::exists(path)) << "no trace, no file";
  std::ofstream(path) << "another's";
  static_cast<void>(trace_file(path));
  EXPECT_EQ(content(), "another's");
  const std::unique_ptr<TraceWriter> writer = trace_file(path);
  writer->write(test::sample_trace()[0]);
  writer->finish();
  EXPECT_TRUE(content().starts_with('{')) << content();
}

}  // namespace
}  // namespace dwell
