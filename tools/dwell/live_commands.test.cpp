#include "live_commands.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <dwell/error.hpp>

#include "live/published.hpp"
#include "tests/unit/live.hpp"

namespace dwell::tool {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class LiveCommands : public test::LiveTest {
 protected:
  LiveCommands() {
    source_.runtime = 1;
    source_.metrics = [] { return test::metrics_after(5); };
    source_.diagnose = [this] {
      Diagnosis diagnosis = test::diagnosis_of_two();
      diagnosis.stalled = stalled_;
      if (!stalled_) diagnosis.cycles.clear();
      return diagnosis;
    };
    source_.logs = [this](std::uint64_t after, std::size_t most, std::uint64_t* next) {
      std::vector<LogRecord> lines;
      for (; after < lines_ && lines.size() < most; ++after)
        lines.push_back(test::log_line("line " + std::to_string(after + 1) + ".", after % 2 == 0 ? level::info : level::error));
      *next = after;
      return lines;
    };
    source_.inspect = [](std::string_view name) {
      if (name != "axpy") throw Error(errc::invalid_argument, "there is no operator " + std::string(name));
      return std::string("axpy has two versions");
    };
    source_.trace = [this](std::chrono::nanoseconds time, TraceWriter& writer) {
      asked_ = time;
      Trace piece;
      piece.device = "cpu";
      piece.names = {"the name of a task"};
      piece.events = {TraceEvent{.begin_ns = 1, .took_ns = 1, .worker = 0, .name = 0}};
      piece.dropped = dropped_ / 2;
      writer.write(piece);
      piece.dropped = dropped_ - dropped_ / 2;
      writer.write(piece);
      if (trace_fails_) throw Error(errc::device_lost, "the device is lost");
    };
  }

  static std::string failure_of(const std::function<void(std::ostream&)>& command) {
    std::ostringstream out;
    try {
      command(out);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.exit(), Exit::mistake);
      return failure.what();
    } catch (const Error& error) {
      return error.message();
    }
    return "none";
  }
  static std::string content(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  live::Source source_;
  std::atomic<bool> stalled_{true};
  std::atomic<std::uint64_t> lines_{2500};
  std::chrono::nanoseconds asked_{0};
  bool trace_fails_ = false;
  std::uint64_t dropped_ = 0;
};

TEST_F(LiveCommands, TraceWritesAFile) {
  const live::Published published(source_, {});
  TraceOptions options;
  options.seconds = 0.25;
  options.output = root_ / "trace";
  std::ostringstream out;
  EXPECT_EQ(trace_command(options, out), Exit::success);
  EXPECT_EQ(asked_, 250ms);
  EXPECT_THAT(content(options.output), HasSubstr("the name of a task"));
  EXPECT_THAT(out.str(), HasSubstr("https://ui.perfetto.dev"));
  options.output = "-";
  options.format = "chrome";
  std::ostringstream trace;
  trace_command(options, trace);
  EXPECT_THAT(trace.str(), HasSubstr("the name of a task"));
}

TEST_F(LiveCommands, TraceSaysHowManyEventsAreMissing) {
  dropped_ = 12'345;
  const live::Published published(source_, {});
  TraceOptions options;
  options.seconds = 0.25;
  options.output = root_ / "trace";
  std::ostringstream out;
  EXPECT_EQ(trace_command(options, out), Exit::success);
  EXPECT_THAT(out.str(), HasSubstr("\ndwell: 12,345 events are missing in the trace"));
  options.output = "-";
  options.format = "chrome";
  std::ostringstream trace;
  testing::internal::CaptureStderr();
  trace_command(options, trace);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("12,345 events are missing"));
  EXPECT_THAT(trace.str(), Not(HasSubstr("12,345 events"))) << "the trace is what a program reads";
  dropped_ = 0;
  out.str({});
  options.output = root_ / "trace";
  trace_command(options, out);
  EXPECT_THAT(out.str(), Not(HasSubstr("missing")));
}

TEST_F(LiveCommands, ATraceThatFailsLeavesNoFile) {
  trace_fails_ = true;
  const live::Published published(source_, {});
  TraceOptions options;
  options.output = root_ / "trace";
  const auto trace = [&](std::ostream& out) { trace_command(options, out); };
  EXPECT_THAT(failure_of(trace), HasSubstr("the device is lost"));
  EXPECT_FALSE(std::filesystem::exists(options.output));
  options.format = "text";
  EXPECT_THAT(failure_of(trace), HasSubstr("'text' is no format"));
  options.format = "chrome";
  options.output = root_ / "missing" / "trace";
  EXPECT_THAT(failure_of(trace), HasSubstr("cannot write"));
}

