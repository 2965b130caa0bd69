// The failure of a command, and its exit status.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

namespace dwell::tool {

// Exit statuses.
enum class Exit : int {
  success = 0,
  failed = 1,   // a task failed, or a result is wrong
  mistake = 2,  // a mistake of the user: a wrong job, file or option
};

// Ends a command with one message.
class Failure : public std::runtime_error {
 public:
  Failure(Exit exit, const std::string& message) : std::runtime_error(message), exit_(exit) {}
  Exit exit() const noexcept { return exit_; }

 private:
  Exit exit_;
};

// A place in a text file, as in compilers' messages. Line 0: the whole file.
struct Place {
  std::filesystem::path file;
  unsigned line = 0;

  std::string text() const { return line == 0 ? file.string() : file.string() + ":" + std::to_string(line); }
};

// "job.toml:12: error: ..."
inline Failure failure_at(const Place& place, const std::string& message, Exit exit = Exit::mistake) {
  return {exit, place.text() + ": error: " + message};
}

}  // namespace dwell::tool
