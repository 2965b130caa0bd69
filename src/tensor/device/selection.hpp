// Elements that an index chooses, as they travel in a task.
#pragma once

#include <dwell/device/element_type.hpp>

namespace dwell {
namespace device {

// The operation for each place p of a shape, with the index' element i there:
//   gather       to at p = from at p, and i steps on along the dimension that is indexed
//   scatter_add  to at p, and i steps on, += from at p
//   lower, upper to at p = from at p where the column is at most, at least, the row plus a diagonal, else 0; no index
enum class SelectionKind : u8 { gather, scatter_add, lower, upper };

// The words:
//   0            kind (2 bits), dimensions of the shape (4), element type (4); binary logarithm of an element's bytes (3), which may be a
//                pack of neighbours unless they are added; bit 13: the index holds i64, not i32; bit 14: additions are atomic
//   1            places, below 2^31
//   2            size of the dimension that is indexed; of lower and upper the diagonal, an i32
//   3            its stride in the tensor that is indexed, in elements
//   sizes        of the dimensions, outermost first. Of scatter_add the last one is that which is indexed, of lower and upper the last ones
//                are rows and columns
//   tensors      to, from, index: two words of address, and a stride a dimension, in elements: 0 along the dimension that is indexed for
//                the tensor that it is in
class SelectionWords {
 public:
  enum Tensor : u32 { to, from, index };

  static DWELL_HOST_DEVICE u32 words(u32 dims) { return 4 + dims + 3 * (2 + dims); }
  static DWELL_HOST_DEVICE u32 head(SelectionKind kind, u32 dims, ElementType type, u32 log_bytes, bool wide_index, bool atomic) {
    return static_cast<u32>(kind) | dims << 2U | static_cast<u32>(type) << 6U | log_bytes << 10U | (wide_index ? 1U << 13U : 0U) |
           (atomic ? 1U << 14U : 0U);
  }

  explicit DWELL_HOST_DEVICE SelectionWords(const u32* words) : words_(words) {}

  DWELL_HOST_DEVICE SelectionKind kind() const { return static_cast<SelectionKind>(words_[0] & 3U); }
  DWELL_HOST_DEVICE u32 dims() const { return words_[0] >> 2U & 0xFU; }
  DWELL_HOST_DEVICE ElementType type() const { return static_cast<ElementType>(words_[0] >> 6U & 0xFU); }
  DWELL_HOST_DEVICE u32 log_bytes() const { return words_[0] >> 10U & 7U; }
  DWELL_HOST_DEVICE bool wide_index() const { return (words_[0] >> 13U & 1U) != 0; }
  DWELL_HOST_DEVICE bool atomic() const { return (words_[0] >> 14U & 1U) != 0; }
  DWELL_HOST_DEVICE u32 places() const { return words_[1]; }
  DWELL_HOST_DEVICE u32 limit() const { return words_[2]; }
  DWELL_HOST_DEVICE i32 diagonal() const { return static_cast<i32>(words_[2]); }
  DWELL_HOST_DEVICE i32 step() const { return static_cast<i32>(words_[3]); }
  DWELL_HOST_DEVICE u32 size(u32 dim) const { return words_[4 + dim]; }
  DWELL_HOST_DEVICE u64 address(Tensor which) const {
    const u32* const tensor = words_of(which);
    return tensor[0] | static_cast<u64>(tensor[1] & 0xFFFFU) << 32U;
  }
  DWELL_HOST_DEVICE i32 stride(Tensor which, u32 dim) const { return static_cast<i32>(words_of(which)[2 + dim]); }

 private:
  DWELL_HOST_DEVICE const u32* words_of(Tensor which) const { return words_ + 4 + dims() + which * (2 + dims()); }

  const u32* words_;
};

}  // namespace device
}  // namespace dwell
