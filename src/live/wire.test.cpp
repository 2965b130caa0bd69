#include "live/wire.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dwell/error.hpp>
#include <dwell/metric_rows.hpp>

#include "tests/unit/expect_error.hpp"
#include "tests/unit/live.hpp"

namespace dwell::live {
namespace {

using testing::HasSubstr;

TEST(LiveWire, MetricsRoundTrip) {
  Metrics sent = test::metrics_after(7);
  std::uint64_t next = 1000;
  sent.runtime = next++;
  for (const auto& row : kMetricRows) sent.*row.value = next++;
  sent.operators[0].times.count.front() = 1;
  sent.operators[0].times.count.back() = ~0ULL;
  const auto bytes = encode(sent);
  const auto got = decode<Metrics>(bytes);
  EXPECT_EQ(encode(got), bytes);
  // Checks each field: equal bytes would not reveal two fields swapped both ways.
  EXPECT_EQ(got.at, sent.at);
  EXPECT_EQ(got.runtime, 1000U);
  for (const auto& row : kMetricRows) EXPECT_EQ(got.*row.value, sent.*row.value) << row.name;
  EXPECT_EQ(got.device, "cpu");
  EXPECT_EQ(got.metering, Metering::times);
  ASSERT_EQ(got.operators.size(), 2U);
  EXPECT_EQ(got.operators[0].name, "axpy");
  EXPECT_EQ(got.operators[0].total_ns, sent.operators[0].total_ns);
  EXPECT_EQ(got.operators[0].times.count, sent.operators[0].times.count);
  EXPECT_EQ(got.operators[1].failures, 3U);
  ASSERT_EQ(got.workers.size(), 2U);
  EXPECT_EQ(got.workers[1].busy_ns, sent.workers[1].busy_ns);
  EXPECT_EQ(got.workers[1].present_ns, 123U * 7);
  EXPECT_EQ(got.workers[1].idle_ns, 11U * 7);
  EXPECT_EQ(got.workers[1].stolen, 2U * 7);
  EXPECT_EQ(got.workers[1].parks, 7U);
}

TEST(LiveWire, DiagnosisRoundTrips) {
  const Diagnosis sent = test::diagnosis_of_two();
  const auto bytes = encode(sent);
  const auto got = decode<Diagnosis>(bytes);
  EXPECT_EQ(encode(got), bytes);
  EXPECT_EQ(got.cycles, sent.cycles);
  EXPECT_TRUE(got.stalled);
  EXPECT_FALSE(got.parked);
  ASSERT_EQ(got.tasks.size(), 2U);
  EXPECT_EQ(got.tasks[0].workers.at(0).since, std::chrono::milliseconds(5));
  EXPECT_EQ(got.tasks[1].doing, Doing::waits_for_host);
  EXPECT_TRUE(got.tasks[1].cancelled);
  EXPECT_EQ(got.tasks[1].named, sent.tasks[1].named);
}

TEST(LiveWire, LogLinesRoundTrip) {
  const LogPage sent{{test::log_line("a\nb", level::error), test::log_line("")}, 42};
  const auto got = decode<LogPage>(encode(sent));
  EXPECT_EQ(encode(got), encode(sent));
  EXPECT_EQ(got.next, 42U);
  EXPECT_EQ(got.records.at(0).text, "a\nb");
  EXPECT_EQ(got.records.at(0).severity, level::error);
  EXPECT_TRUE(got.records.at(0).has_position);
  EXPECT_EQ(got.records.at(0).node, "left");
  EXPECT_EQ(got.records.at(0).graph, "step");
}

TEST(LiveWire, HeapsRoundTrip) {
  const HeapStatistics sent = test::heap_of_two();
  const auto got = decode<HeapStatistics>(encode(sent));
  EXPECT_EQ(encode(got), encode(sent));
  EXPECT_EQ(got.reserved, sent.reserved);
  EXPECT_EQ(got.fragmented, sent.fragmented);
  EXPECT_EQ(got.failures(), 6U);
  EXPECT_EQ(got.last.freed_bytes, 1300U);
  EXPECT_EQ(got.last.marking, std::chrono::microseconds(700));
  ASSERT_EQ(got.classes.size(), 3U);
  EXPECT_EQ(got.classes[2].size, 8192U);
  EXPECT_EQ(got.classes[0].frees, 500U);
  const HeapCensus census = test::census_after(2);
  EXPECT_EQ(decode<HeapCensus>(encode(census)).types, census.types);
  EXPECT_EQ(decode<HeapCensus>(encode(census)).sizes, census.sizes);
  EXPECT_EQ(decode<HeapCensus>(encode(census)).large_bytes, census.large_bytes);
  EXPECT_EQ(decode<HeapCensus>(encode(census)).slabs, census.slabs);
  EXPECT_EQ(decode<HeapVerification>(encode(HeapVerification{3, 65536, 9})).first_offset, 65536U);
}

TEST(LiveWire, EmptyHistogramsAreShort) {
  Metrics many;
  many.operators.resize(1000);
  EXPECT_LT(encode(many).size(), 140'000U);
}

TEST(LiveWire, AnotherVersionIsRefused) {
  auto bytes = encode(RuntimeIds{1, 2});
  EXPECT_EQ(decode<RuntimeIds>(bytes), (RuntimeIds{1, 2}));
  bytes[0] = std::byte{99};
  DWELL_EXPECT_ERROR(decode<RuntimeIds>(bytes), errc::unsupported, HasSubstr("another version"));
}

TEST(LiveWire, DamagedBytesAreSafe) {
  const auto whole = encode(test::diagnosis_of_two());
  for (std::size_t size = 0; size < whole.size(); ++size)
    DWELL_EXPECT_ERROR(decode<Diagnosis>(std::span(whole).first(size)), errc::unsupported, testing::_);
  auto longer = whole;
  longer.push_back(std::byte{0});
  DWELL_EXPECT_ERROR(decode<Diagnosis>(longer), errc::unsupported, testing::_);
  // Any byte may be changed: decoding gives a value or an error.
  const auto metrics = encode(test::metrics_after(1));
  for (std::size_t at = 4; at < metrics.size(); ++at) {
    auto changed = metrics;
    changed[at] = std::byte{0xff};
    try {
      static_cast<void>(decode<Metrics>(changed));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::unsupported);
    }
  }
}

// Sums of decoded times must not overflow.
TEST(LiveWire, TimesAreBounded) {
  LogRecord record = test::log_line("x");
  record.at = std::chrono::steady_clock::time_point(std::chrono::nanoseconds::min());
  DWELL_EXPECT_ERROR(decode<LogPage>(encode(LogPage{{record}, 1})), errc::unsupported, HasSubstr("is invalid"));
}

TEST(LiveWire, EmptyCircleIsPrinted) {
  Diagnosis diagnosis;
  diagnosis.cycles.emplace_back();
  EXPECT_THAT(to_string(decode<Diagnosis>(encode(diagnosis))), HasSubstr("circle: \n"));
}

}  // namespace
}  // namespace dwell::live
