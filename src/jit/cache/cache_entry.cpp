#include "jit/cache/cache_entry.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/byte_stream.hpp"
#include "jit/base/sha256.hpp"

namespace dwell::jit {

namespace {

constexpr std::uint64_t kMagic = 0x0000314548434144;  // "DACHE1"
constexpr std::uint32_t kSchema = 3;
constexpr std::size_t kLongestHead = 512;

constexpr const char* kDamaged = "its content is damaged";
constexpr const char* kNoFile = "it is not a regular file";
constexpr const char* kSchemaFault = "it was written by another version of dwell";

// The bytes before the checksum.
std::vector<std::byte> unchecked_head(std::string_view key, std::string_view description, std::uint64_t payload_bytes) {
  ByteWriter writer;
  writer.number(kMagic);
  writer.number(kSchema);
  writer.counted(key);
  writer.counted(description.substr(0, kLongestDescription));
  writer.number(payload_bytes);
  return std::move(writer).take();
}

Digest checksum_of(std::span<const std::byte> unchecked, std::span<const std::byte> payload) {
  return Sha256().update(unchecked).update(payload).finish();
}

// The head of an entry: views of the bytes it was read from.
struct Head {
  const char* fault = nullptr;  // why the head is invalid; null: valid
  std::string_view description;
  std::uint64_t payload_bytes = 0;
  std::span<const std::byte> unchecked;
  std::span<const std::byte> checksum;
  std::size_t bytes = 0;
};

Head parse_head(std::span<const std::byte> start, std::string_view key) {
  ByteReader reader(start);
  Head head;
  const auto magic = reader.number<std::uint64_t>();
  const auto schema = reader.number<std::uint32_t>();
  const bool same_key = reader.text() == key;
  head.description = reader.text();
  head.payload_bytes = reader.number<std::uint64_t>();
  head.unchecked = start.first(start.size() - reader.left());
  head.checksum = reader.raw(std::tuple_size_v<Digest>);
  head.bytes = start.size() - reader.left();
  if (magic == kMagic && schema != kSchema) {
    head.fault = kSchemaFault;
  } else if (magic != kMagic || !same_key || !reader.ok()) {
    head.fault = kDamaged;
  }
  return head;
}

// Reads and checks an open entry. Sets payload, or fault and broken.
void read_content(const File& file, std::uint64_t size, std::string_view key, FoundEntry& found) {
  std::array<std::byte, kLongestHead> start;
  const auto unreadable = [&] { found.fault = std::string("it cannot be read: ") + std::strerror(errno); };
  const auto broken = [&](const char* fault) {
    found.fault = fault;
    found.broken = true;
  };
  const ssize_t got = file.read_at(start, 0);
  if (got < 0) return unreadable();
  const Head head = parse_head(std::span(start).first(static_cast<std::size_t>(got)), key);
  if (head.fault != nullptr) return broken(head.fault);
  if (head.payload_bytes > kLargestPayload || size != head.bytes + head.payload_bytes) return broken(kDamaged);
  std::vector<std::byte> payload(static_cast<std::size_t>(head.payload_bytes));
  const ssize_t read = file.read_at(payload, static_cast<off_t>(head.bytes));
  if (read < 0) return unreadable();
  const Digest checksum = checksum_of(head.unchecked, payload);
  if (static_cast<std::size_t>(read) != payload.size() || !std::ranges::equal(head.checksum, checksum)) return broken(kDamaged);
  found.payload = std::move(payload);
}

// Never blocks, also if the name is no regular file.
File open_entry(const File& folder, const std::string& key) {
  return File(openat(folder.get(), key.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

}  // namespace

std::vector<std::byte> entry_head(std::string_view key, std::string_view description, std::span<const std::byte> payload) {
  std::vector<std::byte> head = unchecked_head(key, description, payload.size());
  const Digest checksum = checksum_of(head, payload);
  head.insert(head.end(), checksum.begin(), checksum.end());
  return head;
}

bool is_ours(const struct stat& status) { return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0; }

FoundEntry read_entry(const File& folder, const std::string& key) {
  FoundEntry found;
  found.file = open_entry(folder, key);
  const int reason = errno;
  if (!found.file && reason == ENOENT) return found;
  const bool seen = found.file ? fstat(found.file.get(), &found.status) == 0
                               : fstatat(folder.get(), key.c_str(), &found.status, AT_SYMLINK_NOFOLLOW) == 0;
  if (!seen) return found;
  found.present = true;
  // A file of this kind or owner is broken even if it cannot be opened.
  found.broken = true;
  if (!S_ISREG(found.status.st_mode)) {
    found.fault = kNoFile;
  } else if (!is_ours(found.status)) {
    found.fault = kNotOurs;
  } else if (found.broken = false; found.file) {
    read_content(found.file, static_cast<std::uint64_t>(found.status.st_size), key, found);
  } else {
    found.fault = std::string("it cannot be read: ") + std::strerror(reason);
  }
  return found;
}

std::string describe_entry(const File& folder, const std::string& key) {
  std::array<std::byte, kLongestHead> start;
  const File file = open_entry(folder, key);
  const ssize_t got = file ? file.read_at(start, 0) : -1;
  if (got < 0) return {};
  const Head head = parse_head(std::span(start).first(static_cast<std::size_t>(got)), key);
  return head.fault == nullptr ? std::string(head.description) : std::string();
}

Removal remove_seen(const File& folder, const std::string& name, const struct stat& status) {
  struct stat now {};
  if (fstatat(folder.get(), name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0) return Removal::gone;
  if (now.st_dev != status.st_dev || now.st_ino != status.st_ino || now.st_mtim.tv_sec != status.st_mtim.tv_sec ||
      now.st_mtim.tv_nsec != status.st_mtim.tv_nsec) {
    return Removal::gone;
  }
  if (unlinkat(folder.get(), name.c_str(), 0) == 0) return Removal::done;
  return errno == ENOENT ? Removal::gone : Removal::refused;
}

}  // namespace dwell::jit
