// The operators of the demonstration. They use only integers, so that every device gives the same bits.
//
// A tile is kDemoTile x kDemoTile pixels. Between operators a pixel has three 16-bit values, red, green, blue, of 0 to 4080: bytes with
// four fractional bits.
#pragma once

#include <string>

namespace dwell::tool {

inline constexpr unsigned kDemoTile = 8;

// denoise(Span<const u8> source, u32 width, u32 height, u32 tile, Span<i16> to): computes the tile and one pixel around it. Each pixel is
// the mean of its neighbourhood, with weights that fall with distance and difference. Pixels beyond the edge repeat the nearest one.
std::string demo_denoise();

// sharpen(Span<const i16> from, Span<i16> to): sharpens the denoised tile: adds one and a half times its difference from the blurred one.
std::string demo_sharpen();

// tone(Span<const i16> from, u32 width, u32 height, u32 tile, Span<u8> to): writes the tile to the picture `to`, through a curve that
// raises contrast.
std::string demo_tone();

// As tone, with the look of a print on warm paper.
std::string demo_tone_print();

}  // namespace dwell::tool
