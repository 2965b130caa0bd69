#include "demo_operators.hpp"

namespace dwell::tool {

namespace {

std::string with_tile(const char* text) { return "constexpr int kTile = " + std::to_string(kDemoTile) + ";\n" + text; }

constexpr const char* kDenoise = R"(
constexpr int kWide = kTile + 2;

int clamp(int value, int most) { return value < 0 ? 0 : value > most ? most : value; }

DWELL_OPERATOR(denoise)(dwell::Group g, dwell::Span<const dwell::u8> source, dwell::u32 width, dwell::u32 height, dwell::u32 tile,
                        dwell::Span<dwell::i16> to) {
  const int columns = (static_cast<int>(width) + kTile - 1) / kTile;
  const int left = static_cast<int>(tile) % columns * kTile - 1;
  const int top = static_cast<int>(tile) / columns * kTile - 1;
  const int right = static_cast<int>(width) - 1;
  const int bottom = static_cast<int>(height) - 1;
  for (auto i : g.range(to.size())) {
    const int channel = static_cast<int>(i) % 3;
    const int x = clamp(left + static_cast<int>(i) / 3 % kWide, right);
    const int y = clamp(top + static_cast<int>(i) / 3 / kWide, bottom);
    const auto at = [&](int dx, int dy) {
      return static_cast<int>(source[(static_cast<dwell::u64>(clamp(y + dy, bottom)) * width + clamp(x + dx, right)) * 3 + channel]);
    };
    const int middle = at(0, 0);
    int sum = 0;
    int weights = 0;
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) {
        const int value = at(dx, dy);
        const int difference = value < middle ? middle - value : value - middle;
        const int weight = difference >= 24 ? 0 : (24 - difference) * (dx == 0 ? 2 : 1) * (dy == 0 ? 2 : 1);
        sum += weight * value;
        weights += weight;
      }
    }
    to[i] = static_cast<dwell::i16>((sum * 16 + weights / 2) / weights);
  }
})";

constexpr const char* kSharpen = R"(
constexpr int kWide = kTile + 2;

DWELL_OPERATOR(sharpen)(dwell::Group g, dwell::Span<const dwell::i16> from, dwell::Span<dwell::i16> to) {
  for (auto i : g.range(to.size())) {
    const int channel = static_cast<int>(i) % 3;
    const int x = static_cast<int>(i) / 3 % kTile;
    const int y = static_cast<int>(i) / 3 / kTile;
    // The tile lies one pixel inside what it comes from.
    const auto at = [&](int dx, int dy) { return static_cast<int>(from[((y + 1 + dy) * kWide + x + 1 + dx) * 3 + channel]); };
    int blurred = 0;
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) blurred += at(dx, dy) * (dx == 0 ? 2 : 1) * (dy == 0 ? 2 : 1);
    }
    const int value = at(0, 0) + (at(0, 0) * 16 - blurred) * 3 / 32;
    to[i] = static_cast<dwell::i16>(value < 0 ? 0 : value > 4080 ? 4080 : value);
  }
})";

// Shared by both tone operators: the tile's place, and the curve.
constexpr const char* kToneBegin = R"(
int curve(int value) {
  const dwell::i64 v = value;
  return static_cast<int>((v + (3 * v * v * 4080 - 2 * v * v * v) / (4080 * 4080)) / 2);
}

dwell::u8 to_byte(int value) { return static_cast<dwell::u8>(value < 0 ? 0 : value >= 4080 ? 255 : (value + 8) / 16); }

DWELL_OPERATOR(tone)(dwell::Group g, dwell::Span<const dwell::i16> from, dwell::u32 width, dwell::u32 height, dwell::u32 tile,
                     dwell::Span<dwell::u8> to) {
  const dwell::u32 columns = (width + kTile - 1) / kTile;
  for (auto i : g.range(kTile * kTile)) {
    const dwell::u32 x = tile % columns * kTile + static_cast<dwell::u32>(i) % kTile;
    const dwell::u32 y = tile / columns * kTile + static_cast<dwell::u32>(i) / kTile;
    if (x >= width || y >= height) continue;
    const dwell::u64 at = (static_cast<dwell::u64>(y) * width + x) * 3;
)";

constexpr const char* kTone = R"(
    for (int channel = 0; channel < 3; ++channel) to[at + channel] = to_byte(curve(from[i * 3 + channel]));
  }
})";

constexpr const char* kTonePrint = R"(
    const int light = curve((54 * from[i * 3] + 183 * from[i * 3 + 1] + 19 * from[i * 3 + 2]) / 256);
    const int warmth = light * (4080 - light) / 4080;
    to[at] = to_byte(light + warmth / 3);
    to[at + 1] = to_byte(light + warmth / 12);
    to[at + 2] = to_byte(light - warmth / 3);
  }
})";

}  // namespace

std::string demo_denoise() { return with_tile(kDenoise); }
std::string demo_sharpen() { return with_tile(kSharpen); }
std::string demo_tone() { return with_tile(kToneBegin) + kTone; }
std::string demo_tone_print() { return with_tile(kToneBegin) + kTonePrint; }

}  // namespace dwell::tool
