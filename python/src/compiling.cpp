#include "compiling.hpp"

#include <nanobind/stl/string.h>

#include <system_error>
#include <utility>

namespace dwell::python {

namespace {
constexpr std::chrono::seconds kStep{1};
}

Compiling::Compiling(const RuntimeState& runtime, std::string what) : what_(std::move(what)) {
  if (PyObject* const progress = runtime.progress().get(); progress != nullptr && progress != Py_False)
    told_ = nb::module_::import_("dwell._progress").attr("teller")(nb::borrow(progress));
  const bool wanted = told_.is_valid() && !told_.is_none();
  unlocked_.emplace();
  if (!wanted) return;
  try {
    watcher_ = std::thread(&Compiling::watch, this);
  } catch (const std::system_error&) {
    // No thread to be had: nobody is told, and the compiler is waited for all the same.
  }
}

Compiling::~Compiling() {
  if (watcher_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_one();
    watcher_.join();
  }
  unlocked_.reset();
  if (begun_) tell(true);
}

void Compiling::watch() {
  std::unique_lock lock(mutex_);
  for (auto next = start_ + kStep; !ended_.wait_until(lock, next, [this] { return over_; }); next += kStep) {
    lock.unlock();
    const CallbackScope scope;
    if (!scope.entered()) return;
    begun_ = true;
    tell(false);
    if (!told_.is_valid()) return;
    lock.lock();
  }
}

void Compiling::tell(bool done) {
  if (!told_.is_valid()) return;
  try {
    told_(what_, std::chrono::duration<double>(Clock::now() - start_).count(), done);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable(told_);
    told_.reset();
  }
}

}  // namespace dwell::python
