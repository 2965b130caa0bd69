#include "cache_command.hpp"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <ostream>
#include <vector>

#include <dwell/cache.hpp>
#include <nlohmann/json.hpp>

#include "base/utf8.hpp"
#include "json.hpp"
#include "table.hpp"

namespace dwell::tool {

namespace {

using Json = nlohmann::ordered_json;
using Time = std::chrono::system_clock::time_point;

// "2026-05-01T12:00:00Z"
std::string time_text(Time time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::uint64_t bytes_of(const std::vector<CacheEntry>& entries) {
  std::uint64_t bytes = 0;
  for (const CacheEntry& entry : entries) bytes += entry.bytes;
  return bytes;
}

void print(std::ostream& out, const Json& json) { out << json_text(json) << '\n'; }

Exit stats(const Cache& cache, bool json, std::ostream& out) {
  const std::vector<CacheEntry> entries = cache.entries();
  const std::uint64_t bytes = bytes_of(entries);
  if (json) {
    Json report{{"path", cache.directory().string()}, {"entries", entries.size()}, {"bytes", bytes}, {"max_bytes", cache.max_bytes()}};
    if (!entries.empty()) {
      report["least_recent_use"] = time_text(entries.front().last_use);
      report["most_recent_use"] = time_text(entries.back().last_use);
    }
    print(out, report);
    return Exit::success;
  }
  out << "path     " << cache.directory().string() << "\nentries  " << text_of_count(entries.size()) << "\nbytes    "
      << text_of_count(bytes) << (cache.max_bytes() == 0 ? ", without a limit" : " of " + text_of_count(cache.max_bytes())) << '\n';
  if (!entries.empty()) out << "used     " << time_text(entries.front().last_use) << " to " << time_text(entries.back().last_use) << '\n';
  return Exit::success;
}

Exit list(const Cache& cache, bool json, std::ostream& out) {
  const std::vector<CacheEntry> entries = cache.entries();
  if (json) {
    Json rows = Json::array();
    for (const CacheEntry& entry : entries) {
      rows.push_back(
          {{"key", entry.key}, {"description", entry.description}, {"bytes", entry.bytes}, {"last_use", time_text(entry.last_use)}});
    }
    print(out, Json{{"path", cache.directory().string()}, {"entries", rows}});
    return Exit::success;
  }
  Table table({"key", "bytes", "last use", "what"}, {false, true, false, false});
  for (const CacheEntry& entry : entries) {
    const std::string what = entry.description.empty() ? "?" : printable(entry.description);
    table.add({entry.key.substr(0, 12), text_of_count(entry.bytes), time_text(entry.last_use), what});
  }
  table.print(out);
  return Exit::success;
}

Exit clear(const Cache& cache, bool json, std::ostream& out) {
  const std::uint64_t bytes = bytes_of(cache.entries());
  const std::size_t removed = cache.clear();
  if (json) {
    print(out, Json{{"path", cache.directory().string()}, {"removed", removed}, {"bytes", bytes}});
  } else {
    out << "removed " << text_of_count(removed) << (removed == 1 ? " entry" : " entries") << ", " << text_of_count(bytes) << " bytes\n";
  }
  return Exit::success;
}

Exit verify(const Cache& cache, bool json, std::ostream& out) {
  const CacheCheck check = cache.verify();
  if (json) {
    Json broken = Json::array();
    for (const CacheCheck::Broken& entry : check.broken) {
      broken.push_back({{"key", entry.key}, {"reason", entry.reason}, {"removed", entry.removed}});
    }
    print(out, Json{{"path", cache.directory().string()}, {"entries", check.entries}, {"broken", broken}});
  } else {
    for (const CacheCheck::Broken& entry : check.broken) {
      out << entry.key << ": " << entry.reason << (entry.removed ? "; removed" : "; it stays") << '\n';
    }
    out << text_of_count(check.entries) << (check.entries == 1 ? " entry, " : " entries, ") << text_of_count(check.broken.size())
        << " broken\n";
  }
  return check.broken.empty() ? Exit::success : Exit::failed;
}

Exit path(const Cache& cache, bool json, std::ostream& out) {
  if (json) {
    print(out, Json{{"path", cache.directory().string()}});
  } else {
    out << cache.directory().string() << '\n';
  }
  return Exit::success;
}

}  // namespace

Exit cache_command(const CacheOptions& options, std::ostream& out, std::ostream& warnings) {
  const Cache cache([&](const std::string& line) { warnings << line << '\n'; });
  if (cache.directory().empty()) {
    throw Failure(
        Exit::mistake,
        "dwell: error: the cache is switched off or has no folder: unset DWELL_CACHE, or set DWELL_CACHE_DIR to a folder of your own");
  }
  if (options.action == "stats") return stats(cache, options.json, out);
  if (options.action == "list") return list(cache, options.json, out);
  if (options.action == "clear") return clear(cache, options.json, out);
  if (options.action == "verify") return verify(cache, options.json, out);
  return path(cache, options.json, out);
}

}  // namespace dwell::tool
