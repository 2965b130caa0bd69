#include "jit/cache/payloads.hpp"

#include <string>
#include <utility>

#include "image/byte_stream.hpp"

namespace dwell::jit {

namespace {

void write(image::ByteWriter& writer, const Signature& signature) {
  writer.number(static_cast<std::uint32_t>(signature.parameters().size()));
  for (const Parameter& parameter : signature.parameters()) {
    writer.number(static_cast<std::uint8_t>(parameter.kind));
    writer.number(static_cast<std::uint8_t>(parameter.element));
    writer.number(parameter.bytes);
  }
}

Signature read_signature(image::ByteReader& reader) {
  const auto count = reader.number<std::uint32_t>();
  std::vector<Parameter> parameters;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    const auto kind = static_cast<Kind>(reader.number<std::uint8_t>());
    const auto element = static_cast<Kind>(reader.number<std::uint8_t>());
    parameters.push_back({kind, element, reader.number<u16>()});
  }
  return Signature(std::move(parameters));
}

void write(image::ByteWriter& writer, const Resources& resources) {
  for (const std::uint32_t figure : {resources.registers, resources.stack_bytes, resources.shared_bytes, resources.constant_bytes,
                                     resources.barriers, resources.threads})
    writer.number(figure);
}

Resources read_resources(image::ByteReader& reader) {
  Resources resources;
  for (std::uint32_t* const figure : {&resources.registers, &resources.stack_bytes, &resources.shared_bytes, &resources.constant_bytes,
                                      &resources.barriers, &resources.threads})
    *figure = reader.number<std::uint32_t>();
  return resources;
}

}  // namespace

Bytes encode(const Object& object) {
  image::ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(object.entries.size()));
  for (const Entry& entry : object.entries) {
    writer.counted(entry.symbol);
    write(writer, entry.signature);
  }
  writer.counted(object.log);
  writer.number(static_cast<std::uint8_t>(object.form));
  writer.counted(object.assembly);
  writer.counted(object.bytes);
  return std::move(writer).take();
}

std::optional<Object> decode_object(std::span<const std::byte> bytes) {
  image::ByteReader reader(bytes);
  Object object;
  const auto entries = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < entries && reader.ok(); ++i) {
    Entry& entry = object.entries.emplace_back();
    entry.symbol = reader.text();
    entry.signature = read_signature(reader);
  }
  object.log = reader.text();
  object.form = static_cast<Form>(reader.number<std::uint8_t>());
  object.assembly = reader.text();
  const auto code = reader.counted();
  object.bytes.assign(code.begin(), code.end());
  if (!reader.complete()) return std::nullopt;
  return object;
}

Bytes encode(const Image& image) {
  image::ByteWriter writer;
  write(writer, image.resources);
  writer.number(static_cast<std::uint32_t>(image.entries.size()));
  for (const EntryResources& entry : image.entries) {
    writer.counted(entry.symbol);
    write(writer, entry.resources);
  }
  writer.counted(image.bytes);
  return std::move(writer).take();
}

std::optional<Image> decode_image(std::span<const std::byte> bytes) {
  image::ByteReader reader(bytes);
  Image image;
  image.resources = read_resources(reader);
  // The count is not believed before the bytes it stands for are there.
  const auto count = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    std::string symbol(reader.text());
    image.entries.push_back({std::move(symbol), read_resources(reader)});
  }
  const auto code = reader.counted();
  image.bytes.assign(code.begin(), code.end());
  if (!reader.complete()) return std::nullopt;
  return image;
}

Bytes encode(const ModuleObject& object) {
  image::ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(object.kernels.size()));
  for (const ModuleKernel& kernel : object.kernels) {
    writer.counted(kernel.symbol);
    writer.counted(kernel.name);
    write(writer, kernel.signature);
  }
  writer.number(static_cast<std::uint32_t>(object.expressions.size()));
  for (const auto& [expression, symbol] : object.expressions) {
    writer.counted(expression);
    writer.counted(symbol);
  }
  writer.counted(object.log);
  writer.counted(object.assembly);
  writer.counted(object.bytes);
  return std::move(writer).take();
}

std::optional<ModuleObject> decode_module(std::span<const std::byte> bytes) {
  image::ByteReader reader(bytes);
  ModuleObject object;
  const auto kernels = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < kernels && reader.ok(); ++i) {
    ModuleKernel& kernel = object.kernels.emplace_back();
    kernel.symbol = reader.text();
    kernel.name = reader.text();
    kernel.signature = read_signature(reader);
  }
  const auto expressions = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < expressions && reader.ok(); ++i) {
    auto& [expression, symbol] = object.expressions.emplace_back();
    expression = reader.text();
    symbol = reader.text();
  }
  object.log = reader.text();
  object.assembly = reader.text();
  const auto code = reader.counted();
  object.bytes.assign(code.begin(), code.end());
  if (!reader.complete()) return std::nullopt;
  return object;
}

}  // namespace dwell::jit
