#include "jit/caching_compiler.hpp"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "image/byte_stream.hpp"
#include "jit/embedded.hpp"
#include "jit/made_once.hpp"
#include "jit/memory_cache.hpp"
#include "jit/sha256.hpp"

namespace dwell::jit {

namespace {

constexpr std::size_t kObjectsInMemory = 256;
constexpr std::size_t kImagesInMemory = 4;  // the running one, the one before, and a little more

Bytes encode_object(const Object& object) {
  image::ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(object.entries.size()));
  for (const Entry& entry : object.entries) {
    writer.counted(entry.symbol);
    writer.number(static_cast<std::uint32_t>(entry.signature.parameters().size()));
    for (const Parameter& parameter : entry.signature.parameters()) {
      writer.number(static_cast<std::uint8_t>(parameter.kind));
      writer.number(static_cast<std::uint8_t>(parameter.element));
      writer.number(parameter.bytes);
    }
  }
  writer.counted(object.log);
  writer.number(static_cast<std::uint8_t>(object.form));
  writer.counted(object.bytes);
  return std::move(writer).take();
}

std::optional<Object> decode_object(std::span<const std::byte> bytes) {
  image::ByteReader reader(bytes);
  Object object;
  const auto entries = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < entries && reader.ok(); ++i) {
    Entry entry;
    entry.symbol = reader.text();
    const auto count = reader.number<std::uint32_t>();
    std::vector<Parameter> parameters;
    for (std::uint32_t j = 0; j < count && j < kMaxParameters; ++j) {
      const auto kind = static_cast<Kind>(reader.number<std::uint8_t>());
      const auto element = static_cast<Kind>(reader.number<std::uint8_t>());
      parameters.push_back({kind, element, reader.number<u16>()});
    }
    entry.signature = Signature(std::move(parameters));
    object.entries.push_back(std::move(entry));
  }
  object.log = reader.text();
  object.form = static_cast<Form>(reader.number<std::uint8_t>());
  const auto code = reader.counted();
  object.bytes.assign(code.begin(), code.end());
  if (!reader.complete()) return std::nullopt;
  return object;
}

Bytes encode_image(const Image& image) {
  image::ByteWriter writer;
  writer.number(image.resources.registers);
  writer.number(image.resources.stack_bytes);
  writer.number(image.resources.shared_bytes);
  writer.counted(image.bytes);
  return std::move(writer).take();
}

std::optional<Image> decode_image(std::span<const std::byte> bytes) {
  image::ByteReader reader(bytes);
  Image image;
  image.resources.registers = reader.number<std::uint32_t>();
  image.resources.stack_bytes = reader.number<std::uint32_t>();
  image.resources.shared_bytes = reader.number<std::uint32_t>();
  const auto code = reader.counted();
  image.bytes.assign(code.begin(), code.end());
  if (!reader.complete()) return std::nullopt;
  return image;
}

}  // namespace

struct CachingCompiler::Memory {
  MemoryCache<Object> objects{kObjectsInMemory};
  MemoryCache<Image> images{kImagesInMemory};
};

CachingCompiler::CachingCompiler(std::unique_ptr<Compiler> compiler, FileCache cache)
    : compiler_(std::move(compiler)), cache_(std::move(cache)), memory_(std::make_unique<Memory>()) {}
CachingCompiler::~CachingCompiler() = default;

Object CachingCompiler::compile(const Unit& unit) {
  if (unit.fingerprint.empty()) return compiler_->compile(unit);
  CacheKey parts;
  parts.add("what", "object").add("fingerprint", unit.fingerprint).add("form", unit.options.lto ? "lto" : "native");
  for (const Export& one : unit.exports) parts.add("symbol", one.symbol);
  const std::string key = parts.finish();
  return memory_->objects.get(key, [&] {
    const std::string description = "operator " + unit.name + (unit.options.lto ? ", lto" : "");
    return made_once(cache_, key, description, decode_object, encode_object, [&] { return compiler_->compile(unit); });
  });
}

Image CachingCompiler::link(std::span<const Opcode> table, Tier tier) {
  CacheKey parts;
  parts.add("what", "image").add("compiler", identity()).add("headers", embedded_headers_digest());
  parts.add("tier", tier == Tier::lto ? "lto" : "relocatable");
  std::set<const Object*> seen;
  std::size_t opcodes = 0;
  for (const Opcode& opcode : table) {
    parts.add("symbol", opcode.object == nullptr ? std::string_view() : opcode.symbol());
    if (opcode.object == nullptr) continue;
    ++opcodes;
    if (seen.insert(opcode.object).second) parts.add("object", sha256(opcode.object->bytes));
  }
  const std::string key = parts.finish();
  return memory_->images.get(key, [&] {
    const std::string description =
        "image of " + std::to_string(opcodes) + (opcodes == 1 ? " operator" : " operators") + (tier == Tier::lto ? ", lto" : "");
    return made_once(cache_, key, description, decode_image, encode_image, [&] { return compiler_->link(table, tier); });
  });
}

}  // namespace dwell::jit
