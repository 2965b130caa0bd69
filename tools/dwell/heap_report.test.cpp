#include "heap_report.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>

#include "tests/unit/live.hpp"

namespace dwell::tool {
namespace {

using namespace std::chrono_literals;

template <class Value>
std::string printed(const Value& value) {
  std::ostringstream out;
  print_text(out, value);
  return out.str();
}

TEST(HeapReport, StatisticsAreATableOfClasses) {
  EXPECT_EQ(printed(test::heap_of_two()),
            "32.0 MiB of 64.0 MiB at most\n"
            "3.00 MiB in use: 2.55 MiB live, 4.00 KiB at hand of workers, 58.6 KiB free in slots; tables 1.00 MiB\n"
            "\n"
            " size  slabs     bytes   live  cached   free  live %  failures\n"
            "   32      3   192 KiB  1,500     100  4,400    24.4         0\n"
            "8,192      1  1.00 MiB     64       0     63    50.0         4\n"
            "large         2.00 MiB      1                                2\n"
            "  all      4  3.00 MiB  1,565     100  4,463    84.9         6\n"
            "\n"
            "collections 3; the last freed 12 objects, 1.27 KiB, and reached 11 in 1.50 ms\n"
            "the last allocation without room: 1,000,000 bytes\n");
  const nlohmann::ordered_json json = json_of(test::heap_of_two());
  EXPECT_EQ(json["live_bytes"], 1500 * 32 + 64 * 8192 + (2 << 20));
  EXPECT_EQ(json["failures"], 6);
  EXPECT_EQ(json["last"]["duration_ns"], 1'500'000);
  EXPECT_EQ(json["classes"].size(), 3U);
  EXPECT_EQ(json["classes"][2]["free"], 63);
}

TEST(HeapReport, CensusIsATableOfTypesAndOneOfSizes) {
  HeapCensus census = test::census_after(10);
  census.types.push_back({"", 2, 64});
  census.types.push_back({"bad\n\x1b", 1, 16});
  EXPECT_EQ(printed(census),
            "1,004 objects, 31.3 KiB; 8 other allocations, 2.00 MiB\n"
            "\n"
            "type                objects     bytes\n"
            "Node                  1,000  31.2 KiB\n"
            "cell                      1      16 B\n"
            "(of no known type)        2      64 B\n"
            "bad??                     1      16 B\n"
            "\n"
            " size  number     bytes\n"
            "   48       7     336 B\n"
            "large       1  2.00 MiB\n");
  EXPECT_EQ(printed(HeapCensus{}), "0 objects, 0 B; 0 other allocations, 0 B\n");
  const nlohmann::ordered_json json = json_of(census);
  EXPECT_EQ(json["types"][0]["name"], "Node");
  EXPECT_EQ(json["sizes"][0]["allocations"], 7);
  EXPECT_EQ(json["large_bytes"], 2 << 20);
}

TEST(HeapReport, GrowthBeginsWithWhatHasGrownMost) {
  const HeapCensus before = test::census_after(1);
  HeapCensus now = test::census_after(3);
  now.types.push_back({"Node", 1, 32});  // of another layout
  now.sizes = {{64, 100}};
  now.large = 0;
  now.large_bytes = 0;
  const HeapGrowth growth = growth_of(before, now, 2s);
  EXPECT_EQ(printed(growth),
            "in 2.00 s\n\n"
            "what      number  more     bytes       more\n"
            "Node         301  +201  9.41 KiB  +6.28 KiB\n"
            "64 bytes     100  +100  6.25 KiB  +6.25 KiB\n"
            "48 bytes       0    -7       0 B     -336 B\n"
            "large          0    -1       0 B  -2.00 MiB\n"
            "all                               -1.99 MiB\n");
  const nlohmann::ordered_json json = json_of(growth);
  EXPECT_EQ(json["seconds"], 2.0);
  EXPECT_EQ(json["growth"][0]["what"], "Node");
  EXPECT_EQ(json["growth"][0]["objects"], true);
  EXPECT_EQ(json["growth"][3]["more_bytes"], -(2 << 20));
  EXPECT_TRUE(growth_of(now, now, 1s).rows.empty());
}

TEST(HeapReport, VerificationNamesTheFirstMistake) {
  EXPECT_EQ(printed(HeapVerification{0, 0, 1234}), "1,234 live allocations, 0 mistakes in the tables\n");
  EXPECT_EQ(printed(HeapVerification{2, 65536, 5}), "5 live allocations, 2 mistakes in the tables, the first at offset 65,536\n");
  EXPECT_TRUE(json_of(HeapVerification{0, 0, 5})["first_offset"].is_null());
  EXPECT_EQ(json_of(HeapVerification{2, 65536, 5})["first_offset"], 65536);
}

}  // namespace
}  // namespace dwell::tool