TEST_F(LiveCommands, LogsPrintsWhatIsThere) {
  const live::Published published(source_, {});
  const auto logs = [](const LogsOptions& options) {
    std::ostringstream out;
    EXPECT_EQ(logs_command(options, out), Exit::success);
    return out.str();
  };
  const std::string all = logs({});
  EXPECT_EQ(std::ranges::count(all, '\n'), 2500);
  EXPECT_THAT(all, testing::AllOf(HasSubstr("line 1."), HasSubstr("line 2500.")));
  const std::string last = logs({.lines = 3});
  EXPECT_EQ(std::ranges::count(last, '\n'), 3);
  EXPECT_THAT(last, testing::AllOf(HasSubstr("line 2498."), HasSubstr("line 2500."), Not(HasSubstr("line 2497."))));
  const std::string errors = logs({.level = "error"});
  EXPECT_THAT(errors, testing::AllOf(HasSubstr("line 2."), Not(HasSubstr("line 1."))));
  EXPECT_THAT(failure_of([](std::ostream& out) { logs_command({.level = "loud"}, out); }), HasSubstr("'loud' is no level"));
}

TEST_F(LiveCommands, LogsFollowsUntilTheRuntimeIsClosed) {
  lines_ = 1;
  std::optional<live::Published> published(std::in_place, source_, nullptr);
  std::ostringstream out;
  auto follows = std::async(std::launch::async, [&] { return logs_command({.follow = true}, out); });
  std::this_thread::sleep_for(100ms);
  lines_ = 3;
  std::this_thread::sleep_for(600ms);
  published.reset();
  EXPECT_EQ(follows.get(), Exit::success);
  EXPECT_EQ(std::ranges::count(out.str(), '\n'), 3);
}

TEST_F(LiveCommands, LogsSaysHowManyLinesItHasMissed) {
  std::atomic<int> looks{0};
  source_.logs = [&](std::uint64_t after, std::size_t, std::uint64_t* next) {
    // At the first look those before line 3 are gone, which nobody has asked for; at the second those before line 1,201.
    const bool first = looks++ == 0;
    after = std::max<std::uint64_t>(after, first ? 2 : 1200);
    std::vector<LogRecord> lines;
    for (; after < (first ? 5U : 1201U); ++after) lines.push_back(test::log_line("line " + std::to_string(after + 1) + ".", level::info));
    *next = after;
    return lines;
  };
  std::optional<live::Published> published(std::in_place, source_, nullptr);
  std::ostringstream out;
  auto follows = std::async(std::launch::async, [&] { return logs_command({.follow = true}, out); });
  while (looks < 4) std::this_thread::sleep_for(1ms);
  published.reset();
  EXPECT_EQ(follows.get(), Exit::success);
  EXPECT_EQ(std::ranges::count(out.str(), '\n'), 5) << out.str();
  EXPECT_LT(out.str().find("line 5."), out.str().find("1,195 lines are missing here"));
  EXPECT_LT(out.str().find("1,195 lines are missing here"), out.str().find("line 1201."));
}

TEST_F(LiveCommands, MetricsPrintsWhatTheLibraryWrites) {
  const live::Published published(source_, {});
  const auto metrics = [](const MetricsOptions& options) {
    std::ostringstream out;
    EXPECT_EQ(metrics_command(options, out), Exit::success);
    return out.str();
  };
  EXPECT_EQ(metrics({}), to_openmetrics(test::metrics_after(5)));
  EXPECT_EQ(metrics({.format = "json"}), to_json(test::metrics_after(5)) + "\n");
  EXPECT_THAT(failure_of([](std::ostream& out) { metrics_command({.format = "text"}, out); }), HasSubstr("'text' is no format"));
  EXPECT_THAT(failure_of([](std::ostream& out) { metrics_command({.look = {.runtime = 2}}, out); }), HasSubstr("has the runtimes 1"));
}

TEST_F(LiveCommands, MetricsSaysWhoPublishesNothing) {
  EXPECT_THAT(failure_of([](std::ostream& out) { metrics_command({}, out); }), HasSubstr("no process of yours runs dwell"));
}

TEST_F(LiveCommands, InspectPrintsWhatIsKnown) {
  const live::Published published(source_, {});
  std::ostringstream out;
  EXPECT_EQ(inspect_command({}, "axpy", out), Exit::success);
  EXPECT_EQ(out.str(), "axpy has two versions\n");
  EXPECT_THAT(failure_of([](std::ostream& to) { inspect_command({}, "zip", to); }), HasSubstr("there is no operator zip"));
}

TEST_F(LiveCommands, StuckSaysWhoWaits) {
  const live::Published published(source_, {});
  std::ostringstream out;
  EXPECT_EQ(stuck_command({}, out), Exit::failed);
  EXPECT_THAT(out.str(), HasSubstr("2 tasks are not complete"));
  stalled_ = false;
  EXPECT_EQ(stuck_command({}, out), Exit::success);
}

TEST_F(LiveCommands, OneOfSeveralRuntimesIsToBeNamed) {
  const live::Published one(source_, {});
  source_.runtime = 2;
  const live::Published two(source_, {});
  EXPECT_THAT(failure_of([](std::ostream& out) { logs_command({}, out); }), HasSubstr("has the runtimes 1, 2"));
  std::ostringstream out;
  EXPECT_EQ(inspect_command({.runtime = 2}, "axpy", out), Exit::success);
  stuck_command({}, out);
  EXPECT_THAT(out.str(), testing::AllOf(HasSubstr("runtime 1: "), HasSubstr("runtime 2: ")));
}

}  // namespace
}  // namespace dwell::tool
