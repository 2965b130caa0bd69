#include "jit/cache/file_cache.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include <dwell/error.hpp>

#include "jit/base/file_stamp.hpp"
#include "jit/cache/cache_entry.hpp"
#include "jit/cache/cache_folder.hpp"

namespace dwell::jit {

namespace {

// Uses within this many seconds are noted once: precise enough for eviction.
constexpr double kRecent = 60;

// Returns an environment variable; empty if unset, or in a program with elevated privileges.
std::string variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::filesystem::path home() {
  if (std::string set = variable("HOME"); !set.empty()) return set;
  std::vector<char> buffer(16384);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return {};
  return found->pw_dir;
}

std::uint64_t max_bytes_from_environment(const FileCache::Warn& warn) {
  const std::string text = variable("DWELL_CACHE_MAX_BYTES");
  if (text.empty()) return FileCache::kDefaultMaxBytes;
  std::uint64_t bytes = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (problem == std::errc() && end == text.data() + text.size()) return bytes;
  if (warn) {
    warn("dwell: DWELL_CACHE_MAX_BYTES is '" + text + "' and should be a number of bytes, or 0 for no limit; " +
         std::to_string(FileCache::kDefaultMaxBytes) + " is taken");
  }
  return FileCache::kDefaultMaxBytes;
}

}  // namespace

struct FileCache::State {
  std::filesystem::path directory;
  Warn warn;
  std::uint64_t max_bytes = kDefaultMaxBytes;
  std::atomic<bool> warned = false;
  // Bytes that may be stored before the folder is tidied again. An estimate: other processes store too.
  std::atomic<std::int64_t> before_tidying = 0;

  void say_unusable(const std::string& reason) {
    if (!warned.exchange(true, std::memory_order_relaxed) && warn) {
      warn("dwell: the cache in " + directory.string() + " is not used: " + reason);
    }
  }

  void say_broken(const std::string& key, const std::string& reason, bool removed) const {
    if (!warn) return;
    warn("dwell: entry " + (directory / key).string() + " of the cache: " + reason + (removed ? "; it was removed" : "; it is not used"));
  }

  // Opens the folder, or warns once.
  File open_or_say(bool make) {
    OpenedFolder folder = open_folder(directory, make);
    if (!folder.problem.empty()) say_unusable(folder.problem);
    return std::move(folder.file);
  }

  // Opens the folder, or throws errc::io_failed.
  File open_or_throw() const {
    OpenedFolder folder = open_folder(directory, false);
    if (!folder.problem.empty()) {
      throw Error(errc::io_failed, "the cache in " + directory.string() + " cannot be used: " + folder.problem +
                                       "; set DWELL_CACHE_DIR to a folder of your own");
    }
    return std::move(folder.file);
  }

