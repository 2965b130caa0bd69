#include "live/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include <dwell/error.hpp>

namespace dwell::live {

namespace {

constexpr const char* kSocket = "sock";
constexpr const char* kUnfinished = "new";       // a socket that does not listen yet
constexpr std::string_view kFlight = ".flight";  // follows the number of the runtime
constexpr time_t kMinute = 60;
constexpr time_t kDay = 24 * 60 * kMinute;

Error failure(const std::filesystem::path& path, const std::string& problem) {
  return Error(
      errc::io_failed,
      path.string() + ": " + problem + ". Processes publish there: set DWELL_LIVE_DIR to a folder of your own that nobody else may enter",
      {"file", path.string()});
}

bool is_folder(const char* path) {
  struct stat status {};
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

// One file of the folder.
struct Found {
  std::string name;
  Process process;
  std::string kind;
  timespec written = {};
};

bool is_younger(const Found& one, const Found& other) {
  return std::pair(one.written.tv_sec, one.written.tv_nsec) > std::pair(other.written.tv_sec, other.written.tv_nsec);
}

// "12.345.sock"
std::optional<Found> parse(std::string_view name) {
  Found found{std::string(name), {}, {}, {}};
  const char* const end = name.data() + name.size();
  const auto [pid_end, pid_error] = std::from_chars(name.data(), end, found.process.pid);
  if (pid_error != std::errc() || pid_end == end || *pid_end != '.') return std::nullopt;
  const auto [start_end, start_error] = std::from_chars(pid_end + 1, end, found.process.start);
  if (start_error != std::errc() || start_end == end || *start_end != '.') return std::nullopt;
  found.kind.assign(start_end + 1, end);
  return found;
}

std::vector<Found> files_of(int folder) {
  const int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const stream = own < 0 ? nullptr : fdopendir(own);
  if (stream == nullptr) {
    if (own >= 0) close(own);
    return {};
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> closes(stream, closedir);
  std::vector<Found> files;
  while (const dirent* const item = readdir(stream)) {
    std::optional<Found> found = parse(item->d_name);
    struct stat status {};
    // Another process may have removed it by now.
    if (!found || fstatat(folder, item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    found->written = status.st_mtim;
    files.push_back(*std::move(found));
  }
  return files;
}

}  // namespace

std::filesystem::path Directory::where(uid_t owner) {
  if (const char* const named = secure_getenv("DWELL_LIVE_DIR"); named != nullptr && *named != 0) return named;
  const char* const temporary = secure_getenv("TMPDIR");
  const bool absolute = temporary != nullptr && *temporary == '/';
  const std::filesystem::path parent = is_folder("/dev/shm") ? "/dev/shm" : absolute ? temporary : "/tmp";
  return parent / ("dwell-" + std::to_string(owner));
}

std::optional<Directory> Directory::find(uid_t owner) {
  const std::filesystem::path path = where(owner);
  File folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder && errno == ENOENT) return std::nullopt;
  struct stat status {};
  if (!folder || fstat(folder.get(), &status) != 0) throw failure(path, std::strerror(errno));
  if (status.st_uid != owner) throw failure(path, "it belongs to another user");
  if ((status.st_mode & 0777U) != 0700U) throw failure(path, "others may enter it");
  return Directory(path, std::move(folder));
}

Directory Directory::make() {
  const std::filesystem::path path = where(geteuid());
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) throw failure(path, std::strerror(errno));
  std::optional<Directory> directory = find(geteuid());
  if (!directory) throw failure(path, "it was removed at this moment");
  static_cast<void>(directory->published());
  return *std::move(directory);
}

std::vector<Process> Directory::published() const {
  std::vector<Process> live;
  std::vector<Found> flights;
  const time_t now = time(nullptr);
  for (Found& file : files_of(folder_.get())) {
    if (file.kind == kSocket) {
      // A socket without a listener refuses; one with a full backlog returns EAGAIN.
      if (connect(file.name.c_str()) || errno == EAGAIN) {
        live.push_back(file.process);
      } else if (errno == ECONNREFUSED) {
        unlinkat(folder_.get(), file.name.c_str(), 0);
      }
    } else if (file.kind == kUnfinished) {
      if (now - file.written.tv_sec > kMinute && !file.process.lives()) unlinkat(folder_.get(), file.name.c_str(), 0);
    } else if (file.kind.ends_with(kFlight)) {
      flights.push_back(std::move(file));
    }
  }
  std::erase_if(flights, [&](const Found& file) { return file.process.lives() || std::ranges::count(live, file.process) != 0; });
  std::ranges::sort(flights, is_younger);
  for (std::size_t i = 0; i < flights.size(); ++i)
    if (i >= kFlights || now - flights[i].written.tv_sec > kDay) unlinkat(folder_.get(), flights[i].name.c_str(), 0);
  std::ranges::sort(live);
  return live;
}

std::vector<std::filesystem::path> Directory::flights() const {
  std::vector<Found> found = files_of(folder_.get());
  std::erase_if(found, [](const Found& file) { return !file.kind.ends_with(kFlight) || file.process.lives(); });
  std::ranges::sort(found, is_younger);
  std::vector<std::filesystem::path> paths;
  for (const Found& file : found) paths.push_back(path_ / file.name);
  return paths;
}

File Directory::listen(const Process& process) const {
  const Name name = name_of(process, kUnfinished);
  unlinkat(folder_.get(), name.data(), 0);
  File socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  way_to(name.data()).copy(address.sun_path, sizeof(address.sun_path) - 1);
  // Named only once it listens: before, it would refuse like the socket of a dead process.
  if (!socket || bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      fchmodat(folder_.get(), name.data(), 0600, 0) != 0 || ::listen(socket.get(), 16) != 0 ||
      renameat(folder_.get(), name.data(), folder_.get(), name_of(process, kSocket).data()) != 0) {
    const int reason = errno;
    unlinkat(folder_.get(), name.data(), 0);
    throw failure(path_, std::string("cannot make a socket: ") + std::strerror(reason));
  }
  return socket;
}

void Directory::withdraw(const Process& process) const noexcept { unlinkat(folder_.get(), name_of(process, kSocket).data(), 0); }

File Directory::connect(const Process& process) const { return connect(name_of(process, kSocket).data()); }

File Directory::connect(const char* name) const {
  File socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return {};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  way_to(name).copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return socket;
  const int reason = errno;
  socket = File();
  errno = reason;
  return {};
}

Directory::Name Directory::name_of(const Process& process, const char* kind) noexcept {
  Name name{};
  std::snprintf(name.data(), name.size(), "%d.%llu.%s", process.pid, static_cast<unsigned long long>(process.start), kind);
  return name;
}

std::string Directory::way_to(const char* name) const { return "/proc/self/fd/" + std::to_string(folder_.get()) + "/" + name; }

}  // namespace dwell::live
