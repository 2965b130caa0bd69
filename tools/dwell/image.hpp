// Images in memory: read from JPEG and PNG, written as PNG.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <vector>

namespace dwell::tool {

// Rows from the top, pixels from the left, three bytes per pixel: red, green, blue.
struct Image {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::vector<std::uint8_t> pixels;

  std::size_t at(std::uint32_t x, std::uint32_t y) const { return (static_cast<std::size_t>(y) * width + x) * 3; }
};

// Reads a JPEG or PNG file, recognised by its first bytes. Ignores colour profiles; blends transparency over black. Throws
// std::runtime_error; the message names the file.
Image read_image(const std::filesystem::path& file);

// Throws std::runtime_error if libpng fails. The stream's state tells whether the bytes were written.
void write_png(std::ostream& to, const Image& image);

// Joins two images of equal height, with a narrow white strip between them.
Image side_by_side(const Image& left, const Image& right);

}  // namespace dwell::tool
