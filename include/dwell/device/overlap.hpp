// Orders of elements for overlapping spans, in which no input element is overwritten before it has been read.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {
namespace device {

// Elements 0 .. count - 1 are each computed from the elements of the same number of some inputs.
class Overlap {
 public:
  // `to` and `to_width`: address and element bytes of the output.
  DWELL_DEVICE Overlap(u64 to, u32 to_width, u64 count) : to_(to), to_width_(to_width), count_(count) {}

  // Returns whether a write overwrites an input element that another output element needs.
  DWELL_DEVICE bool is_partial(u64 from, u32 from_width) const {
    if (from_width == to_width_) {
      const u64 bytes = count_ * to_width_;
      const u64 distance = to_ - from;
      return distance != 0 && (distance < bytes || 0 - distance < bytes);
    }
    return count_ > 1 && from < to_ + count_ * to_width_ && to_ < from + count_ * from_width;
  }

  // Adds an input. The conditions are linear in the element's number, so checking the first and the last suffices.
  DWELL_DEVICE void add(u64 from, u32 from_width) {
    if (!is_partial(from, from_width)) return;
    partial_ = true;
    const u64 last = count_ - 1;
    if (to_ + to_width_ > from + from_width || to_ + last * to_width_ > from + last * from_width) ascending_ = false;
    if (to_ + to_width_ < from + from_width || to_ + last * to_width_ < from + last * from_width) descending_ = false;
  }

  DWELL_DEVICE bool partial() const { return partial_; }
  // Returns whether elements may be computed in ascending order; in descending order.
  DWELL_DEVICE bool ascending() const { return ascending_; }
  DWELL_DEVICE bool descending() const { return descending_; }

 private:
  u64 to_;
  u32 to_width_;
  u64 count_;
  bool partial_ = false;
  bool ascending_ = true;
  bool descending_ = true;
};

}  // namespace device
}  // namespace dwell
