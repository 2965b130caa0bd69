#include "jit/cache/cache_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include <dwell/error.hpp>

#include "jit/cache/cache_entry.hpp"

namespace dwell::jit {

namespace {

constexpr std::string_view kLockPrefix = ".lock-";
constexpr std::size_t kKeySize = 64;
constexpr double kAbandoned = 3600;  // seconds after which a temporary file counts as abandoned

std::optional<OwnFile::Kind> kind_of(std::string_view name) {
  if (is_key(name)) return OwnFile::Kind::entry;
  if (name.starts_with(kLockPrefix) && is_key(name.substr(kLockPrefix.size()))) return OwnFile::Kind::lock;
  const bool temporary = name.size() > kKeySize + 1 && name[0] == '.' && name[kKeySize + 1] == '.' && is_key(name.substr(1, kKeySize));
  return temporary ? std::optional(OwnFile::Kind::temporary) : std::nullopt;
}

bool before(const OwnFile& a, const OwnFile& b) {
  const timespec& x = a.status.st_mtim;
  const timespec& y = b.status.st_mtim;
  return x.tv_sec != y.tv_sec ? x.tv_sec < y.tv_sec : x.tv_nsec < y.tv_nsec;
}

}  // namespace

OpenedFolder open_folder(const std::filesystem::path& directory, bool make) {
  const auto open_it = [&] { return File(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); };
  OpenedFolder folder{open_it(), {}};
  if (!folder.file && errno == ENOENT && make) {
    std::filesystem::path so_far;
    for (const auto& part : directory) mkdir((so_far /= part).c_str(), 0700);
    folder.file = open_it();
  }
  struct stat status {};
  if (!folder.file) {
    if (make || errno != ENOENT) folder.problem = std::strerror(errno);
  } else if (fstat(folder.file.get(), &status) != 0) {
    folder = {File(), std::strerror(errno)};
  } else if (!is_ours(status)) {
    folder = {File(), kNotOurs};
  }
  return folder;
}

bool is_key(std::string_view name) {
  return name.size() == kKeySize && std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string temporary_name(std::string_view key) {
  // Unique also among containers that share the folder and reuse process ids.
  static std::atomic<unsigned> calls = 0;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return "." + std::string(key) + "." + std::to_string(getpid()) + "." + std::to_string(calls.fetch_add(1, std::memory_order_relaxed)) +
         "." + std::to_string(now.tv_nsec);
}

std::string lock_name(std::string_view key) { return std::string(kLockPrefix) + std::string(key); }

std::vector<OwnFile> own_files(const File& folder) {
  // Open the folder again, for a read position of its own.
  File again(openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> list(again ? fdopendir(again.get()) : nullptr, closedir);
  if (!list) throw Error(errc::io_failed, std::string("cannot list the folder of the cache: ") + std::strerror(errno));
  again.release();
  std::vector<OwnFile> files;
  for (;;) {
    const dirent* const item = readdir(list.get());  // NOLINT(concurrency-mt-unsafe): the stream is local to this call
    if (item == nullptr) return files;
    const auto kind = kind_of(item->d_name);
    OwnFile file{item->d_name, kind.value_or(OwnFile::Kind::entry), {}};
    // Another process may have removed it.
    if (kind && fstatat(folder.get(), item->d_name, &file.status, AT_SYMLINK_NOFOLLOW) == 0) files.push_back(std::move(file));
  }
}

void touch(const File& folder, const std::string& name) {
  const timespec times[] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  utimensat(folder.get(), name.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

double age(const struct stat& status) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec - status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - status.st_mtim.tv_nsec);
}

std::uint64_t tidy(const File& folder, std::string_view keep, std::uint64_t max_bytes) {
  std::vector<OwnFile> entries;
  std::uint64_t total = 0;
  for (OwnFile& file : own_files(folder)) {
    const double seconds = age(file.status);
    if (seconds < 0) {
      touch(folder, file.name);
      if (fstatat(folder.get(), file.name.c_str(), &file.status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    }
    if (file.kind == OwnFile::Kind::entry) {
      total += file.bytes();
      entries.push_back(std::move(file));
    } else if (seconds < kAbandoned) {
      continue;
    } else if (file.kind == OwnFile::Kind::temporary) {
      remove_seen(folder, file.name, file.status);
    } else {
      remove_free_lock(folder, file);
    }
  }
  if (max_bytes == 0 || total <= max_bytes) return total;
  std::ranges::sort(entries, before);
  // Remove a tenth more than needed, so the next store need not tidy again.
  for (const OwnFile& entry : entries) {
    if (total <= max_bytes - max_bytes / 10) break;
    if (entry.name != keep && remove_seen(folder, entry.name, entry.status) != Removal::refused) total -= entry.bytes();
  }
  return total;
}

void remove_free_lock(const File& folder, const OwnFile& lock) {
  const File file(openat(folder.get(), lock.name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file && flock(file.get(), LOCK_EX | LOCK_NB) == 0) remove_seen(folder, lock.name, lock.status);
}

}  // namespace dwell::jit