  void tidy_when_due(const File& folder, std::string_view key, std::size_t stored) {
    const auto bytes = static_cast<std::int64_t>(stored);
    if (before_tidying.fetch_sub(bytes, std::memory_order_relaxed) > bytes) return;
    constexpr std::uint64_t kMost = kDefaultMaxBytes / 64;
    std::uint64_t next = kMost;
    try {
      const std::uint64_t total = tidy(folder, key, max_bytes);
      if (max_bytes != 0) next = std::min(max_bytes - std::min(total, max_bytes), kMost);
    } catch (const Error&) {
      // A folder that cannot be listed may grow beyond its limit.
    }
    before_tidying.store(static_cast<std::int64_t>(next), std::memory_order_relaxed);
  }
};

FileCache::FileCache(std::filesystem::path directory, Warn warn, std::uint64_t max_bytes) : state_(std::make_shared<State>()) {
  state_->directory = std::move(directory);
  state_->warn = std::move(warn);
  state_->max_bytes = max_bytes;
}

FileCache FileCache::from_environment(Warn warn) {
  if (variable("DWELL_CACHE") == "off") return {};
  std::filesystem::path directory = variable("DWELL_CACHE_DIR");
  if (directory.empty()) {
    directory = variable("XDG_CACHE_HOME");
    if (directory.empty() && !home().empty()) directory = home() / ".cache";
    if (directory.empty()) return {};
    directory /= "dwell";
  }
  const std::uint64_t max_bytes = max_bytes_from_environment(warn);
  return FileCache(std::move(directory), std::move(warn), max_bytes);
}

std::optional<std::vector<std::byte>> FileCache::load(std::string_view key) const {
  if (!state_ || !is_key(key)) return std::nullopt;
  const File folder = state_->open_or_say(false);
  if (!folder) return std::nullopt;
  const std::string name(key);
  FoundEntry found = read_entry(folder, name);
  if (found.payload) {
    const double seconds = age(found.status);
    if (seconds < 0 || seconds > kRecent) touch(folder, name);
    return std::move(found.payload);
  }
  // Of several processes that find a broken entry, only the one that removes it warns.
  if (found.present) {
    const Removal removal = found.broken ? remove_seen(folder, name, found.status) : Removal::refused;
    if (removal != Removal::gone) state_->say_broken(name, found.fault, removal == Removal::done);
  }
  return std::nullopt;
}

void FileCache::store(std::string_view key, std::span<const std::byte> payload, std::string_view description) const {
  if (!state_ || !is_key(key) || payload.size() > kLargestPayload) return;
  try {
    write(key, payload, description);
  } catch (const std::bad_alloc&) {
    // Do without: the caller has the payload.
  }
}

void FileCache::write(std::string_view key, std::span<const std::byte> payload, std::string_view description) const {
  const File folder = state_->open_or_say(true);
  if (!folder) return;
  // Allocate before creating the file: an exception would leave it behind.
  const std::string name(key);
  const std::string temporary = temporary_name(key);
  const std::vector<std::byte> head = entry_head(key, description, payload);
  const File file(openat(folder.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return state_->say_unusable(std::strerror(errno));
  // Sync the file before the rename: else a power cut could leave a torn entry. The sync of the folder makes the entry durable.
  if (!file.write_all(head) || !file.write_all(payload) || fsync(file.get()) != 0) {
    const int reason = errno;
    unlinkat(folder.get(), temporary.c_str(), 0);
    return state_->say_unusable(std::strerror(reason));
  }
  if (renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) != 0) {
    // ENOENT: another process has cleared the cache.
    const int reason = errno;
    unlinkat(folder.get(), temporary.c_str(), 0);
    if (reason != ENOENT) state_->say_unusable(std::strerror(reason));
    return;
  }
  fsync(folder.get());
  state_->tidy_when_due(folder, key, head.size() + payload.size());
}

bool FileCache::remove(std::string_view key) const {
  if (!state_ || !is_key(key)) return false;
  const File folder = state_->open_or_say(false);
  return folder && unlinkat(folder.get(), std::string(key).c_str(), 0) == 0;
}

KeyLock FileCache::lock(std::string_view key, std::chrono::milliseconds timeout) const {
  if (!state_ || !is_key(key)) return {};
  File folder = state_->open_or_say(true);
  if (!folder) return {};
  return {std::move(folder), lock_name(key), timeout};
}

std::filesystem::path FileCache::directory() const { return state_ ? state_->directory : std::filesystem::path(); }

std::uint64_t FileCache::max_bytes() const { return state_ ? state_->max_bytes : 0; }

std::vector<FileCache::Entry> FileCache::entries() const {
  std::vector<Entry> entries;
  const File folder = state_ ? state_->open_or_throw() : File();
  if (!folder) return entries;
  for (const OwnFile& file : own_files(folder)) {
    if (file.kind != OwnFile::Kind::entry) continue;
    const auto last_use = std::chrono::duration_cast<std::chrono::system_clock::duration>(since_1970(file.status.st_mtim));
    entries.push_back({file.name, describe_entry(folder, file.name), file.bytes(), std::chrono::system_clock::time_point(last_use)});
  }
  std::ranges::sort(entries, {}, &Entry::last_use);
  return entries;
}

FileCache::Verified FileCache::verify() const {
  Verified verified;
  const File folder = state_ ? state_->open_or_throw() : File();
  if (!folder) return verified;
  for (const OwnFile& file : own_files(folder)) {
    if (file.kind != OwnFile::Kind::entry) continue;
    const FoundEntry found = read_entry(folder, file.name);
    if (!found.present) continue;
    ++verified.entries;
    if (found.payload) continue;
    const bool removed = found.broken && remove_seen(folder, file.name, found.status) != Removal::refused;
    verified.broken.push_back({file.name, found.fault, removed});
  }
  return verified;
}

std::size_t FileCache::clear() const {
  const File folder = state_ ? state_->open_or_throw() : File();
  if (!folder) return 0;
  std::size_t removed = 0;
  for (const OwnFile& file : own_files(folder)) {
    if (file.kind == OwnFile::Kind::lock) {
      remove_free_lock(folder, file);
    } else if (unlinkat(folder.get(), file.name.c_str(), 0) == 0 && file.kind == OwnFile::Kind::entry) {
      ++removed;
    }
  }
  return removed;
}

}  // namespace dwell::jit
