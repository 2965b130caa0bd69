#include "runtime/observe/host_events.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

namespace dwell::runtime {
namespace {

using Kind = TraceEvent::Kind;

TEST(HostEvents, RecordsEventsOfATimeline) {
  HostEvents events;
  { const HostSpan unseen(&events, Kind::park); }
  events.want(true);
  { const HostSpan span(&events, Kind::compile, "axpy"); }
  std::vector<HostEvents::Event> all;
  EXPECT_EQ(events.take(all), 0U);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all.front().kind, Kind::compile);
  ASSERT_NE(all.front().details, nullptr);
  EXPECT_EQ(all.front().details->name, "axpy");
  EXPECT_FALSE(all.front().failed);
  EXPECT_EQ(all.front().thread, static_cast<std::uint32_t>(::gettid()));
  EXPECT_EQ(events.take(all), 0U);
  EXPECT_TRUE(all.empty());
}

TEST(HostEvents, FollowingEventsBeginAtThePreviousEnd) {
  const auto follow = [](HostEvents& events) { const HostSpan span(&events, Kind::submit, {}, true); };
  HostEvents events;
  HostEvents others;
  events.want(true);
  others.want(true);
  const std::int64_t begun = HostEvents::now();
  follow(events);  // nothing before it
  follow(events);
  std::vector<HostEvents::Event> all;
  events.take(all);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_GE(all[0].begin_ns, begun);
  EXPECT_EQ(all[1].begin_ns, all[0].begin_ns + all[0].took_ns);
  EXPECT_GE(all[1].took_ns, 0);
  const std::int64_t before = HostEvents::now();
  follow(others);
  others.take(all);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_GE(all[0].begin_ns, before) << "the last one was another runtime's";
  follow(events);
  events.want(false);
  events.want(true);
  const std::int64_t again = HostEvents::now();
  events.take(all);
  follow(events);
  events.take(all);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_GE(all[0].begin_ns, again) << "the last one was another timeline's";
}

TEST(HostEvents, ExceptionMarksAnEventAsFailed) {
  HostEvents events;
  events.want(true);
  try {
    const HostSpan span(&events, Kind::define);
    throw std::runtime_error("no such file");
  } catch (const std::runtime_error&) {
    const HostSpan behind(&events, Kind::define);
  }
  std::vector<HostEvents::Event> all;
  events.take(all);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_TRUE(all.front().failed);
  EXPECT_FALSE(all.back().failed);
}

TEST(HostEvents, TheOldestAreDropped) {
  HostEvents events;
  events.want(true);
  for (std::uint64_t i = 0; i < HostEvents::kMost + 5; ++i) events.note(Kind::submit, 0, i);
  std::vector<HostEvents::Event> all;
  EXPECT_EQ(events.take(all), 5U);
  ASSERT_EQ(all.size(), HostEvents::kMost);
  EXPECT_EQ(all.front().id, 5U);
  EXPECT_EQ(all.back().id, HostEvents::kMost + 4);
  events.note(Kind::submit, 0, 17);
  EXPECT_EQ(events.take(all), 0U);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all.front().id, 17U);
}

TEST(HostEvents, AForkedThreadIsAnother) {
  HostEvents events;
  events.note(Kind::mark, 0, 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    events.note(Kind::mark, 0, 1);
    std::vector<HostEvents::Event> all;
    events.take(all);
    ::_exit(all.size() == 2 && all.back().thread == static_cast<std::uint32_t>(::gettid()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace dwell::runtime
