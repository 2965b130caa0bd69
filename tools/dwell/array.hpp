// An array of a job on the device, of an element type known only at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include <dwell/dwell.hpp>

#include "element_type.hpp"

namespace dwell::tool {

// Owns the memory. Moved, not copied; used from one thread.
class Array {
 public:
  // Memory for `count` elements, uninitialised. Throws dwell::Error with errc::out_of_memory.
  Array(Runtime& runtime, ElementType type, std::uint64_t count);

  ElementType type() const { return type_; }

  // `data` is the whole array.
  void write(std::span<const std::byte> data);
  // The whole array, once the tasks that name it have run.
  std::vector<std::byte> read() const;

  // Appends the array as the span that `declared` asks for; the type must fit it (element_type.hpp).
  void add_to(Arguments& arguments, const Parameter& declared) const;

 private:
  ElementType type_;
  std::variant<Buffer<half>, Buffer<bfloat16>, Buffer<float>, Buffer<double>, Buffer<std::int8_t>, Buffer<std::int16_t>,
               Buffer<std::int32_t>, Buffer<std::int64_t>, Buffer<std::uint8_t>, Buffer<std::uint16_t>, Buffer<std::uint32_t>,
               Buffer<std::uint64_t>, Buffer<bool>, Buffer<complex<float>>, Buffer<complex<double>>>
      buffer_;
};

}  // namespace dwell::tool
