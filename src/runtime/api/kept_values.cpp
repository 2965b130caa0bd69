#include <cstddef>
#include <utility>
#include <vector>

#include <dwell/detail/kept_values.hpp>

#include "jit/base/sha256.hpp"
#include "jit/cache/file_cache.hpp"

namespace dwell::detail {

namespace {

jit::FileCache folder_of_values(const KeptValue::Warn& warn) {
  const std::filesystem::path cache = jit::FileCache::from_environment(warn).directory();
  return cache.empty() ? jit::FileCache() : jit::FileCache(cache / "kept", warn, 0);
}

}  // namespace

KeptValue::KeptValue(std::span<const std::string> key, Warn warn) : warn_(std::move(warn)) {
  jit::CacheKey made;
  for (const std::string& part : key) made.add("part", part);
  key_ = made.finish();
}

std::optional<std::string> KeptValue::load() const {
  const std::optional<std::vector<std::byte>> value = folder_of_values(warn_).load(key_);
  if (!value) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(value->data()), value->size());
}

bool KeptValue::store(std::string_view value, std::string_view description) const {
  const jit::FileCache folder = folder_of_values(warn_);
  folder.store(key_, std::as_bytes(std::span(value)), description);
  return load() == value;
}

bool KeptValue::remove() const { return folder_of_values(warn_).remove(key_); }

}  // namespace dwell::detail
