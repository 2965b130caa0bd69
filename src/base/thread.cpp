#include "base/thread.hpp"

#include <sys/resource.h>

#include <cstdint>

namespace dwell {

Error no_thread(const std::system_error& failure, const std::string& whose, const char* option) {
  std::string text = "cannot start a thread for " + whose + ": " + failure.code().message() + ". ";
  ErrorFields fields{"thread", whose};
  rlimit processes{};
  if (getrlimit(RLIMIT_NPROC, &processes) == 0 && processes.rlim_cur != RLIM_INFINITY) {
    fields.limit = processes.rlim_cur;
    text += "This user may have " + std::to_string(processes.rlim_cur) + " threads (ulimit -u). ";
  }
  text += "Raise the limits of threads (ulimit -u, pids.max of the control group) and of memory (ulimit -v)";
  if (option != nullptr) text += std::string(", or ") + option;
  return Error(errc::out_of_memory, text, std::move(fields));
}

}  // namespace dwell
