#include "jit/file_cache.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "image/byte_stream.hpp"
#include "jit/sha256.hpp"

namespace dwell::jit {

namespace {

// An entry: magic and schema, key, checksum of the payload, payload. A change of this layout, or of what payloads mean, is a new schema.
constexpr std::uint64_t kMagic = 0x0000314548434144;  // "DACHE1"
constexpr std::uint32_t kSchema = 1;
constexpr std::uint64_t kLargest = std::uint64_t{256} << 20U;

// A file descriptor, closed at the end of its life.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&&) = delete;
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

std::optional<std::vector<std::byte>> read_all(int file, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t done = 0; done < size;) {
    const ssize_t got = read(file, bytes.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

bool is_ours(const struct stat& status) { return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0; }

bool is_key(std::string_view key) {
  return !key.empty() && key.size() <= 128 && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

std::vector<std::byte> encode(std::string_view key, std::span<const std::byte> payload) {
  image::ByteWriter writer;
  writer.number(kMagic);
  writer.number(kSchema);
  writer.counted(key);
  writer.raw(sha256(payload));
  writer.counted(payload);
  return std::move(writer).take();
}

std::optional<std::vector<std::byte>> decode(std::string_view key, std::span<const std::byte> entry) {
  image::ByteReader reader(entry);
  if (reader.number<std::uint64_t>() != kMagic || reader.number<std::uint32_t>() != kSchema || reader.text() != key) return std::nullopt;
  const auto checksum = reader.raw(std::tuple_size_v<Digest>);
  const auto payload = reader.counted();
  if (!reader.complete()) return std::nullopt;
  const Digest digest = sha256(payload);
  if (!std::equal(checksum.begin(), checksum.end(), digest.begin(), digest.end())) return std::nullopt;
  return std::vector<std::byte>(payload.begin(), payload.end());
}

// Different in every call of every process, also of processes in containers that share a folder and number themselves alike.
std::string unique_suffix() {
  static std::atomic<unsigned> calls = 0;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return "." + std::to_string(getpid()) + "." + std::to_string(calls++) + "." + std::to_string(now.tv_nsec);
}

// A variable of the environment; empty when unset, or in a program that runs with more rights than its user.
std::string variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::filesystem::path home() {
  if (const std::string set = variable("HOME"); !set.empty()) return set;
  std::vector<char> buffer(16384);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return {};
  return found->pw_dir;
}

}  // namespace

struct FileCache::State {
  std::filesystem::path directory;
  Warn warn;
  std::atomic<bool> warned = false;

  void say(const std::string& reason) {
    if (!warned.exchange(true) && warn) warn("dwell: the cache in " + directory.string() + " is not used: " + reason);
  }

  // The folder, opened, or an invalid file. All entries are reached through it, so what was checked is what is used.
  File open_directory(bool make) {
    if (make) {
      // What has to be made is made for this user alone; parents that exist stay as they are.
      std::filesystem::path so_far;
      for (const auto& part : directory) mkdir((so_far /= part).c_str(), 0700);
    }
    File folder(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat status {};
    if (!folder || fstat(folder.get(), &status) != 0) {
      if (make) say(std::strerror(errno));
      return File(-1);
    }
    if (!is_ours(status)) {
      say("it belongs to another user, or others may write to it");
      return File(-1);
    }
    return folder;
  }
};

FileCache::FileCache(std::filesystem::path directory, Warn warn) : state_(std::make_shared<State>()) {
  state_->directory = std::move(directory);
  state_->warn = std::move(warn);
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
  return FileCache(std::move(directory), std::move(warn));
}

std::optional<std::vector<std::byte>> FileCache::load(std::string_view key) const {
  if (!state_ || !is_key(key)) return std::nullopt;
  const File folder = state_->open_directory(false);
  if (!folder) return std::nullopt;
  const std::string name(key);
  const File file(openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::nullopt;
  struct stat status {};
  if (file && fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && is_ours(status) &&
      static_cast<std::uint64_t>(status.st_size) <= kLargest) {
    if (const auto entry = read_all(file.get(), static_cast<std::size_t>(status.st_size))) {
      if (auto payload = decode(key, *entry)) return payload;
    }
  }
  unlinkat(folder.get(), name.c_str(), 0);
  return std::nullopt;
}

void FileCache::store(std::string_view key, std::span<const std::byte> payload) const {
  if (!state_ || !is_key(key) || payload.size() > kLargest / 2) return;
  const File folder = state_->open_directory(true);
  if (!folder) return;
  const std::string name(key);
  const std::string temporary = "." + name + unique_suffix();
  const File file(openat(folder.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return state_->say(std::strerror(errno));
  // A file system that renames before it writes would leave a torn entry after a power cut; the sync keeps that from being read at all.
  const bool written = write_all(file.get(), encode(key, payload)) && fsync(file.get()) == 0;
  if (written && renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) == 0) return;
  const int reason = errno;
  unlinkat(folder.get(), temporary.c_str(), 0);
  state_->say(std::strerror(reason));
}

std::filesystem::path FileCache::directory() const { return state_ ? state_->directory : std::filesystem::path(); }

}  // namespace dwell::jit
