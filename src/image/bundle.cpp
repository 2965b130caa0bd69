#include "image/bundle.hpp"

#include <cstdint>
#include <limits>
#include <unordered_map>

#include <dwell/error.hpp>

#include "image/byte_stream.hpp"

namespace dwell::image {

namespace {

// Layout: magic, the objects, the opcodes as indices of objects. Every list has its length before it.
constexpr std::uint64_t kMagic = 0x31304c444e425744;  // "DWBNDL01"
constexpr std::uint32_t kEmpty = std::numeric_limits<std::uint32_t>::max();

[[noreturn]] void broken() { throw Error(errc::link_failed, "the CPU image is damaged: it is not a bundle of operators"); }

}  // namespace

std::vector<std::byte> pack(std::span<const BundleEntry> entries) {
  std::unordered_map<std::string_view, std::uint32_t> index_of;
  std::vector<BundleEntry> objects;
  std::vector<std::uint32_t> opcodes;
  for (const BundleEntry& entry : entries) {
    if (entry.symbol.empty()) {
      opcodes.push_back(kEmpty);
      continue;
    }
    const auto [at, added] = index_of.try_emplace(entry.symbol, static_cast<std::uint32_t>(objects.size()));
    if (added) objects.push_back(entry);
    opcodes.push_back(at->second);
  }
  ByteWriter writer;
  writer.number(kMagic);
  writer.number(static_cast<std::uint32_t>(objects.size()));
  for (const BundleEntry& object : objects) {
    writer.counted(object.symbol);
    writer.counted(object.object);
  }
  writer.number(static_cast<std::uint32_t>(opcodes.size()));
  for (const std::uint32_t opcode : opcodes) writer.number(opcode);
  return std::move(writer).take();
}

std::vector<BundleEntry> unpack(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (reader.number<std::uint64_t>() != kMagic) broken();
  // Neither count is believed before the bytes it stands for are there: nothing is reserved for it.
  const auto object_count = reader.number<std::uint32_t>();
  std::vector<BundleEntry> objects;
  for (std::uint32_t i = 0; i < object_count && reader.ok(); ++i) {
    const std::string_view symbol = reader.text();
    objects.push_back({symbol, reader.counted()});
    if (symbol.empty()) broken();
  }
  const auto opcode_count = reader.number<std::uint32_t>();
  std::vector<BundleEntry> entries;
  for (std::uint32_t i = 0; i < opcode_count && reader.ok(); ++i) {
    const auto index = reader.number<std::uint32_t>();
    if (index != kEmpty && index >= objects.size()) broken();
    entries.push_back(index == kEmpty ? BundleEntry{} : objects[index]);
  }
  if (!reader.complete()) broken();
  return entries;
}

}  // namespace dwell::image
