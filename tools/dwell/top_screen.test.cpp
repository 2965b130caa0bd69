#include "top_screen.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/unit/live.hpp"

namespace dwell::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TopState state_of(Metering metering) {
  TopState state;
  state.pid = 12;
  state.uptime = std::chrono::seconds(93723);
  state.runtimes = {1};
  state.runtime = 1;
  state.take(test::metrics_after(2, metering));
  state.take(test::metrics_after(4, metering));
  return state;
}

std::vector<std::string> picture(const TopState& state, std::size_t width, std::optional<std::size_t> height) {
  std::vector<std::string> lines;
  for (const Line& line : render(state, width, height)) lines.push_back(line.text());
  return lines;
}

TEST(TopScreen, CountsAlone) {
  EXPECT_THAT(picture(state_of(Metering::counts), 80, 14),
              ElementsAre("dwell top   process 12   runtime 1   cpu   2 workers   up 1 d 02:02:03",          //
                          "tasks/s 1.01 k   leases/s 900   parks 5   images 3   ring full 0",                //
                          "ring  [||||||||                64/256]  queue [|                       12/256]",  //
                          "workers by tasks, of the busiest one's   metering counts",                        //
                          "@.",                                                                              //
                          "",                                                                                //
                          " TASKS/s*  FAILED      P50      P99     MEAN   TIME VERSION OPERATOR",            //
                          "   1.00 k       0        -        -        -      -       2 axpy",                //
                          "     10.0       3        -        -        -      -       1 zip",                 //
                          "", "", "", "",                                                                    //
                          "q quit  h help  space pause  left/right sort  up/down scroll"));
}

TEST(TopScreen, Times) {
  const std::vector<std::string> lines = picture(state_of(Metering::times), 80, 20);
  EXPECT_EQ(lines.size(), 20U);
  EXPECT_EQ(lines[3], "workers 0.6 % busy   metering times");
  EXPECT_THAT(lines[7], testing::MatchesRegex(" +1.00 k +0 +[12][.0-9]+ us +[12][.0-9]+ us +2.00 us +0.1 % +2 axpy"));
  EXPECT_THAT(lines[8], testing::MatchesRegex(" +10.0 +3 +[.0-9]+ .s +[.0-9]+ .s +1.00 ms +0.5 % +1 zip"));
}

TEST(TopScreen, BeforeTheSecondSnapshotThereAreNoRates) {
  TopState state;
  EXPECT_EQ(picture(state, 80, 5).size(), 5U);
  state.take(test::metrics_after(2));
  const std::vector<std::string> lines = picture(state, 80, std::nullopt);
  EXPECT_THAT(lines[1], HasSubstr("tasks/s -"));
  EXPECT_THAT(lines.back(), testing::MatchesRegex(" +- +3 +- +- +- +- +1 zip"));
}

TEST(TopScreen, EveryLineFitsWhateverTheSize) {
  TopState state = state_of(Metering::times);
  state.take(std::vector<LogRecord>(20, test::log_line(std::string(300, 'x'))));
  state.blocks = true;
  for (const bool help : {false, true}) {
    state.help = help;
    for (std::size_t width = 1; width < 200; width += 7) {
      for (std::size_t height = 1; height < 60; height += 3) {
        const std::vector<Line> lines = render(state, width, height);
        EXPECT_EQ(lines.size(), height);
        for (const Line& line : lines) EXPECT_LE(line.columns(), width);
      }
    }
  }
}

TEST(TopScreen, ManyWorkersShareCharacters) {
  TopState state;
  state.runtime = 1;
  Metrics snapshot = test::metrics_after(1);
  snapshot.workers.assign(1000, {});
  state.take(snapshot);
  snapshot.at += std::chrono::seconds(1);
  for (std::size_t i = 0; i < 500; ++i) snapshot.workers[i].busy_ns = 1'000'000'000;
  state.take(snapshot);
  const std::vector<std::string> lines = picture(state, 100, std::nullopt);
  EXPECT_EQ(lines[3], "workers 50.0 % busy   metering times   a character for 3");
  EXPECT_EQ(lines[4], std::string(100, '@'));
  EXPECT_EQ(lines[5], std::string(66, '@') + "+") << "two of three are busy";
  EXPECT_EQ(lines[8], "") << "333 characters are four lines";
}

TEST(TopScreen, TheTableScrolls) {
  TopState state = state_of(Metering::counts);
  state.scroll = 1;
  EXPECT_THAT(picture(state, 80, 14)[7], HasSubstr("zip"));
  EXPECT_THAT(picture(state, 80, std::nullopt)[7], HasSubstr("axpy")) << "all of it is shown";
}

TEST(TopScreen, TheLogStandsBelow) {
  TopState state = state_of(Metering::counts);
  state.take({test::log_line("first"), test::log_line("a\x1b[2Jb", level::error)});
  const std::vector<Line> lines = render(state, 120, 20);
  EXPECT_THAT(lines[17].text(), HasSubstr("first"));
  EXPECT_THAT(lines[18].text(), HasSubstr("a?[2Jb"));
  EXPECT_THAT(lines[18].styled(true), testing::StartsWith("\x1b[1;31m"));
}

TEST(TopScreen, NamesOfOperatorsCannotDraw) {
  TopState state = state_of(Metering::counts);
  state.now->operators[0].name = "evil\x1b[2J";
  for (const Line& line : render(state, 120, 20)) EXPECT_THAT(line.styled(true), Not(HasSubstr("\x1b[2J")));
}

TEST(TopScreen, HelpAndWhatElseIsSaid) {
  TopState state = state_of(Metering::counts);
  state.paused = true;
  state.notice = "does not answer";
  state.runtimes = {1, 2};
  EXPECT_THAT(picture(state, 200, 20)[0], testing::AllOf(HasSubstr("paused"), HasSubstr("does not answer"), HasSubstr("runtime 1 of 2")));
  EXPECT_THAT(picture(state, 200, 20).back(), HasSubstr("tab runtime"));
  state.help = true;
  EXPECT_THAT(picture(state, 80, 20), testing::Contains(HasSubstr("sort by tasks/s")));
}

}  // namespace
}  // namespace dwell::tool
