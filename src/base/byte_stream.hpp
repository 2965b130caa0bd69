// Numbers and byte strings to bytes and back: the format of everything that is kept in files or sent to other processes.
// Little-endian on every machine dwell runs on.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dwell {

inline std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

inline std::string_view as_text(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Appends values to a vector of bytes.
class ByteWriter {
 public:
  template <std::integral T>
  void number(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  // A length of 64 bits, then the bytes.
  void counted(std::span<const std::byte> bytes) {
    number(static_cast<std::uint64_t>(bytes.size()));
    raw(bytes);
  }
  void counted(std::string_view text) { counted(as_bytes(text)); }

  std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads what a ByteWriter wrote. The bytes are not trusted: once a read would pass the end, it and all reads after it yield zero or
// empty values and ok() is false. It returns views into the bytes given.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <std::integral T>
  T number() {
    T value{};
    const auto bytes = raw(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> raw(std::uint64_t size) {
    if (!ok_ || size > left_.size()) {
      ok_ = false;
      return {};
    }
    const auto bytes = left_.first(static_cast<std::size_t>(size));
    left_ = left_.subspan(static_cast<std::size_t>(size));
    return bytes;
  }
  std::span<const std::byte> counted() { return raw(number<std::uint64_t>()); }
  std::string_view text() { return as_text(counted()); }

  // As if a read had passed the end: for values that make no sense.
  void fail() { ok_ = false; }

  bool ok() const { return ok_; }
  // Returns whether everything was read, and nothing beyond it.
  bool complete() const { return ok_ && left_.empty(); }
  std::size_t left() const { return left_.size(); }

 private:
  std::span<const std::byte> left_;
  bool ok_ = true;
};

}  // namespace dwell
