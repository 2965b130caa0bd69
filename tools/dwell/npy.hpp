// NumPy's array files, format versions 1.0, 2.0 and 3.0.
// Source of the format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "element_type.hpp"

namespace dwell::tool {

using Shape = std::vector<std::uint64_t>;

// Returns a shape as in Python: "(3, 4)", "(5,)", "()".
std::string text_of(const Shape& shape);
// Returns the number of elements. Throws std::invalid_argument if their bytes overflow.
std::uint64_t element_count(const Shape& shape, std::size_t element_bytes);

// The header of a file. All arrays are in C order.
struct NpyHeader {
  ElementType type = ElementType::f32;
  Shape shape;
  std::uint64_t data_offset = 0;  // bytes from the start of the file

  std::uint64_t data_bytes() const { return element_count(shape, bytes_of(type)) * bytes_of(type); }
};

// Reads the header of the file at `path` and checks the size of the data after it. Reads only regular files. Throws std::runtime_error with
// the problem and its remedy; the message does not name the file.
NpyHeader read_npy_header(const std::filesystem::path& path);

// The data after a header, read piece by piece.
class NpyData {
 public:
  // Throws std::runtime_error.
  NpyData(const std::filesystem::path& file, const NpyHeader& header);
  // Fills `to` with the data from this byte on. Throws std::runtime_error.
  void read(std::uint64_t first, std::span<std::byte> to) const;

 private:
  File file_;
  std::uint64_t begin_;
};

// Writes a whole file of format 1.0. The stream's state tells whether that worked.
void write_npy(std::ostream& to, ElementType type, const Shape& shape, std::span<const std::byte> data);

}  // namespace dwell::tool
