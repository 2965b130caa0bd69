// A cache of bytes in files, shared by all processes of one user.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/cache.hpp>

#include "jit/cache/key_lock.hpp"

namespace dwell::jit {

// One folder of entries, each a file with a checksum (cache_entry.hpp). Entries are written atomically: under another name, synced and
// renamed. An entry that is broken, of another version, not the user's own, or writable by others is removed, reported in one line, and
// counts as absent. Since entries are executed as code, a folder that others may write to is not used at all.
// Beyond a size limit the least recently used entries are removed; a file's time is that of its last use. Other files in the folder are not
// touched.
// An unusable cache behaves as an empty one that stores nothing: only entries, verify and clear throw for it. Copies are cheap and share
// their state. All members may be called from several threads and processes at once.
class FileCache {
 public:
  // Receives one line of text, the first time that the cache cannot be used, and for each broken entry.
  using Warn = std::function<void(const std::string&)>;
  using Entry = CacheEntry;
  using Verified = CacheCheck;

  static constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{1} << 30U;
  // Longer than any compilation of one operator.
  static constexpr std::chrono::seconds kLockTimeout{60};

  // A disabled cache.
  FileCache() = default;
  // A cache in `directory`, created when first needed. `max_bytes`: limit of all its files; 0: none.
  explicit FileCache(std::filesystem::path directory, Warn warn = {}, std::uint64_t max_bytes = kDefaultMaxBytes);
  // The user's own, as dwell/cache.hpp says.
  static FileCache from_environment(Warn warn = {});

  // Returns the payload stored under `key` (64 hexadecimal digits, from CacheKey), or nothing. Counts as a use of the entry.
  std::optional<std::vector<std::byte>> load(std::string_view key) const;
  // Stores `payload` under `key` with a description, and replaces an existing entry. Other entries are removed to make room; this one
  // stays, however large. Without memory it is not stored.
  void store(std::string_view key, std::span<const std::byte> payload, std::string_view description = {}) const;
  // Removes the entry. Returns whether there was one.
  bool remove(std::string_view key) const;
  // Locks `key` for the process that makes its value. Load the entry again under the lock: another process may have stored it meanwhile.
  KeyLock lock(std::string_view key, std::chrono::milliseconds timeout = kLockTimeout) const;

  // Returns its folder; empty when it is disabled.
  std::filesystem::path directory() const;
  // 0 when there is no limit.
  std::uint64_t max_bytes() const;

  // As dwell/cache.hpp says.
  std::vector<Entry> entries() const;
  Verified verify() const;
  std::size_t clear() const;

 private:
  struct State;
  void write(std::string_view key, std::span<const std::byte> payload, std::string_view description) const;

  std::shared_ptr<State> state_;
};

}  // namespace dwell::jit
