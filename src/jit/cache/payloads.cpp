#include "jit/cache/payloads.hpp"

#include <string>
#include <utility>

#include "base/byte_stream.hpp"

namespace dwell::jit {

namespace {

// Writes the length of `list`, then each element with `write_one`.
template <class List, class Write>
void write_list(ByteWriter& writer, const List& list, Write write_one) {
  writer.number(static_cast<std::uint32_t>(list.size()));
  for (const auto& one : list) write_one(one);
}

// Reads a length and that many elements with `read_one`. Reserves nothing: the length may be wrong.
template <class List, class Read>
void read_list(ByteReader& reader, List& list, Read read_one) {
  const auto count = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) list.push_back(read_one());
}

// Reads an enumerator from 0 to `last`; fails the reader for others.
template <class Enum, Enum last>
Enum read_enum(ByteReader& reader) {
  const auto value = reader.number<std::uint8_t>();
  if (value <= static_cast<std::uint8_t>(last)) return static_cast<Enum>(value);
  reader.fail();
  return Enum{};
}

std::string read_string(ByteReader& reader) { return std::string(reader.text()); }

Bytes read_bytes(ByteReader& reader) {
  const auto bytes = reader.counted();
  return {bytes.begin(), bytes.end()};
}

// Returns `value` if the reader consumed all bytes without failure.
template <class Value>
std::optional<Value> complete(const ByteReader& reader, Value value) {
  return reader.complete() ? std::optional(std::move(value)) : std::nullopt;
}

void write(ByteWriter& writer, const Signature& signature) {
  write_list(writer, signature.parameters(), [&](const Parameter& parameter) {
    writer.number(static_cast<std::uint8_t>(parameter.kind));
    writer.number(static_cast<std::uint8_t>(parameter.element));
    writer.number(parameter.bytes);
  });
}

Signature read_signature(ByteReader& reader) {
  std::vector<Parameter> parameters;
  read_list(reader, parameters, [&] {
    Parameter one;
    one.kind = read_enum<Kind, Kind::ring>(reader);
    one.element = read_enum<Kind, Kind::ring>(reader);
    one.bytes = reader.number<u16>();
    return one;
  });
  return Signature(std::move(parameters));
}

void write(ByteWriter& writer, const Resources& resources) {
  for (const std::uint32_t figure : {resources.registers, resources.stack_bytes, resources.shared_bytes, resources.constant_bytes,
                                     resources.barriers, resources.threads})
    writer.number(figure);
}

Resources read_resources(ByteReader& reader) {
  Resources resources;
  for (std::uint32_t* const figure : {&resources.registers, &resources.stack_bytes, &resources.shared_bytes, &resources.constant_bytes,
                                      &resources.barriers, &resources.threads})
    *figure = reader.number<std::uint32_t>();
  return resources;
}

}  // namespace

Bytes encode(const Object& object) {
  ByteWriter writer;
  write_list(writer, object.entries, [&](const Entry& entry) {
    writer.counted(entry.symbol);
    write(writer, entry.signature);
  });
  writer.counted(object.log);
  writer.number(static_cast<std::uint8_t>(object.form));
  writer.counted(object.assembly);
  write_list(writer, object.uses, [&](const Use& use) {
    writer.counted(use.name);
    write(writer, use.signature);
  });
  writer.counted(object.bytes);
  return std::move(writer).take();
}

std::optional<Object> decode_object(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Object object;
  read_list(reader, object.entries, [&] {
    Entry entry;
    entry.symbol = read_string(reader);
    entry.signature = read_signature(reader);
    return entry;
  });
  object.log = read_string(reader);
  object.form = read_enum<Form, Form::lto>(reader);
  object.assembly = read_string(reader);
  read_list(reader, object.uses, [&] {
    Use use;
    use.name = read_string(reader);
    use.signature = read_signature(reader);
    return use;
  });
  object.bytes = read_bytes(reader);
  return complete(reader, std::move(object));
}

Bytes encode(const Image& image) {
  ByteWriter writer;
  write(writer, image.resources);
  write_list(writer, image.entries, [&](const EntryResources& entry) {
    writer.counted(entry.symbol);
    write(writer, entry.resources);
  });
  writer.counted(image.bytes);
  return std::move(writer).take();
}

std::optional<Image> decode_image(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Image image;
  image.resources = read_resources(reader);
  read_list(reader, image.entries, [&] {
    EntryResources entry;
    entry.symbol = read_string(reader);
    entry.resources = read_resources(reader);
    return entry;
  });
  image.bytes = read_bytes(reader);
  return complete(reader, std::move(image));
}

Bytes encode(const ModuleObject& object) {
  ByteWriter writer;
  write_list(writer, object.kernels, [&](const ModuleKernel& kernel) {
    writer.counted(kernel.symbol);
    writer.counted(kernel.name);
    write(writer, kernel.signature);
  });
  write_list(writer, object.expressions, [&](const auto& pair) {
    writer.counted(pair.first);
    writer.counted(pair.second);
  });
  writer.counted(object.log);
  writer.counted(object.assembly);
  writer.counted(object.bytes);
  return std::move(writer).take();
}

std::optional<ModuleObject> decode_module(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  ModuleObject object;
  read_list(reader, object.kernels, [&] {
    ModuleKernel kernel;
    kernel.symbol = read_string(reader);
    kernel.name = read_string(reader);
    kernel.signature = read_signature(reader);
    return kernel;
  });
  read_list(reader, object.expressions, [&] {
    std::pair<std::string, std::string> pair;
    pair.first = read_string(reader);
    pair.second = read_string(reader);
    return pair;
  });
  object.log = read_string(reader);
  object.assembly = read_string(reader);
  object.bytes = read_bytes(reader);
  return complete(reader, std::move(object));
}

Bytes encode(std::span<const std::string> names) {
  ByteWriter writer;
  write_list(writer, names, [&](const std::string& name) { writer.counted(name); });
  return std::move(writer).take();
}

std::optional<std::vector<std::string>> decode_names(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  std::vector<std::string> names;
  read_list(reader, names, [&] { return read_string(reader); });
  return complete(reader, std::move(names));
}

}  // namespace dwell::jit
