// A product of matrices, as it travels in a task.
#pragma once

#include <dwell/device/element_type.hpp>

namespace dwell {
namespace device {

// How a product is computed: in tiles of kTile rows and columns. On CUDA also with a thread for each result, or in tiles of all rows if
// these are kThinRows at most: b as a stream of packs (thin.hpp), or element by element.
enum class ProductWay : u32 { tiles, single, stream, thin };
DWELL_CONSTANT u32 kTile = 32;
DWELL_CONSTANT u32 kThinRows = 8;

// Thin products: rows that are multiplied at once if there are several; the most lanes, which have columns of their own; the memory of
// the group, for rows and sums; and the numbers along a line that a thread takes at once.
DWELL_CONSTANT u32 kThinRowsAtOnce = 4;
DWELL_CONSTANT u32 kMostLogThinLanes = 4;
DWELL_CONSTANT u32 kThinBytes = 4096;
template <class C>
DWELL_CONSTANT u32 kThinPack = 16 / sizeof(C);
DWELL_CONSTANT u32 kLogThinPack = 2;  // of a float

// Blocks of kThinPack x kThinPack elements that a thread has in registers.
DWELL_CONSTANT u32 kThinBlocks = 2;
// Returns whether neighbours of stride a are closer in memory than those of stride b.
DWELL_HOST_DEVICE bool is_closer(i32 a, i32 b) {
  return (a < 0 ? 0U - static_cast<u32>(a) : static_cast<u32>(a)) < (b < 0 ? 0U - static_cast<u32>(b) : static_cast<u32>(b));
}
// Columns of a lane: with one row, those of all these blocks.
DWELL_HOST_DEVICE u32 thin_width(u32 rows) { return kThinPack<float> * (rows == 1 ? kThinBlocks : 1); }

// For each matrix of a batch: to = alpha * a * b + beta * bias, where a has m x k elements, b has k x n, and `to` and bias have m x n. All
// are of one type; numbers of 16 bits are multiplied and added as floats, and integers as those of 64 bits. The words:
//   0            element type (4 bits), dimensions of the batch (4); bit 8: there is a bias; from bit 9 on the way (2), and the binary
//                logarithm of the lanes of a stream or a thin product (3)
//   1 to 3       m, n, k
//   4            tiles of the result in all; if single, results
//   5 and 6      alpha: a float in the first, a double, or a 64-bit integer
//   sizes        of the dimensions of the batch
//   tensors      to, a, b, and bias when there is one: two words of address, strides between rows and between columns, and one a dimension
//                of the batch, in elements
//   beta         as alpha, when there is a bias
class ProductWords {
 public:
  enum Tensor : u32 { to, a, b, bias };

  // Words that a product has.
  static DWELL_HOST_DEVICE u32 words(bool has_bias, u32 dims) { return 7 + dims + (has_bias ? 4 : 3) * (4 + dims) + (has_bias ? 2 : 0); }
  static DWELL_HOST_DEVICE u32 head(ElementType type, u32 dims, bool has_bias, ProductWay way, u32 log_lanes) {
    return static_cast<u32>(type) | dims << 4U | (has_bias ? 1U << 8U : 0U) | static_cast<u32>(way) << 9U | log_lanes << 11U;
  }

  explicit DWELL_HOST_DEVICE ProductWords(const u32* words) : words_(words) {}

  DWELL_HOST_DEVICE const u32* words() const { return words_; }
  DWELL_HOST_DEVICE ElementType type() const { return static_cast<ElementType>(words_[0] & 0xFU); }
  DWELL_HOST_DEVICE u32 dims() const { return words_[0] >> 4U & 0xFU; }
  DWELL_HOST_DEVICE bool has_bias() const { return (words_[0] >> 8U & 1U) != 0; }
  DWELL_HOST_DEVICE ProductWay way() const { return static_cast<ProductWay>(words_[0] >> 9U & 3U); }
  DWELL_HOST_DEVICE u32 log_lanes() const { return words_[0] >> 11U & 7U; }
  DWELL_HOST_DEVICE u32 m() const { return words_[1]; }
  DWELL_HOST_DEVICE u32 n() const { return words_[2]; }
  DWELL_HOST_DEVICE u32 k() const { return words_[3]; }
  DWELL_HOST_DEVICE u32 tiles() const { return words_[4]; }
  // The bits of numbers of 64 bits or of floats.
  DWELL_HOST_DEVICE u64 alpha() const { return pair(5); }
  DWELL_HOST_DEVICE u64 beta() const { return pair(7 + dims() + 4 * (4 + dims())); }

  DWELL_HOST_DEVICE u32 size(u32 dim) const { return words_[7 + dim]; }
  DWELL_HOST_DEVICE const u32* tensor(Tensor which) const { return words_ + 7 + dims() + which * (4 + dims()); }

  static DWELL_HOST_DEVICE i32 row_stride(const u32* tensor) { return static_cast<i32>(tensor[2]); }
  static DWELL_HOST_DEVICE i32 column_stride(const u32* tensor) { return static_cast<i32>(tensor[3]); }
  static DWELL_HOST_DEVICE u64 address(const u32* tensor) { return tensor[0] | static_cast<u64>(tensor[1] & 0xFFFFU) << 32U; }
  static DWELL_HOST_DEVICE i32 batch_stride(const u32* tensor, u32 dim) { return static_cast<i32>(tensor[4 + dim]); }

 private:
  DWELL_HOST_DEVICE u64 pair(u32 at) const { return words_[at] | static_cast<u64>(words_[at + 1]) << 32U; }

  const u32* words_;
};

}  // namespace device
}  // namespace dwell
