#include "live/sources.hpp"

#include <algorithm>

namespace dwell::live {

Sources::Use::~Use() {
  if (entry_ == nullptr) return;
  const Lock lock(sources_->mutex_);
  if (--entry_->uses == 0) sources_->changed_.notify_all();
}

std::uint64_t Sources::add(Source source) {
  const Lock lock(mutex_);
  entries_.emplace_back(last_ + 1, std::move(source));
  return ++last_;
}

void Sources::remove(std::uint64_t id) {
  Lock lock(mutex_);
  const auto entry = std::ranges::find(entries_, id, &Entry::id);
  if (entry == entries_.end()) return;
  entry->going.store(true, std::memory_order_relaxed);
  while (entry->uses != 0) changed_.wait(lock);
  entries_.erase(entry);
}

bool Sources::empty() const {
  const Lock lock(mutex_);
  return entries_.empty();
}

RuntimeIds Sources::runtimes() const {
  const Lock lock(mutex_);
  RuntimeIds ids;
  for (const Entry& entry : entries_) ids.push_back(entry.source.runtime);
  std::ranges::sort(ids);
  return ids;
}

std::optional<Sources::Use> Sources::use(std::uint64_t runtime) {
  const Lock lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.source.runtime != runtime || entry.going.load(std::memory_order_relaxed)) continue;
    ++entry.uses;
    return Use(*this, entry);
  }
  return std::nullopt;
}

}  // namespace dwell::live
