// Loads a value from the cache on disk, or makes it once among all processes.
#pragma once

#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "jit/cache/file_cache.hpp"

namespace dwell::jit {

// Returns the value under `key`. `decode` turns a payload into an optional value, `encode` a value into a payload. `make` is called if
// there is no entry, under the lock of the key, so that others wait for its result. A process that waits longer than
// FileCache::kLockTimeout
// makes it as well. Rethrows an exception of `make`, and stores nothing.
template <class Decode, class Encode, class Make>
auto made_once(const FileCache& cache, const std::string& key, std::string_view description, Decode decode, Encode encode, Make make) {
  using Value = decltype(make());
  const auto load = [&]() -> std::optional<Value> {
    const auto payload = cache.load(key);
    return payload ? decode(*payload) : std::nullopt;
  };
  if (std::optional<Value> value = load()) return *std::move(value);
  const KeyLock lock = cache.lock(key);
  if (std::optional<Value> value = load()) return *std::move(value);
  Value value = make();
  try {
    cache.store(key, encode(value), description);
  } catch (const std::bad_alloc&) {
    // As in FileCache::store.
  }
  return value;
}

}  // namespace dwell::jit
