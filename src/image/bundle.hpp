// The image of the CPU backend: the shared objects that hold the operators, and which opcode each one is.
#pragma once

#include <cstddef>
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

// The bundle of `entries`, entry i being opcode i. Entries whose objects are the same bytes in memory share one in the bundle.
std::vector<std::byte> pack(std::span<const BundleEntry> entries);

// The entries of a bundle, as views into `bytes`; entries of one object share one view. The bytes are not trusted.
// Throws dwell::Error with errc::link_failed when they are not a bundle.
std::vector<BundleEntry> unpack(std::span<const std::byte> bytes);

}  // namespace dwell::image
