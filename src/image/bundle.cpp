#include "image/bundle.hpp"

#include <cstdint>
#include <limits>
#include <unordered_map>

#include <dwell/error.hpp>

#include "base/byte_stream.hpp"

namespace dwell::image {

namespace {

// Layout: magic, the objects, the opcodes as index of an object and symbol, the words of uses. Every list has its length before it.
constexpr std::uint64_t kMagic = 0x33304c444e425744;  // "DWBNDL03"
constexpr std::uint32_t kEmpty = std::numeric_limits<std::uint32_t>::max();

[[noreturn]] void broken() { throw Error(errc::link_failed, "the CPU image is damaged: it is not a bundle of operators"); }

}  // namespace

std::vector<std::byte> pack(std::span<const BundleEntry> entries, std::span<const std::uint32_t> uses) {
  std::unordered_map<const std::byte*, std::uint32_t> index_of;
  std::vector<std::span<const std::byte>> objects;
  for (const BundleEntry& entry : entries) {
    if (entry.symbol.empty()) continue;
    if (index_of.try_emplace(entry.object.data(), static_cast<std::uint32_t>(objects.size())).second) objects.push_back(entry.object);
  }
  ByteWriter writer;
  writer.number(kMagic);
  writer.number(static_cast<std::uint32_t>(objects.size()));
  for (const auto object : objects) writer.counted(object);
  writer.number(static_cast<std::uint32_t>(entries.size()));
  for (const BundleEntry& entry : entries) {
    writer.number(entry.symbol.empty() ? kEmpty : index_of.at(entry.object.data()));
    if (!entry.symbol.empty()) writer.counted(entry.symbol);
  }
  writer.number(static_cast<std::uint32_t>(uses.size()));
  for (const std::uint32_t word : uses) writer.number(word);
  return std::move(writer).take();
}

Bundle unpack(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (reader.number<std::uint64_t>() != kMagic) broken();
  // Neither count is believed before the bytes it stands for are there: nothing is reserved for it.
  const auto object_count = reader.number<std::uint32_t>();
  std::vector<std::span<const std::byte>> objects;
  for (std::uint32_t i = 0; i < object_count && reader.ok(); ++i) objects.push_back(reader.counted());
  const auto opcode_count = reader.number<std::uint32_t>();
  Bundle bundle;
  for (std::uint32_t i = 0; i < opcode_count && reader.ok(); ++i) {
    const auto index = reader.number<std::uint32_t>();
    BundleEntry entry;
    if (index != kEmpty) {
      if (index >= objects.size()) broken();
      entry = {reader.text(), objects[index]};
      if (entry.symbol.empty()) broken();
    }
    bundle.entries.push_back(entry);
  }
  const auto word_count = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < word_count && reader.ok(); ++i) bundle.uses.push_back(reader.number<std::uint32_t>());
  if (!reader.complete()) broken();
  return bundle;
}

}  // namespace dwell::image
