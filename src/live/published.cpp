#include "live/published.hpp"

#include <pthread.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include <dwell/error.hpp>

#include "live/directory.hpp"
#include "live/process.hpp"
#include "live/server.hpp"
#include "live/sources.hpp"

namespace dwell::live {

// What this process publishes. Leaked: sources may be published until the last static object is destroyed.
class ThisProcess {
 public:
  static ThisProcess& one() { return *pointer(); }

  std::uint64_t add(Source source) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t id = sources_.add(std::move(source));
    try {
      if (server_ == nullptr) server_ = std::make_unique<Server>(Directory::make(), Process::self(), sources_);
    } catch (...) {
      sources_.remove(id);
      throw;
    }
    return id;
  }

  void remove(std::uint64_t id) {
    sources_.remove(id);
    const std::lock_guard lock(mutex_);
    if (sources_.empty()) server_ = nullptr;
  }

 private:
  explicit ThisProcess(ThisProcess* parent) : parent_(parent) {}

  static ThisProcess*& pointer() {
    static ThisProcess* current = [] {
      auto first = std::unique_ptr<ThisProcess>(new ThisProcess(nullptr));  // before the handlers, which are permanent
      pthread_atfork([] { one().mutex_.lock(); }, [] { one().mutex_.unlock(); },
                     [] {
                       // Leaves the parent's state: its threads do not exist here, and may have held its locks.
                       if (one().server_ != nullptr) one().server_->forget();
                       pointer() = new ThisProcess(&one());
                     });
      return first.release();
    }();
    return current;
  }

  [[maybe_unused]] ThisProcess* const parent_;  // reachable for leak checkers
  std::mutex mutex_;                            // not base/mutex.hpp: a fork holds it from one function to another
  Sources sources_;
  std::unique_ptr<Server> server_;  // guarded by mutex_, also during construction and destruction: two servers would share one name
};

Published::Published(Source source, const std::function<void(std::string_view)>& warn) {
  const char* const wish = secure_getenv("DWELL_LIVE");
  if (wish != nullptr && std::string_view(wish) == "off") return;
  try {
    ThisProcess& process = ThisProcess::one();
    id_ = process.add(std::move(source));
    process_ = &process;
  } catch (const Error& error) {
    if (warn) warn("dwell: other processes cannot look at this one: " + error.message());
  }
}

Published::~Published() {
  if (process_ != nullptr && process_ == &ThisProcess::one()) process_->remove(id_);
}

}  // namespace dwell::live
