// Maintenance of the on-disk cache of compiled operators. Not part of dwell.hpp: a runtime uses the cache by itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dwell {

// One entry: a compiled operator, the compiled loop, or a linked image.
struct CacheEntry {
  std::string key;          // the name of its file
  std::string description;  // "operator axpy"; empty when it cannot be read
  std::uint64_t bytes = 0;  // of the file
  std::chrono::system_clock::time_point last_use;
};

// The result of a check of every entry.
struct CacheCheck {
  struct Broken {
    std::string key;
    std::string reason;
    bool removed = false;
  };
  std::size_t entries = 0;  // checked, broken ones included
  std::vector<Broken> broken;
};

// The cache that a Runtime of this process would use: $DWELL_CACHE_DIR, else $XDG_CACHE_HOME/dwell, else ~/.cache/dwell; off with
// DWELL_CACHE=off; limited by DWELL_CACHE_MAX_BYTES. All may be called from any thread, while other processes use the cache.
class Cache {
 public:
  // `warn` takes one line for each variable whose value is not understood.
  explicit Cache(const std::function<void(const std::string&)>& warn = {});
  ~Cache();
  Cache(Cache&&) noexcept;
  Cache& operator=(Cache&&) noexcept;

  // Returns its folder, which need not exist yet; empty when the cache is off.
  std::filesystem::path directory() const;
  // Returns the limit of its size; 0: no limit.
  std::uint64_t max_bytes() const;

  // These three throw Error with errc::io_failed when the folder cannot be read, belongs to another user or is open to others. A folder
  // that does not exist is an empty cache.

  // All entries, the least recently used first.
  std::vector<CacheEntry> entries() const;
  // Reads every entry, and removes those that are broken, of another version, or open to others.
  CacheCheck verify() const;
  // Removes every entry and the cache's leftover files; other files stay. Returns the number of entries removed.
  std::size_t clear() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dwell
