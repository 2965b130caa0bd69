// Threads that cannot be started: an Error that names the limits.
#pragma once

#include <string>
#include <system_error>

#include <dwell/error.hpp>

namespace dwell {

// The Error for a `failure` of std::thread: errc::out_of_memory, with the limits of the system that may be the cause. `whose` names the
// thread ("worker 17 of 64"), `option` the change that helps in the program ("lower Options::workers"; null: none).
Error no_thread(const std::system_error& failure, const std::string& whose, const char* option);

// The result of `make`, which starts a thread. Throws no_thread(...) instead of std::system_error.
template <class Make>
auto with_thread(const std::string& whose, const char* option, Make&& make) {
  try {
    return make();
  } catch (const Error&) {
    throw;  // a std::system_error too
  } catch (const std::system_error& failure) {
    throw no_thread(failure, whose, option);
  }
}

}  // namespace dwell
