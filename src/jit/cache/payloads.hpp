// Encodes objects, images, programs of kernels and lists of files for the cache.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/compiler.hpp"

namespace dwell::jit {

Bytes encode(const Object& object);
Bytes encode(const Image& image);
Bytes encode(const ModuleObject& object);
Bytes encode(std::span<const std::string> names);

// Decode untrusted bytes; return nothing if they are invalid.
std::optional<Object> decode_object(std::span<const std::byte> bytes);
std::optional<Image> decode_image(std::span<const std::byte> bytes);
std::optional<ModuleObject> decode_module(std::span<const std::byte> bytes);
std::optional<std::vector<std::string>> decode_names(std::span<const std::byte> bytes);

}  // namespace dwell::jit
