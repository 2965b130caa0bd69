#include <utility>

#include <dwell/cache.hpp>

#include "jit/cache/file_cache.hpp"

namespace dwell {

struct Cache::State {
  jit::FileCache files;
};

Cache::Cache(const std::function<void(const std::string&)>& warn)
    : state_(std::make_unique<State>(State{jit::FileCache::from_environment(warn)})) {}
Cache::~Cache() = default;
Cache::Cache(Cache&&) noexcept = default;
Cache& Cache::operator=(Cache&&) noexcept = default;

std::filesystem::path Cache::directory() const { return state_->files.directory(); }
std::uint64_t Cache::max_bytes() const { return state_->files.max_bytes(); }
std::vector<CacheEntry> Cache::entries() const { return state_->files.entries(); }
CacheCheck Cache::verify() const { return state_->files.verify(); }
std::size_t Cache::clear() const { return state_->files.clear(); }

}  // namespace dwell
