// The operators of the demonstration. Integers throughout, so that every device gives the same bits.
//
// A tile is kDemoTile x kDemoTile pixels. Between operators a pixel has three 16-bit values, red, green, blue, of 0 to 4080: bytes with
// four bits behind the point.
#pragma once

#include <string>

namespace dwell::tool {

inline constexpr unsigned kDemoTile = 8;

// denoise(Span<const u8> source, u32 width, u32 height, u32 tile, Span<i16> to): the tile and one pixel around it, each the mean of its
// neighbourhood with weights that fall with distance and with difference. Beyond the edge lies the pixel nearest to it.
std::string demo_denoise();

// sharpen(Span<const i16> from, Span<i16> to): the tile, from what denoise made of it; away from the blurred by one and a half.
std::string demo_sharpen();

// tone(Span<const i16> from, u32 width, u32 height, u32 tile, Span<u8> to): the tile into the whole picture `to`, through a curve that
// raises contrast.
std::string demo_tone();

// The same, as a print on warm paper.
std::string demo_tone_print();

}  // namespace dwell::tool
