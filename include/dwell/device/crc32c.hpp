// CRC32C (Castagnoli) of 32-bit words, the same on every platform.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {
namespace device {

// `word[k][n]`: what nibble k of a word adds to the checksum when it is n. Eight independent look-ups a word, in 512 bytes that stay in a
// processor's first cache.
struct CrcTable {
  u32 word[8][16];
};
DWELL_HOST_DEVICE CrcTable make_crc_table() {
  CrcTable table{};
  for (u32 k = 0; k < 8; ++k)
    for (u32 n = 0; n < 16; ++n) {
      u32 rest = n << (4 * k);
      for (u32 bit = 0; bit < 32; ++bit) rest = (rest & 1U) != 0 ? rest >> 1U ^ 0x82F63B78U : rest >> 1U;
      table.word[k][n] = rest;
    }
  return table;
}
DWELL_CONSTANT CrcTable kCrcTable = make_crc_table();

DWELL_CONSTANT u32 kCrcStart = ~0U;  // before the first word; the checksum is the complement of the last step's result

DWELL_HOST_DEVICE u32 crc32c_step(u32 crc, u32 word) {
  const u32 x = crc ^ word;
  u32 next = 0;
  DWELL_UNROLL
  for (u32 k = 0; k < 8; ++k) next ^= kCrcTable.word[k][x >> (4 * k) & 15U];
  return next;
}

// Continues a checksum over `count` words.
DWELL_DEVICE u32 crc32c(u32 crc, const u32* words, u32 count) {
#if DWELL_CRC32C
  if (has_crc32c()) return crc32c_by_instruction(crc, words, count);
#endif
  DWELL_UNROLL_BY_4
  for (u32 i = 0; i < count; ++i) crc = crc32c_step(crc, words[i]);
  return crc;
}

}  // namespace device
}  // namespace dwell
