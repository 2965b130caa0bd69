// The folder in which the processes of one user publish.
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

// The open folder: $DWELL_LIVE_DIR, else dwell-UID in /dev/shm, or without that in $TMPDIR or /tmp. Used only if it belongs to the user and
// is closed to all others. All files are accessed through the open folder, so the checked folder is the one in use.
//
// Files are named by process: PID.START.sock is its socket, PID.START.RUNTIME.flight the flight recorder of one of its runtimes. Listing
// and publishing remove the sockets of dead processes. The newest eight flight recorders of dead processes are kept for a day.
class Directory {
 public:
  static constexpr std::size_t kFlights = 8;  // of dead processes

  // Opens this user's folder; creates it if missing. Throws errc::io_failed.
  static Directory make();
  // Opens any user's folder; nothing if there is none. Throws errc::io_failed when it does not belong to the user, or is open to others.
  static std::optional<Directory> find(uid_t owner);

  const std::filesystem::path& path() const { return path_; }

  // Returns processes whose sockets answer, by number. Removes stale files.
  std::vector<Process> published() const;

  // Opens the listening socket of `process`, for its owner only. Throws errc::io_failed.
  File listen(const Process& process) const;
  // Unlinks the socket before it is closed, so that it is not confused with the process's next one.
  void withdraw(const Process& process) const noexcept;
  // Connects; nothing, with errno, when the process has ended or withdrawn. The connection is non-blocking.
  File connect(const Process& process) const;

  std::filesystem::path flight_of(const Process& process, std::uint64_t runtime) const {
    return path_ / name_of(process, (std::to_string(runtime) + ".flight").c_str()).data();
  }
  // Returns the files of dead processes, newest first.
  std::vector<std::filesystem::path> flights() const;

 private:
  Directory(std::filesystem::path path, File folder) : path_(std::move(path)), folder_(std::move(folder)) {}
  static std::filesystem::path where(uid_t owner);
  using Name = std::array<char, 64>;
  static Name name_of(const Process& process, const char* kind) noexcept;
  File connect(const char* name) const;
  // Returns a path to a file in the open folder that fits a socket's address, however long the folder's own path is.
  std::string way_to(const char* name) const;

  std::filesystem::path path_;
  File folder_;
};

}  // namespace dwell::live
