// What `dwell heap` prints, as text and as JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <dwell/heap.hpp>
#include <nlohmann/json.hpp>

namespace dwell::tool {

// Classes that have slabs or failures, totals, collections and failures.
void print_text(std::ostream& out, const HeapStatistics& heap);
nlohmann::ordered_json json_of(const HeapStatistics& heap);

// Objects by type, other allocations by size.
void print_text(std::ostream& out, const HeapCensus& census);
nlohmann::ordered_json json_of(const HeapCensus& census);

void print_text(std::ostream& out, const HeapVerification& verified);
nlohmann::ordered_json json_of(const HeapVerification& verified);

// How the holdings of a heap have changed.
struct HeapGrowth {
  struct Row {
    std::string what;         // a type, "8192 bytes", "large"
    bool objects = false;     // of a type
    std::uint64_t count = 0;  // now
    std::uint64_t bytes = 0;
    std::int64_t more = 0;  // than before
    std::int64_t more_bytes = 0;
  };
  std::vector<Row> rows;  // that have changed, those that have grown most first
  std::chrono::nanoseconds time{0};
};

// Types of one name count together.
HeapGrowth growth_of(const HeapCensus& before, const HeapCensus& now, std::chrono::nanoseconds time);
void print_text(std::ostream& out, const HeapGrowth& growth);
nlohmann::ordered_json json_of(const HeapGrowth& growth);

}  // namespace dwell::tool
