#include "jit/base/file_stamp.hpp"

#include <sys/stat.h>

namespace dwell::jit {

std::optional<FileStamp> stamp_of(const std::string& path) {
  struct stat at {};
  if (stat(path.c_str(), &at) != 0 || !S_ISREG(at.st_mode)) return std::nullopt;
  return FileStamp{static_cast<std::uint64_t>(at.st_dev), static_cast<std::uint64_t>(at.st_ino), static_cast<std::uint64_t>(at.st_size),
                   static_cast<std::int64_t>(at.st_mtim.tv_sec), static_cast<std::int64_t>(at.st_mtim.tv_nsec)};
}

std::string build_of(const std::filesystem::path& file) {
  const auto stamp = stamp_of(file);
  if (!stamp) return file.string() + " (no file)";
  return file.string() + " (" + std::to_string(stamp->size) + " bytes of " + std::to_string(stamp->modified_seconds) + "." +
         std::to_string(stamp->modified_ns) + ")";
}

}  // namespace dwell::jit
