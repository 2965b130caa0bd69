// Clients of processes that publish.
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

// Queries one process. Members throw the error that the process answers, errc::closed when it has ended or closed the runtime, and
// errc::io_failed when it does not answer.
class Client {
 public:
  // Returns this user's processes that publish, by number.
  static std::vector<Process> processes();
  // Returns the client of a process by number: this user's, or anybody's for root. Throws errc::invalid_argument if it does not publish.
  static Client of(pid_t pid);
  // Returns the client of the only process that publishes. Throws errc::invalid_argument if there is none, or several.
  static Client of_the_only_one();

  const Process& process() const { return process_; }

  RuntimeIds runtimes() const;
  Metrics metrics(std::uint64_t runtime) const;
  Diagnosis diagnosis(std::uint64_t runtime) const;
  LogPage logs(std::uint64_t runtime, std::uint64_t after, std::size_t most) const;
  std::string inspect(std::uint64_t runtime, const std::string& name) const;
  HeapStatistics heap(std::uint64_t runtime) const;
  // These wait for running tasks of the process.
  HeapCensus census(std::uint64_t runtime) const;
  HeapVerification verify(std::uint64_t runtime) const;
  // Records a trace for `time`, and writes it in "perfetto" or "chrome" format as it arrives. Returns the number of dropped events.
  std::uint64_t trace(std::uint64_t runtime, std::chrono::nanoseconds time, const std::string& format, std::ostream& to) const;

 private:
  Client(Directory directory, const Process& process) : directory_(std::move(directory)), process_(process) {}
  template <class Take>
  std::string ask(const std::string& request, std::chrono::nanoseconds patience, Take take) const;
  std::string answer_to(const std::string& request) const;
  std::string answer_to(const std::string& request, std::chrono::nanoseconds patience) const;

  Directory directory_;
  Process process_;
};

}  // namespace dwell::live
