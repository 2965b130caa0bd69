// A cache of recent values, where concurrent requests share one computation.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <dwell/error.hpp>

#include "base/mutex.hpp"

namespace dwell::jit {

// Keeps the `capacity` most recently used values by key. Thread-safe: of concurrent requests for one key, one thread makes the value, the
// others wait for it without a limit.
template <class Value>
class MemoryCache {
 public:
  explicit MemoryCache(std::size_t capacity) : capacity_(capacity) {}

  // Returns the value of `key`, or stores and returns the result of `make`. Rethrows exceptions of `make` and does not store them. Waiting
  // threads get a dwell::Error too; after any other exception, such as a lack of memory, the next of them calls its own `make`.
  template <class Make>
  Value get(const std::string& key, Make make) {
    std::shared_ptr<const Value> value;
    if (const std::shared_ptr<Flight> flight = join(key, value)) {
      try {
        value = std::make_shared<const Value>(make());
      } catch (const Error& error) {
        land(key, *flight, nullptr, &error);
        throw;
      } catch (...) {
        land(key, *flight, nullptr, nullptr);
        throw;
      }
      land(key, *flight, value, nullptr);
    }
    return *value;
  }

 private:
  // One making of a value.
  struct Flight {
    bool landed = false;
    std::shared_ptr<const Value> value;
    std::optional<Error> error;  // set if there is no value
  };
  using Item = std::pair<std::string, std::shared_ptr<const Value>>;

  // Sets `value` to an existing or awaited one; else returns a flight that the caller must land.
  std::shared_ptr<Flight> join(const std::string& key, std::shared_ptr<const Value>& value) {
    Lock lock(mutex_);
    for (;;) {
      value = find(key);
      if (value) return nullptr;
      const auto at = flights_.find(key);
      if (at == flights_.end()) {
        auto flight = std::make_shared<Flight>();
        flights_.emplace(key, flight);
        return flight;
      }
      const std::shared_ptr<Flight> flight = at->second;
      while (!flight->landed) landing_.wait(lock);
      value = flight->value;
      if (value) return nullptr;
      // Each thread throws its own exception: a shared one could be destroyed while its what() is read.
      if (flight->error) throw Error(flight->error->kind(), flight->error->message(), flight->error->fields());
    }
  }

  void land(const std::string& key, Flight& flight, const std::shared_ptr<const Value>& value, const Error* error) {
    const Lock lock(mutex_);
    // Steps that cannot fail come first: no thread may wait for a flight that is lost.
    flight.landed = true;
    flight.value = value;
    flights_.erase(key);
    landing_.notify_all();
    if (error != nullptr) flight.error.emplace(error->kind(), error->message(), error->fields());
    try {
      if (value) keep(key, value);
    } catch (const std::bad_alloc&) {
      // The requesting thread has the value; the next one makes it again.
    }
  }

  std::shared_ptr<const Value> find(const std::string& key) DWELL_REQUIRES(mutex_) {
    const auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, at->second);
    return at->second->second;
  }

  // Stores a value; only the flight of `key` may do so.
  void keep(const std::string& key, const std::shared_ptr<const Value>& value) DWELL_REQUIRES(mutex_) {
    std::list<Item> item;
    item.emplace_front(key, value);
    index_.emplace(key, item.begin());
    order_.splice(order_.begin(), item);  // cannot fail, and the iterator stays
    if (order_.size() <= capacity_) return;
    index_.erase(order_.back().first);
    order_.pop_back();
  }

  const std::size_t capacity_;
  Mutex mutex_;  // guards every flight too; never held while a value is made or copied
  Condition landing_;
  std::unordered_map<std::string, std::shared_ptr<Flight>> flights_ DWELL_GUARDED_BY(mutex_);
  std::list<Item> order_ DWELL_GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<std::string, typename std::list<Item>::iterator> index_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::jit
