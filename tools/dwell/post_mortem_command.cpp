#include "post_mortem_command.hpp"

#include <unistd.h>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "live/directory.hpp"
#include "live/flight.hpp"

namespace dwell::tool {

Exit post_mortem_command(const PostMortemOptions& options, std::ostream& out) {
  std::filesystem::path file = options.file;
  std::string which;
  if (file.empty()) {
    const std::optional<live::Directory> directory = live::Directory::find(geteuid());
    const auto files = directory ? directory->flights() : std::vector<std::filesystem::path>();
    if (files.empty())
      throw Failure(
          Exit::mistake,
          "dwell: error: no process of yours has left a flight recorder: runtimes that end well remove theirs, and those of others "
          "go after a day");
    file = files.front();
    if (files.size() > 1) which = ", the youngest of " + std::to_string(files.size());
  }
  const live::Flight flight = live::read_flight(file);
  out << file.string() << which << '\n' << live::to_string(flight, options.last);
  return Exit::success;
}

}  // namespace dwell::tool
