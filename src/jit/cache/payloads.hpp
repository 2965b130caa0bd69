// What the cache keeps of objects, images and programs of kernels: values to bytes and back.
#pragma once

#include <optional>
#include <span>

#include "jit/compiler.hpp"

namespace dwell::jit {

Bytes encode(const Object& object);
Bytes encode(const Image& image);
Bytes encode(const ModuleObject& object);

// Nothing when the bytes, which are not trusted, are no such value.
std::optional<Object> decode_object(std::span<const std::byte> bytes);
std::optional<Image> decode_image(std::span<const std::byte> bytes);
std::optional<ModuleObject> decode_module(std::span<const std::byte> bytes);

}  // namespace dwell::jit
