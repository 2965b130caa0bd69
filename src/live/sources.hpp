// The registered sources, and their uses.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <optional>
#include <utility>

#include "base/mutex.hpp"
#include "live/source.hpp"
#include "live/wire.hpp"

namespace dwell::live {

// Members may be called from any thread.
class Sources {
  struct Entry {
    Entry(std::uint64_t number, Source&& from) : id(number), source(std::move(from)) {}
    const std::uint64_t id;
    const Source source;
    unsigned uses = 0;               // guarded by mutex_
    std::atomic<bool> going{false};  // relaxed: signals a waiting remove, guards nothing
  };

 public:
  // Keeps a source registered until it is destroyed.
  class Use {
   public:
    Use(Use&& other) noexcept : sources_(other.sources_), entry_(std::exchange(other.entry_, nullptr)) {}
    Use& operator=(Use&&) = delete;
    ~Use();

    const Source& source() const { return entry_->source; }
    // Returns whether `remove` waits for this use.
    bool going() const { return entry_->going.load(std::memory_order_relaxed); }

   private:
    friend class Sources;
    Use(Sources& sources, Entry& entry) : sources_(&sources), entry_(&entry) {}
    Sources* sources_;
    Entry* entry_;
  };

  // Returns its number, for `remove`.
  std::uint64_t add(Source source);
  // Returns once it has no more uses.
  void remove(std::uint64_t id);
  bool empty() const;

  RuntimeIds runtimes() const;
  // Uses the source of a runtime; nothing if there is none.
  std::optional<Use> use(std::uint64_t runtime);

 private:
  mutable Mutex mutex_;
  Condition changed_;
  std::uint64_t last_ DWELL_GUARDED_BY(mutex_) = 0;
  std::list<Entry> entries_ DWELL_GUARDED_BY(mutex_);  // a list: uses point into it
};

}  // namespace dwell::live
