// The device headers, embedded at build time. The run-time compilers read these, so an installed library needs no source tree. The table is
// written at build time by cmake/embed.cmake.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dwell::jit {

// `name` is the path as device code includes it: "dwell/device/group.hpp", "device/ring.hpp", "tensor/device/reduce.hpp". `text` ends in a
// null character.
struct EmbeddedFile {
  std::string_view name;
  std::string_view text;
  // Returns whether operators include it, as all but the loop's own ("device/...").
  bool is_for_operators() const { return !name.starts_with("device/"); }
};

std::span<const EmbeddedFile> embedded_headers();

// Returns whether a header of this name is for operators.
bool is_operator_header(std::string_view name);

// Returns a digest of all of them, for cache keys.
const std::string& embedded_headers_digest();

}  // namespace dwell::jit
