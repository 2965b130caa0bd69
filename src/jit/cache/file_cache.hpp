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

// One folder of entries, each a file with a checksum (cache_entry.hpp). An entry is whole or absent: it is written under another name,
// synced and renamed. One that is broken, of another version, not the user's own, or writable by others is removed, said in one line, and
// counts as absent. Since what it holds is run as code, a folder that others may write to is not used at all.
// Where the entries exceed a limit the least recently used go; the time of a file is that of its last use. Files that are not the
// cache's own are left alone.
// A cache that cannot be used is an empty cache that keeps nothing: only entries, verify and clear throw for it. Cheap to copy; copies
// share their state; all members may be called from several threads and processes at once.
class FileCache {
 public:
  // Takes one line of text, the first time that the cache cannot be used, and for each entry that is broken.
  using Warn = std::function<void(const std::string&)>;
  using Entry = CacheEntry;
  using Verified = CacheCheck;

  static constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{1} << 30U;
  // Longer than any compiler takes for one operator.
  static constexpr std::chrono::seconds kLockTimeout{60};

  // A cache that is off.
  FileCache() = default;
  // A cache in `directory`, which is made when first needed. Its files take `max_bytes` together, or any number when that is 0.
  explicit FileCache(std::filesystem::path directory, Warn warn = {}, std::uint64_t max_bytes = kDefaultMaxBytes);
  // The user's own, as dwell/cache.hpp says.
  static FileCache from_environment(Warn warn = {});

  // The payload stored under `key` (64 hexadecimal digits, as CacheKey makes them), or nothing. A use of the entry.
  std::optional<std::vector<std::byte>> load(std::string_view key) const;
  // Keeps `payload` under `key`, in place of the entry there, and says in `description` what it is. Others go to make room for it; this
  // entry stays, however large. Without memory it is not kept.
  void store(std::string_view key, std::span<const std::byte> payload, std::string_view description = {}) const;
  // For the one who makes what belongs under `key`: look for the entry again under the lock, for another may have made it meanwhile.
  KeyLock lock(std::string_view key, std::chrono::milliseconds timeout = kLockTimeout) const;

  // Where it lies; empty when it is off.
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
