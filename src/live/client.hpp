// Looks at processes that publish.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "live/directory.hpp"
#include "live/process.hpp"
#include "live/wire.hpp"

namespace dwell::live {

// One process, as its answers tell. Members throw what the process answers, errc::closed when it is gone or has closed the runtime, and
// errc::io_failed when it does not answer.
class Client {
 public:
  // All of this user's that publish, by number.
  static std::vector<Process> processes();
  // Of a process by number: of this user, or anybody's for root. Throws errc::invalid_argument when there is none to look at.
  static Client of(pid_t pid);
  // Of the only one that publishes. Throws errc::invalid_argument when there is none, or several.
  static Client of_the_only_one();

  const Process& process() const { return process_; }

  RuntimeIds runtimes() const;
  Metrics metrics(std::uint64_t runtime) const;
  Diagnosis diagnosis(std::uint64_t runtime) const;
  LogPage logs(std::uint64_t runtime, std::uint64_t after, std::size_t most) const;
  std::string inspect(std::uint64_t runtime, const std::string& name) const;
  // Traces for so long, and writes the trace in "perfetto" or "chrome" format as it comes. Returns how many events were dropped.
  std::uint64_t trace(std::uint64_t runtime, std::chrono::nanoseconds time, const std::string& format, std::ostream& to) const;

 private:
  Client(Directory directory, const Process& process) : directory_(std::move(directory)), process_(process) {}
  template <class Take>
  std::string ask(const std::string& request, std::chrono::nanoseconds patience, Take take) const;
  std::string answer_to(const std::string& request) const;

  Directory directory_;
  Process process_;
};

}  // namespace dwell::live
