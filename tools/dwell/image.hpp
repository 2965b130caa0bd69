// Photographs in memory: from JPEG and PNG, to PNG.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <vector>

namespace dwell::tool {

// Rows from the top, pixels from the left, three bytes a pixel: red, green, blue.
struct Image {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::vector<std::uint8_t> pixels;

  std::size_t at(std::uint32_t x, std::uint32_t y) const { return (static_cast<std::size_t>(y) * width + x) * 3; }
};

// Reads a JPEG or PNG file, told apart by its first bytes. Colour profiles are ignored, transparency is laid over black. Throws
// std::runtime_error; the message names the file.
Image read_image(const std::filesystem::path& file);

// Throws std::runtime_error when libpng fails; whether the bytes arrived, the stream's state tells.
void write_png(std::ostream& to, const Image& image);

// Two images of one height as one, with a narrow white strip between them.
Image side_by_side(const Image& left, const Image& right);

}  // namespace dwell::tool
