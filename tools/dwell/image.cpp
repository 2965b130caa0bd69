#include "image.hpp"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>

// jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>
#include <png.h>

#include "base/file.hpp"

namespace dwell::tool {

namespace {

// Larger images are refused before memory is allocated.
constexpr std::uint64_t kMostPixels = 1U << 28U;

using Bytes = std::vector<std::byte>;

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& why) { throw std::runtime_error(file.string() + ": " + why); }

Bytes content_of(const std::filesystem::path& file) {
  constexpr std::size_t kLongest = std::size_t{1} << 29U;
  std::string why;
  auto bytes = read_file(file, kLongest, &why);
  if (!bytes) fail(file, why);
  return *std::move(bytes);
}

Image empty_image(const std::filesystem::path& file, std::uint64_t width, std::uint64_t height) {
  if (width == 0 || height == 0) fail(file, "is empty");
  if (width > kMostPixels / height) fail(file, "is larger than 2^28 pixels");
  Image image;
  image.width = static_cast<std::uint32_t>(width);
  image.height = static_cast<std::uint32_t>(height);
  image.pixels.resize(static_cast<std::size_t>(width) * height * 3);
  return image;
}

// libjpeg reports errors through a function that must not return. The frames that longjmp leaves have no destructors.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf leave;
  std::array<char, JMSG_LENGTH_MAX> message;
};

void leave_jpeg(j_common_ptr info) {
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message.data());
  std::longjmp(errors->leave, 1);  // NOLINT(cert-err52-cpp): libjpeg offers no other way
}

void drop_jpeg_message(j_common_ptr) {}

// Decodes the header; if `pixels` is given, also the rows. Returns false with errors.message set if the data is broken.
bool decode_jpeg(const Bytes& bytes, JpegErrors& errors, std::uint32_t* width, std::uint32_t* height, std::uint8_t* pixels) {
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = leave_jpeg;
  errors.manager.output_message = drop_jpeg_message;
  if (setjmp(errors.leave) != 0) {  // NOLINT(cert-err52-cpp)
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&info, TRUE);
  *width = info.image_width;
  *height = info.image_height;
  if (pixels != nullptr) {
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = pixels + static_cast<std::size_t>(info.output_scanline) * info.output_width * 3;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
  }
  // A truncated file decodes with warnings, and a grey rest.
  const bool whole = errors.manager.num_warnings == 0;
  if (!whole) errors.manager.format_message(reinterpret_cast<j_common_ptr>(&info), errors.message.data());
  jpeg_destroy_decompress(&info);
  return whole;
}

Image read_jpeg(const std::filesystem::path& file, const Bytes& bytes) {
  const auto errors = std::make_unique<JpegErrors>();
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  if (!decode_jpeg(bytes, *errors, &width, &height, nullptr)) fail(file, std::string("is a broken JPEG: ") + errors->message.data());
  Image image = empty_image(file, width, height);
  if (!decode_jpeg(bytes, *errors, &width, &height, image.pixels.data()))
    fail(file, std::string("is a broken JPEG: ") + errors->message.data());
  return image;
}

Image read_png(const std::filesystem::path& file, const Bytes& bytes) {
  // Use libpng's simplified interface: it needs no longjmp.
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) == 0) fail(file, std::string("is a broken PNG: ") + png.message);
  png.format = PNG_FORMAT_RGB;
  Image image;
  try {
    image = empty_image(file, png.width, png.height);
  } catch (...) {
    png_image_free(&png);
    throw;
  }
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr) == 0) fail(file, std::string("is a broken PNG: ") + png.message);
  return image;
}

}  // namespace

Image read_image(const std::filesystem::path& file) {
  const Bytes bytes = content_of(file);
  constexpr std::array<std::uint8_t, 3> kJpeg = {0xFF, 0xD8, 0xFF};
  constexpr std::array<std::uint8_t, 4> kPng = {0x89, 'P', 'N', 'G'};
  const auto begins_with = [&](const auto& magic) {
    return bytes.size() >= magic.size() &&
           std::equal(magic.begin(), magic.end(), bytes.begin(), [](auto a, auto b) { return static_cast<std::byte>(a) == b; });
  };
  if (begins_with(kJpeg)) return read_jpeg(file, bytes);
  if (begins_with(kPng)) return read_png(file, bytes);
  fail(file, "is neither JPEG nor PNG");
}

void write_png(std::ostream& to, const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = image.width;
  png.height = image.height;
  png.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  if (png_image_write_to_memory(&png, nullptr, &size, 0, image.pixels.data(), 0, nullptr) == 0) throw std::runtime_error(png.message);
  std::vector<char> bytes(size);
  if (png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr) == 0) throw std::runtime_error(png.message);
  to.write(bytes.data(), static_cast<std::streamsize>(size));
}

Image side_by_side(const Image& left, const Image& right) {
  constexpr std::uint32_t kStrip = 8;
  Image both;
  both.width = left.width + kStrip + right.width;
  both.height = left.height;
  both.pixels.assign(static_cast<std::size_t>(both.width) * both.height * 3, 0xFF);
  for (std::uint32_t y = 0; y < both.height; ++y) {
    const auto to = both.pixels.begin() + static_cast<std::ptrdiff_t>(both.at(0, y));
    std::copy_n(left.pixels.begin() + static_cast<std::ptrdiff_t>(left.at(0, y)), std::size_t{3} * left.width, to);
    std::copy_n(right.pixels.begin() + static_cast<std::ptrdiff_t>(right.at(0, y)), std::size_t{3} * right.width,
                to + std::ptrdiff_t{3} * (left.width + kStrip));
  }
  return both;
}

}  // namespace dwell::tool
