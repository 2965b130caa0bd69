#include "jit/base/file_stamp.hpp"

#include <sys/stat.h>

#include <algorithm>

namespace dwell::jit {

std::chrono::nanoseconds since_1970(const timespec& time) {
  using std::chrono::nanoseconds;
  constexpr auto limit = std::chrono::duration_cast<std::chrono::seconds>(nanoseconds::max()).count() - 1;
  return std::chrono::seconds(std::clamp<std::int64_t>(time.tv_sec, -limit, limit)) + nanoseconds(time.tv_nsec);
}

namespace {

std::optional<FileStamp> stamp_of_type(const std::string& path, mode_t type) {
  struct stat at {};
  if (stat(path.c_str(), &at) != 0 || (at.st_mode & S_IFMT) != type) return std::nullopt;
  return FileStamp{{static_cast<std::uint64_t>(at.st_dev), static_cast<std::uint64_t>(at.st_ino)},
                   static_cast<std::uint64_t>(at.st_size),
                   since_1970(at.st_mtim),
                   since_1970(at.st_ctim)};
}

}  // namespace

std::optional<FileStamp> stamp_of(const std::string& path) { return stamp_of_type(path, S_IFREG); }
std::optional<FileStamp> folder_stamp_of(const std::string& path) { return stamp_of_type(path, S_IFDIR); }

std::string build_of(const std::filesystem::path& file) {
  const auto stamp = stamp_of(file);
  if (!stamp) return file.string() + " (no file)";
  return file.string() + " (" + std::to_string(stamp->size) + " bytes of " + std::to_string(stamp->modified.count()) + " ns)";
}

}  // namespace dwell::jit
