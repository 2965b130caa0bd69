// An array of a job on the device, of an element type known only at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <dwell/dwell.hpp>

namespace dwell::tool {

// Owns its memory. Movable, not copyable; used from one thread.
class Array {
 public:
  // Allocates `count` elements, uninitialised. Throws dwell::Error with errc::out_of_memory.
  Array(Runtime& runtime, ElementType type, std::uint64_t count)
      : type_(type), buffer_(runtime.allocate<std::byte>(count * bytes_of(type))) {}

  ElementType type() const { return type_; }

  // Writes bytes from this offset on.
  void write(std::span<const std::byte> data, std::size_t first) { buffer_.write(data, first); }
  // Reads the whole array, after the tasks that name it.
  std::vector<std::byte> read() const {
    std::vector<std::byte> data(buffer_.bytes());
    buffer_.read(data);
    return data;
  }

  // Adds it as an argument of a task.
  BufferView view() const { return {buffer_, type_}; }

 private:
  ElementType type_;
  Buffer<std::byte> buffer_;
};

}  // namespace dwell::tool
