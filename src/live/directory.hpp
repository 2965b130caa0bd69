// The folder in which the processes of one user publish, and what lies there.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "live/process.hpp"

namespace dwell::live {

// The folder, opened: $DWELL_LIVE_DIR, else dwell-UID in /dev/shm, and where that is missing in $TMPDIR or /tmp. It belongs to the user and
// is open to nobody else, or it is not used. Everything in it is reached through the open folder, so the one that was checked is the one in
// use.
//
// Files are named by process: PID.START.sock is its socket, PID.START.RUNTIME.flight the flight recorder of one of its runtimes. Whoever
// lists or publishes removes the sockets of processes that are dead. Flight recorders of the dead are kept for a day, the youngest eight of
// them.
class Directory {
 public:
  static constexpr std::size_t kFlights = 8;  // of dead processes

  // Of this user; made if it is missing. Throws errc::io_failed.
  static Directory make();
  // Of any user; nothing when there is none. Throws errc::io_failed when it is not the user's own, or open to others.
  static std::optional<Directory> find(uid_t owner);

  const std::filesystem::path& path() const { return path_; }

  // Processes whose sockets answer, by number. Removes what nobody needs.
  std::vector<Process> published() const;

  // A socket that listens in the name of `process`, for its owner alone. Throws errc::io_failed.
  File listen(const Process& process) const;
  // Takes the socket's name away, before it is closed: nobody takes the next one of the process for it.
  void withdraw(const Process& process) const noexcept;
  // A connection; nothing, with errno, when the process is gone or has withdrawn. It does not block.
  File connect(const Process& process) const;

  std::filesystem::path flight_of(const Process& process, std::uint64_t runtime) const {
    return path_ / name_of(process, (std::to_string(runtime) + ".flight").c_str()).data();
  }
  // Those of dead processes, the youngest first.
  std::vector<std::filesystem::path> flights() const;

 private:
  Directory(std::filesystem::path path, File folder) : path_(std::move(path)), folder_(std::move(folder)) {}
  static std::filesystem::path where(uid_t owner);
  using Name = std::array<char, 64>;
  static Name name_of(const Process& process, const char* kind) noexcept;
  File connect(const char* name) const;
  // A way to a file in the open folder that fits into the address of a socket, however long the folder's own path is.
  std::string way_to(const char* name) const;

  std::filesystem::path path_;
  File folder_;
};

}  // namespace dwell::live
