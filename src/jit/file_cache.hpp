// A cache of bytes in files, shared by all processes of one user.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dwell::jit {

// One folder of entries, each a file with a checksum. An entry is whole or absent: it is written under another name and renamed, and one
// that is broken, not a file of the caller's own, or writable by others is removed and counts as absent. Since what it holds is run as
// code, a folder that others may write to is not used at all.
// A cache that cannot be used is an empty cache that keeps nothing: no member throws for it. Cheap to copy; copies share their state;
// all members may be called from several threads and processes at once.
class FileCache {
 public:
  // Takes one line of text, the first time that the cache cannot be used.
  using Warn = std::function<void(const std::string&)>;

  // A cache that is off.
  FileCache() = default;
  // A cache in `directory`, which is made when first needed.
  explicit FileCache(std::filesystem::path directory, Warn warn = {});
  // The user's own: $DWELL_CACHE_DIR, else $XDG_CACHE_HOME/dwell, else ~/.cache/dwell; off with DWELL_CACHE=off.
  static FileCache from_environment(Warn warn = {});

  // The payload stored under `key` (letters and digits, as CacheKey makes them), or nothing.
  std::optional<std::vector<std::byte>> load(std::string_view key) const;
  // Keeps `payload` under `key`, replacing what was there.
  void store(std::string_view key, std::span<const std::byte> payload) const;

  // Where it lies; empty when it is off.
  std::filesystem::path directory() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace dwell::jit
