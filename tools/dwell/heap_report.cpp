#include "heap_report.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <ostream>
#include <string>
#include <utility>

#include "base/utf8.hpp"
#include "table.hpp"

namespace dwell::tool {

namespace {

using Json = nlohmann::ordered_json;

std::string name_text(const std::string& type) { return type.empty() ? "(of no known type)" : printable(type); }

std::string percent_text(std::uint64_t part, std::uint64_t of) {
  if (of == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", 100.0 * static_cast<double>(part) / static_cast<double>(of));
  return text;
}

// Figures may be any, as another process has sent them: sums and differences are those of unsigned numbers.
std::int64_t change_of(std::uint64_t before, std::uint64_t now) { return static_cast<std::int64_t>(now - before); }

// "+1,024", "-3"; `text`: of the change without its sign.
template <class Text>
std::string change_text(std::int64_t change, Text text) {
  return change < 0 ? "-" + text(0 - static_cast<std::uint64_t>(change)) : "+" + text(static_cast<std::uint64_t>(change));
}

// Count and bytes.
using Held = std::pair<std::uint64_t, std::uint64_t>;

// What a heap holds, by whether it is a type and by its name.
std::map<std::pair<bool, std::string>, Held> holdings_of(const HeapCensus& census) {
  std::map<std::pair<bool, std::string>, Held> held;
  const auto add = [&](bool objects, const std::string& what, std::uint64_t count, std::uint64_t bytes) {
    Held& to = held[{objects, what}];
    to.first += count;
    to.second += bytes;
  };
  for (const HeapTypeCensus& type : census.types) add(true, type.name, type.objects, type.bytes);
  for (const HeapSizeCensus& size : census.sizes)
    add(false, std::to_string(size.size) + " bytes", size.allocations, size.allocations * size.size);
  if (census.large != 0) add(false, "large", census.large, census.large_bytes);
  return held;
}

}  // namespace

void print_text(std::ostream& out, const HeapStatistics& heap) {
  const std::size_t live = heap.live_bytes() + heap.large_bytes;
  out << text_of_bytes(heap.mapped) << " of " << text_of_bytes(heap.reserved) << " at most\n"
      << text_of_bytes(heap.used) << " in use: " << text_of_bytes(live) << " live, " << text_of_bytes(heap.cached)
      << " at hand of workers, " << text_of_bytes(heap.fragmented) << " free in slots; tables " << text_of_bytes(heap.tables) << "\n\n";
  Table table({"size", "slabs", "bytes", "live", "cached", "free", "live %", "failures"}, {true, true, true, true, true, true, true, true});
  HeapClassStatistics all;
  for (const HeapClassStatistics& one : heap.classes) {
    all.slabs += one.slabs;
    all.live += one.live;
    all.cached += one.cached;
    all.free += one.free;
    if (one.slabs == 0 && one.failures == 0) continue;
    table.add({text_of_count(one.size), text_of_count(one.slabs), text_of_bytes(one.bytes), text_of_count(one.live),
               text_of_count(one.cached), text_of_count(one.free), percent_text(one.live * one.size, one.bytes),
               text_of_count(one.failures)});
  }
  if (heap.large != 0 || heap.large_failures != 0)
    table.add({"large", "", text_of_bytes(heap.large_bytes), text_of_count(heap.large), "", "", "", text_of_count(heap.large_failures)});
  table.add({"all", text_of_count(all.slabs), text_of_bytes(heap.used), text_of_count(all.live + heap.large), text_of_count(all.cached),
             text_of_count(all.free), percent_text(live, heap.used), text_of_count(heap.failures())});
  table.print(out);
  out << "\ncollections " << text_of_count(heap.collections);
  if (heap.collections != 0)
    out << "; the last freed " << text_of_count(heap.last.freed) << " objects, " << text_of_bytes(heap.last.freed_bytes) << ", and reached "
        << text_of_count(heap.last.marked) << " in " << text_of(heap.last.duration);
  out << '\n';
  if (heap.last_failure != 0) out << "the last allocation without room: " << text_of_count(heap.last_failure) << " bytes\n";
}

nlohmann::ordered_json json_of(const HeapStatistics& heap) {
  Json classes = Json::array();
  for (const HeapClassStatistics& one : heap.classes)
    classes.push_back({{"size", one.size},
                       {"slabs", one.slabs},
                       {"bytes", one.bytes},
                       {"slots", one.slots},
                       {"live", one.live},
                       {"cached", one.cached},
                       {"free", one.free},
                       {"allocations", one.allocations},
                       {"frees", one.frees},
                       {"failures", one.failures}});
  return {{"reserved", heap.reserved},
          {"mapped", heap.mapped},
          {"used", heap.used},
          {"tables", heap.tables},
          {"live_bytes", heap.live_bytes() + heap.large_bytes},
          {"cached", heap.cached},
          {"fragmented", heap.fragmented},
          {"large", heap.large},
          {"large_bytes", heap.large_bytes},
          {"failures", heap.failures()},
          {"large_failures", heap.large_failures},
          {"last_failure", heap.last_failure},
          {"types", heap.types},
          {"collections", heap.collections},
          {"last",
           {{"marked", heap.last.marked},
            {"freed", heap.last.freed},
            {"freed_bytes", heap.last.freed_bytes},
            {"slices", heap.last.slices},
            {"duration_ns", heap.last.duration.count()},
            {"marking_ns", heap.last.marking.count()}}},
          {"classes", classes}};
}

void print_text(std::ostream& out, const HeapCensus& census) {
  Held objects;
  Table types({"type", "objects", "bytes"}, {false, true, true});
  for (const HeapTypeCensus& type : census.types) {
    objects.first += type.objects;
    objects.second += type.bytes;
    types.add({name_text(type.name), text_of_count(type.objects), text_of_bytes(type.bytes)});
  }
  Held others{census.large, census.large_bytes};
  Table sizes({"size", "number", "bytes"}, {true, true, true});
  for (const HeapSizeCensus& size : census.sizes) {
    others.first += size.allocations;
    others.second += size.allocations * size.size;
    sizes.add({text_of_count(size.size), text_of_count(size.allocations), text_of_bytes(size.allocations * size.size)});
  }
  if (census.large != 0) sizes.add({"large", text_of_count(census.large), text_of_bytes(census.large_bytes)});
  out << text_of_count(objects.first) << " objects, " << text_of_bytes(objects.second) << "; " << text_of_count(others.first)
      << " other allocations, " << text_of_bytes(others.second) << '\n';
  if (objects.first != 0) types.print(out << '\n');
  if (others.first != 0) sizes.print(out << '\n');
}

nlohmann::ordered_json json_of(const HeapCensus& census) {
  Json types = Json::array();
  for (const HeapTypeCensus& type : census.types) types.push_back({{"name", type.name}, {"objects", type.objects}, {"bytes", type.bytes}});
  Json sizes = Json::array();
  for (const HeapSizeCensus& size : census.sizes) sizes.push_back({{"size", size.size}, {"allocations", size.allocations}});
  return {{"types", types}, {"sizes", sizes}, {"large", census.large}, {"large_bytes", census.large_bytes}};
}

void print_text(std::ostream& out, const HeapVerification& verified) {
  out << text_of_count(verified.live) << " live allocations, " << text_of_count(verified.mistakes) << " mistakes in the tables";
  if (verified.mistakes != 0) out << ", the first at offset " << text_of_count(verified.first_offset);
  out << '\n';
}

nlohmann::ordered_json json_of(const HeapVerification& verified) {
  return {{"live", verified.live},
          {"mistakes", verified.mistakes},
          {"first_offset", verified.mistakes == 0 ? Json(nullptr) : Json(verified.first_offset)}};
}

HeapGrowth growth_of(const HeapCensus& before, const HeapCensus& now, std::chrono::nanoseconds time) {
  auto earlier = holdings_of(before);
  auto later = holdings_of(now);
  for (const auto& [what, held] : earlier) later.try_emplace(what);
  HeapGrowth growth{{}, time};
  for (const auto& [what, held] : later) {
    const Held& was = earlier[what];
    if (was == held) continue;
    growth.rows.push_back(
        {what.second, what.first, held.first, held.second, change_of(was.first, held.first), change_of(was.second, held.second)});
  }
  std::ranges::stable_sort(growth.rows, std::ranges::greater(), &HeapGrowth::Row::more_bytes);
  return growth;
}

void print_text(std::ostream& out, const HeapGrowth& growth) {
  out << "in " << text_of(growth.time) << "\n\n";
  Table table({"what", "number", "more", "bytes", "more"}, {false, true, true, true, true});
  std::uint64_t bytes = 0;
  for (const HeapGrowth::Row& row : growth.rows) {
    bytes += static_cast<std::uint64_t>(row.more_bytes);
    table.add({row.objects ? name_text(row.what) : row.what, text_of_count(row.count), change_text(row.more, text_of_count),
               text_of_bytes(row.bytes), change_text(row.more_bytes, text_of_bytes)});
  }
  table.add({"all", "", "", "", change_text(static_cast<std::int64_t>(bytes), text_of_bytes)});
  table.print(out);
}

nlohmann::ordered_json json_of(const HeapGrowth& growth) {
  Json rows = Json::array();
  for (const HeapGrowth::Row& row : growth.rows)
    rows.push_back({{"what", row.what},
                    {"objects", row.objects},
                    {"number", row.count},
                    {"more", row.more},
                    {"bytes", row.bytes},
                    {"more_bytes", row.more_bytes}});
  return {{"seconds", std::chrono::duration<double>(growth.time).count()}, {"growth", rows}};
}

}  // namespace dwell::tool
