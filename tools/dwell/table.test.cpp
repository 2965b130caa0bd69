#include "table.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace dwell::tool {
namespace {

using std::chrono::nanoseconds;

TEST(Table, WritesTimes) {
  EXPECT_EQ(text_of(nanoseconds(0)), "0 ns");
  EXPECT_EQ(text_of(nanoseconds(999)), "999 ns");
  EXPECT_EQ(text_of(nanoseconds(1000)), "1.00 us");
  EXPECT_EQ(text_of(nanoseconds(9996)), "10.0 us");
  EXPECT_EQ(text_of(nanoseconds(12345)), "12.3 us");
  EXPECT_EQ(text_of(nanoseconds(999'400)), "999 us");
  EXPECT_EQ(text_of(nanoseconds(999'600)), "1.00 ms");
  EXPECT_EQ(text_of(nanoseconds(2'500'000'000)), "2.50 s");
  EXPECT_EQ(text_of(nanoseconds(4'000'000'000'000)), "4000 s");
}

TEST(Table, WritesCountsAndRates) {
  EXPECT_EQ(text_of_count(0), "0");
  EXPECT_EQ(text_of_count(999), "999");
  EXPECT_EQ(text_of_count(1000), "1,000");
  EXPECT_EQ(text_of_count(1234567), "1,234,567");
  EXPECT_EQ(text_of_rate(417), "417");
  EXPECT_EQ(text_of_rate(12345), "12.3 k");
  EXPECT_EQ(text_of_rate(999'999), "1.00 M");
}

TEST(Table, WritesSizes) {
  EXPECT_EQ(text_of_bytes(0), "0 B");
  EXPECT_EQ(text_of_bytes(999), "999 B");
  EXPECT_EQ(text_of_bytes(1024), "1.00 KiB");
  EXPECT_EQ(text_of_bytes(65536), "64.0 KiB");
  EXPECT_EQ(text_of_bytes(1'048'000), "1.00 MiB");
  EXPECT_EQ(text_of_bytes(std::uint64_t{64} << 30U), "64.0 GiB");
}

TEST(Table, AlignsColumns) {
  Table table({"name", "tasks"}, {false, true});
  table.add({"a", "1"});
  table.add({"longer", "1,000"});
  std::ostringstream text;
  table.print(text);
  EXPECT_EQ(text.str(), "name    tasks\na           1\nlonger  1,000\n");
}

}  // namespace
}  // namespace dwell::tool
