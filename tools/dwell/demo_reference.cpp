#include "demo_reference.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace dwell::tool {

namespace {

// One colour of a picture; pixels beyond the edge repeat the nearest one.
class Plane {
 public:
  Plane(int width, int height)
      : width_(width), height_(height), values_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}

  int width() const { return width_; }
  int height() const { return height_; }
  int at(int x, int y) const { return values_[index(std::clamp(x, 0, width_ - 1), std::clamp(y, 0, height_ - 1))]; }
  void set(int x, int y, int value) { values_[index(x, y)] = value; }

 private:
  std::size_t index(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
  }

  int width_;
  int height_;
  std::vector<int> values_;
};

constexpr int kWhite = 4080;
constexpr int kBinomial[3][3] = {{1, 2, 1}, {2, 4, 2}, {1, 2, 1}};

// Returns the plane of `pixel(x, y)`.
template <class Pixel>
Plane each(const Plane& like, Pixel&& pixel) {
  Plane plane(like.width(), like.height());
  for (int y = 0; y < plane.height(); ++y) {
    for (int x = 0; x < plane.width(); ++x) plane.set(x, y, pixel(x, y));
  }
  return plane;
}

Plane denoised(const Plane& from) {
  return each(from, [&](int x, int y) {
    int sum = 0;
    int weights = 0;
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) {
        const int value = from.at(x + dx, y + dy);
        const int weight = kBinomial[dy + 1][dx + 1] * std::max(0, 24 - std::abs(value - from.at(x, y)));
        sum += weight * value;
        weights += weight;
      }
    }
    return (sum * 16 + weights / 2) / weights;
  });
}

Plane sharpened(const Plane& from) {
  return each(from, [&](int x, int y) {
    int blurred = 0;
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) blurred += kBinomial[dy + 1][dx + 1] * from.at(x + dx, y + dy);
    }
    return std::clamp(from.at(x, y) + (from.at(x, y) * 16 - blurred) * 3 / 32, 0, kWhite);
  });
}

int curve(int value) {
  const std::int64_t v = value;
  const std::int64_t smooth = (3 * v * v * kWhite - 2 * v * v * v) / (std::int64_t{kWhite} * kWhite);
  return static_cast<int>((v + smooth) / 2);
}

std::uint8_t to_byte(int value) { return static_cast<std::uint8_t>(std::clamp((std::max(value, 0) + 8) / 16, 0, 255)); }

}  // namespace

DemoReference demo_reference(const Image& source) {
  std::vector<Plane> colours;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    Plane plane(static_cast<int>(source.width), static_cast<int>(source.height));
    plane = each(plane, [&](int x, int y) {
      return source.pixels[source.at(static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y)) + channel];
    });
    colours.push_back(sharpened(denoised(plane)));
  }
  DemoReference result{source, source};
  for (std::uint32_t y = 0; y < source.height; ++y) {
    for (std::uint32_t x = 0; x < source.width; ++x) {
      const std::size_t at = source.at(x, y);
      const int red = colours[0].at(static_cast<int>(x), static_cast<int>(y));
      const int green = colours[1].at(static_cast<int>(x), static_cast<int>(y));
      const int blue = colours[2].at(static_cast<int>(x), static_cast<int>(y));
      result.plain.pixels[at] = to_byte(curve(red));
      result.plain.pixels[at + 1] = to_byte(curve(green));
      result.plain.pixels[at + 2] = to_byte(curve(blue));
      const int light = curve((54 * red + 183 * green + 19 * blue) / 256);
      const int warmth = light * (kWhite - light) / kWhite;
      result.print.pixels[at] = to_byte(light + warmth / 3);
      result.print.pixels[at + 1] = to_byte(light + warmth / 12);
      result.print.pixels[at + 2] = to_byte(light - warmth / 3);
    }
  }
  return result;
}

}  // namespace dwell::tool
