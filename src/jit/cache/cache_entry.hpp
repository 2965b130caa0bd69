// The file format of a cache entry: self-describing, with a checksum.
//
//   magic, schema | key | description | size of the payload | SHA-256 of all before this and of the payload | payload
//
// Numbers are little-endian; key and description are counted. A change of this layout, or of the meaning of payloads, is a new schema.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace dwell::jit {

// Longer descriptions are truncated.
inline constexpr std::size_t kLongestDescription = 200;
inline constexpr std::uint64_t kLargestPayload = std::uint64_t{256} << 20U;

// Returns an entry's file up to its payload.
std::vector<std::byte> entry_head(std::string_view key, std::string_view description, std::span<const std::byte> payload);

// Returns whether the file or folder belongs to this user, and nobody else may write to it.
bool is_ours(const struct stat& status);
inline constexpr const char* kNotOurs = "it belongs to another user, or others may write to it";

// The file under the name of an entry.
struct FoundEntry {
  bool present = false;
  std::optional<std::vector<std::byte>> payload;  // if the entry is intact
  std::string fault;                              // else the reason
  bool broken = false;                            // permanently unusable, so it should be removed; false if it may only be unreadable now
  struct stat status {};                          // of the file that was read
  File file;                                      // held open, so that no other file can get its number
};

// Reads and checks the entry `key` in an open folder.
FoundEntry read_entry(const File& folder, const std::string& key);

// The entry's own description; empty when it cannot be read. Does not check the payload.
std::string describe_entry(const File& folder, const std::string& key);

enum class Removal { done, gone, refused };

// Removes `name` if it is still the file whose `status` was read; else that file was removed already. Exact while the caller holds the file
// open.
Removal remove_seen(const File& folder, const std::string& name, const struct stat& status);

}  // namespace dwell::jit
