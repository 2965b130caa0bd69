#include "image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include <jpeglib.h>

namespace dwell::tool {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Image gradient(std::uint32_t width, std::uint32_t height) {
  Image image{width, height, std::vector<std::uint8_t>(std::size_t{3} * width * height)};
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      image.pixels[image.at(x, y)] = static_cast<std::uint8_t>(x * 3);
      image.pixels[image.at(x, y) + 1] = static_cast<std::uint8_t>(y * 3);
      image.pixels[image.at(x, y) + 2] = static_cast<std::uint8_t>(x + y);
    }
  }
  return image;
}

std::string png_of(const Image& image) {
  std::ostringstream to;
  write_png(to, image);
  return to.str();
}

std::string jpeg_of(const Image& image) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = image.width;
  info.image_height = image.height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 98, TRUE);
  jpeg_start_compress(&info, TRUE);
  Image copy = image;
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = copy.pixels.data() + copy.at(0, info.next_scanline);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string text(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return text;
}

class ImageFile : public testing::Test {
 protected:
  ImageFile() : file_(fs::path(testing::TempDir()) / ("dwell_image_" + std::to_string(getpid()))) {}
  ~ImageFile() override {
    std::error_code error;
    fs::remove(file_, error);
  }
  void put(const std::string& bytes) const { std::ofstream(file_, std::ios::binary) << bytes; }
  std::string error() const {
    try {
      read_image(file_);
    } catch (const std::runtime_error& problem) {
      return problem.what();
    }
    return "none";
  }
  fs::path file_;
};

TEST_F(ImageFile, PngComesBackAsItWas) {
  const Image image = gradient(61, 40);
  put(png_of(image));
  const Image back = read_image(file_);
  EXPECT_EQ(back.width, 61U);
  EXPECT_EQ(back.height, 40U);
  EXPECT_EQ(back.pixels, image.pixels);
}

TEST_F(ImageFile, JpegComesBackNearly) {
  const Image image = gradient(64, 48);
  put(jpeg_of(image));
  const Image back = read_image(file_);
  ASSERT_EQ(back.width, 64U);
  ASSERT_EQ(back.height, 48U);
  long difference = 0;
  for (std::size_t i = 0; i < image.pixels.size(); ++i) difference += std::abs(back.pixels[i] - image.pixels[i]);
  EXPECT_LT(static_cast<double>(difference) / static_cast<double>(image.pixels.size()), 3.0);
}

TEST_F(ImageFile, ErrorsNameTheFault) {
  EXPECT_THAT(error(), HasSubstr("No such file"));
  put("GIF89a");
  EXPECT_THAT(error(), HasSubstr("neither JPEG nor PNG"));
  put("");
  EXPECT_THAT(error(), HasSubstr("neither JPEG nor PNG"));
  const std::string png = png_of(gradient(64, 48));
  put(png.substr(0, png.size() / 2));
  EXPECT_THAT(error(), HasSubstr("broken PNG"));
  const std::string jpeg = jpeg_of(gradient(64, 48));
  put(jpeg.substr(0, jpeg.size() / 2));
  EXPECT_THAT(error(), HasSubstr("broken JPEG"));
  put(jpeg.substr(0, 20));
  EXPECT_THAT(error(), HasSubstr("broken JPEG"));
}

TEST(Image, SideBySideKeepsBothPictures) {
  const Image left = gradient(5, 3);
  const Image right = gradient(7, 3);
  const Image both = side_by_side(left, right);
  ASSERT_EQ(both.width, 20U);
  EXPECT_EQ(both.pixels[both.at(4, 2)], left.pixels[left.at(4, 2)]);
  EXPECT_EQ(both.pixels[both.at(6, 1)], 0xFF);
  EXPECT_EQ(both.pixels[both.at(13 + 6, 2) + 1], right.pixels[right.at(6, 2) + 1]);
}

}  // namespace
}  // namespace dwell::tool
