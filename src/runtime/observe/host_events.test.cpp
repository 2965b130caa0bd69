#include "runtime/observe/host_events.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace dwell::runtime {
namespace {

using Kind = TraceEvent::Kind;

TEST(HostEvents, NotesWhatATimelineWants) {
  HostEvents events;
  { const HostSpan unseen(&events, Kind::park); }
  events.want(true);
  { const HostSpan span(&events, Kind::compile, "axpy"); }
  const auto [all, dropped] = events.take();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all.front().event.kind, Kind::compile);
  EXPECT_EQ(all.front().name, "axpy");
  EXPECT_FALSE(all.front().event.failed);
  EXPECT_EQ(dropped, 0U);
  EXPECT_TRUE(events.take().first.empty());
}

TEST(HostEvents, WhatAnExceptionEndsHasFailed) {
  HostEvents events;
  events.want(true);
  try {
    const HostSpan span(&events, Kind::define);
    throw std::runtime_error("no such file");
  } catch (const std::runtime_error&) {
    const HostSpan behind(&events, Kind::define);
  }
  const auto all = events.take().first;
  ASSERT_EQ(all.size(), 2U);
  EXPECT_TRUE(all.front().event.failed);
  EXPECT_FALSE(all.back().event.failed);
}

TEST(HostEvents, TheOldestAreDropped) {
  HostEvents events;
  events.want(true);
  for (std::uint64_t i = 0; i < HostEvents::kMost + 5; ++i) events.note(Kind::submit, 0, i);
  const auto [all, dropped] = events.take();
  ASSERT_EQ(all.size(), HostEvents::kMost);
  EXPECT_EQ(all.front().event.id, 5U);
  EXPECT_EQ(all.back().event.id, HostEvents::kMost + 4);
  EXPECT_EQ(dropped, 5U);
  EXPECT_EQ(events.take().second, 0U);
}

}  // namespace
}  // namespace dwell::runtime
