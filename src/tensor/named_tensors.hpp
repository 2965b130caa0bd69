// The tensors that a program names.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <dwell/tensor.hpp>

#include "base/inplace_vector.hpp"
#include "tensor/device/program.hpp"

namespace dwell::tensor {

// Access to a view's memory for submissions, and other views of it.
struct ViewMemory {
  // Returns the flags of a task that uses it (dwell/detail/task.hpp).
  static std::uint32_t flags(const TensorView& view);
  // The runtime of its buffer; null for memory in no buffer.
  static const detail::Shell* shell(const TensorView& view) { return view.use_ != nullptr ? view.use_->shell : nullptr; }
  static const detail::BufferUse* use(const TensorView& view) { return view.use_; }
  // The same memory as elements of another type. Throws as TensorView.
  static TensorView seen_as(const TensorView& view, std::uint64_t address, ElementType type, const Dims& shape, const Dims& strides);
};

// The bits of a view's elements as one or two views of a type that has operations.
using Bits = InplaceVector<TensorView, 2>;
// Returns them for a view of a type without operations. They have the same shapes as those of `beside`, another view of the same shape and
// type.
Bits bits_of(const TensorView& view, const TensorView& beside);

// Tensors that are all broadcast to one shape, up to 16. While each is contiguous or has a single element, a few words describe each: this
// is the common case of small operations, whose cost is the host's time.
class NamedTensors {
 public:
  // The empty span: overlaps none, and can be widened.
  static constexpr TensorView::Extent kNoSpan{~std::uint64_t{0}, 0};
  static void widen(TensorView::Extent& span, const TensorView::Extent& by) {
    span = {std::min(span.first, by.first), std::max(span.end, by.end)};
  }

  explicit NamedTensors(const Dims& shape);

  // Whether elements of shape `other` can be treated as elements of this shape, in the same order. `flat`: their views are contiguous, or
  // have one element for all.
  bool takes(const Dims& other, std::int64_t elements, bool flat) const {
    return elements == elements_ && (flat || flat_ || shape_ == other);
  }
  // Adopts that shape, if all tensors allow it.
  void take_shape(const Dims& other) {
    if (flat_ && !(shape_ == other)) shape_ = other;
  }
  // Returns whether the view is contiguous with `elements` elements, or has one for all.
  static bool is_flat(const TensorView& view, std::int64_t elements) {
    return view.elements() == 1 || (view.elements() == elements && view.contiguous());
  }

  // Returns the place of a view, adding it if needed; nothing if all places are used.
  std::optional<unsigned> place(const TensorView& view);
  // Forgets all places from `count` on.
  void shrink(std::size_t count);

  std::int64_t elements() const { return elements_; }
  std::size_t size() const { return size_; }
  TensorView::Extent extent(std::size_t place) const { return {first_[place], end_[place]}; }
  // From the first byte of all to the last; there may be others between.
  TensorView::Extent span() const { return span_; }
  bool overlaps(const TensorView::Extent& memory) const {
    if (!span_.overlaps(memory)) return false;
    for (std::size_t at = 0; at < size_; ++at)
      if (extent(at).overlaps(memory)) return true;
    return false;
  }
  std::uint32_t flags() const { return flags_; }
  // Returns whether the view, when broadcast to the shape, is the tensor at this place.
  bool is_at(std::size_t place, const TensorView& view) const;

  // Returns whether all are f32, and each is contiguous or has a single element; and whether the contiguous ones are aligned to 16 bytes.
  bool are_plain() const { return flat_ && are_f32_; }
  bool are_packed() const { return misaligned_ == 0; }

  // Drops tensors without a bit in `used`; moves the others to the front, in order.
  void keep_only(std::uint32_t used);

  // Appends the dimensions, their sizes if there are several, and the tensors in a program's encoding. With `any_order`, the program does
  // not depend on the index. Throws errc::unsupported for tensors that are too large.
  std::uint32_t append_to(std::vector<std::uint32_t>& words, bool any_order) const;

 private:
  enum class Step : unsigned char { none, one, general };

  Step step_of(const TensorView& view) const;
  TensorView view_at(std::size_t place) const;
  // Updates what is derived from all tensors.
  void note(std::size_t place);

  Dims shape_;
  std::int64_t elements_;
  std::size_t size_ = 0;
  std::uint32_t flags_ = 0;
  TensorView::Extent span_ = kNoSpan;
  bool flat_ = true;
  bool are_f32_ = true;
  std::uint64_t misaligned_ = 0;
  std::array<std::uint64_t, device::kMaxTensors> address_;
  std::array<std::uint64_t, device::kMaxTensors> first_;
  std::array<std::uint64_t, device::kMaxTensors> end_;
  std::array<ElementType, device::kMaxTensors> type_;
  std::array<Step, device::kMaxTensors> step_;
  std::vector<TensorView> views_;  // once one has other strides
};

}  // namespace dwell::tensor
