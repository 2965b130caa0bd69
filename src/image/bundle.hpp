// The image of the CPU backend: the shared objects that hold the operators, and which opcode each one is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace dwell::image {

// One opcode. `object` is an ELF shared object that exports `symbol` with the type dwell::device::Entry. An empty symbol is an opcode
// without an operator. A view: it refers to the bytes it was unpacked from.
struct BundleEntry {
  std::string_view symbol;
  std::span<const std::byte> object;
};

struct Bundle {
  std::vector<BundleEntry> entries;  // by opcode
  std::vector<std::uint32_t> uses;   // the words behind device::Context::uses
};

// The bytes of a bundle. Entries whose objects are the same bytes in memory share one.
std::vector<std::byte> pack(std::span<const BundleEntry> entries, std::span<const std::uint32_t> uses = {});

// A bundle from its bytes. Entries are views into them; those of one object share one view. The bytes are not trusted.
// Throws dwell::Error with errc::link_failed when they are not a bundle.
Bundle unpack(std::span<const std::byte> bytes);

}  // namespace dwell::image
