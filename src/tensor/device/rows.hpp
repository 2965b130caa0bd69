// A reduction as it travels in a task. The tensor is rows, each of which is reduced, or replaced by values computed from the whole row.
#pragma once

#include "tensor/device/program.hpp"

namespace dwell {
namespace device {

// The statistic computed of a row first.
enum class RowStatistic : u8 {
  fold,          // all elements, each through a RowMap, combined by a RowFold
  moments,       // their mean, and the sum of squared differences from it
  exponentials,  // the largest, and the sum of exponentials of the differences from it
  most,          // the largest and its place, the first of several; the first NaN, if any
  least          // the smallest, likewise
};
enum class RowMap : u8 { none, nonzero, abs, square, power, difference_squared, exp_difference, difference };
enum class RowFold : u8 { sum, product, max, min };

// The result: a number for the row, or one for each of its elements.
enum class RowResult : u8 {
  number,
  mean,
  root,
  power,
  variance,
  deviation,
  log,
  place,
  softmax,
  log_softmax,
  layer_norm,
  rms_norm,
  running
};

// Long rows are cut into parts of columns. One task computes a part's statistics each, and a second one combines those of a row.
enum class RowPhase : u8 { whole, parts, rest };

// Most parts of a row.
DWELL_CONSTANT u32 kMaxParts = 128;

// The words of a reduction:
//   0      statistic (3 bits), map (3), fold (2), result (4), phase (2), number (2), dimensions of rows (4), of columns (4), binary
//   logarithm
//          of the rows that a group takes at once (3), whether neighbouring threads take neighbouring rows (1), third tensor (1), fourth
//          (1)
//   1, 2   rows; columns in a row
//   3, 4   parts of a row; columns of a part, but for the last
//   5, 6   a number of 64 bits: the exponent of a norm, what is subtracted from the count for a variance, epsilon
//   7, 8   address of the statistics of parts: two numbers of 64 bits a part
//   sizes  of the dimensions, those of rows first, each outermost first
//   tensors  what is reduced; the result; the largest or smallest elements, or weights; biases. Each two words, as those of a program, and
//          a stride a dimension, in elements
class RowsWords {
 public:
  static constexpr u32 kSizes = 9;
  static constexpr u32 kInput = 0;
  static constexpr u32 kResult = 1;
  static constexpr u32 kThird = 2;
  static constexpr u32 kFourth = 3;

  static DWELL_HOST_DEVICE u32 head(RowStatistic statistic, RowMap map, RowFold fold, RowResult result, RowPhase phase,
                                    NumberClass number) {
    return static_cast<u32>(statistic) | static_cast<u32>(map) << 3U | static_cast<u32>(fold) << 6U | static_cast<u32>(result) << 8U |
           static_cast<u32>(phase) << 12U | static_cast<u32>(number) << 14U;
  }
  static DWELL_HOST_DEVICE u32 shape(u32 row_dims, u32 column_dims, u32 shift, bool rows_first, bool third, bool fourth) {
    return row_dims << 16U | column_dims << 20U | shift << 24U | (rows_first ? 1U << 27U : 0) | (third ? 1U << 28U : 0) |
           (fourth ? 1U << 29U : 0);
  }

  explicit DWELL_HOST_DEVICE RowsWords(const u32* words) : words_(words) {}

  DWELL_HOST_DEVICE const u32* words() const { return words_; }
  DWELL_HOST_DEVICE RowStatistic statistic() const { return static_cast<RowStatistic>(words_[0] & 7U); }
  DWELL_HOST_DEVICE RowMap map() const { return static_cast<RowMap>(words_[0] >> 3U & 7U); }
  DWELL_HOST_DEVICE RowFold fold() const { return static_cast<RowFold>(words_[0] >> 6U & 3U); }
  DWELL_HOST_DEVICE RowResult result() const { return static_cast<RowResult>(words_[0] >> 8U & 15U); }
  DWELL_HOST_DEVICE RowPhase phase() const { return static_cast<RowPhase>(words_[0] >> 12U & 3U); }
  DWELL_HOST_DEVICE NumberClass number() const { return static_cast<NumberClass>(words_[0] >> 14U & 3U); }
  DWELL_HOST_DEVICE u32 row_dims() const { return words_[0] >> 16U & 15U; }
  DWELL_HOST_DEVICE u32 column_dims() const { return words_[0] >> 20U & 15U; }
  DWELL_HOST_DEVICE u32 shift() const { return words_[0] >> 24U & 7U; }
  DWELL_HOST_DEVICE bool rows_first() const { return (words_[0] >> 27U & 1U) != 0; }
  DWELL_HOST_DEVICE bool third() const { return (words_[0] >> 28U & 1U) != 0; }
  DWELL_HOST_DEVICE bool fourth() const { return (words_[0] >> 29U & 1U) != 0; }
  DWELL_HOST_DEVICE u32 rows() const { return words_[1]; }
  DWELL_HOST_DEVICE u32 columns() const { return words_[2]; }
  DWELL_HOST_DEVICE u32 parts() const { return words_[3]; }
  DWELL_HOST_DEVICE u32 part_columns() const { return words_[4]; }
  DWELL_HOST_DEVICE u64 parameter() const { return words_[5] | static_cast<u64>(words_[6]) << 32U; }
  DWELL_HOST_DEVICE u64 statistics() const { return words_[7] | static_cast<u64>(words_[8] & 0xFFFFU) << 32U; }
  DWELL_HOST_DEVICE const u32* tensor(u32 index) const {
    const u32 dims = row_dims() + column_dims();
    return words_ + kSizes + dims + index * (2 + dims);
  }

  // The offset of a row in a tensor, and of a column from there, in elements.
  DWELL_HOST_DEVICE i32 row_offset(const u32* tensor, u32 row) const { return offset(tensor, 0, row_dims(), row); }
  DWELL_HOST_DEVICE i32 column_offset(const u32* tensor, u32 column) const { return offset(tensor, row_dims(), column_dims(), column); }
  // The stride of the columns, if they have one dimension; likewise of the rows.
  DWELL_HOST_DEVICE i32 column_stride(const u32* tensor) const { return ProgramWords::stride(tensor, row_dims()); }
  DWELL_HOST_DEVICE i32 row_stride(const u32* tensor) const { return ProgramWords::stride(tensor, 0); }

 private:
  DWELL_HOST_DEVICE i32 offset(const u32* tensor, u32 first, u32 dims, u32 index) const {
    i32 offset = 0;
    DWELL_UNROLL_NOT
    for (u32 dim = first + dims - 1; dim != first; --dim) {
      const u32 size = words_[kSizes + dim];
      const u32 next = index / size;
      offset += static_cast<i32>(index - next * size) * ProgramWords::stride(tensor, dim);
      index = next;
    }
    return offset + static_cast<i32>(index) * ProgramWords::stride(tensor, first);
  }

  const u32* words_;
};

}  // namespace device
}  // namespace dwell
