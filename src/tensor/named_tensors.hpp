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

// What the submission of a task needs to know of a view's memory, and other elements in it.
struct ViewMemory {
  // The flags of a task that names it (dwell/detail/task.hpp).
  static std::uint32_t flags(const TensorView& view);
  // The runtime of its buffer; null for memory in no buffer.
  static const detail::Shell* shell(const TensorView& view) { return view.use_ != nullptr ? view.use_->shell : nullptr; }
  static const detail::BufferUse* use(const TensorView& view) { return view.use_; }
  // The same memory as elements of another type. Throws as TensorView.
  static TensorView seen_as(const TensorView& view, std::uint64_t address, ElementType type, const Dims& shape, const Dims& strides);
};

// The bits of a view's elements as one or two views of a type that has operations.
using Bits = InplaceVector<TensorView, 2>;
// Of a view of a type that has none. Of another one of the same shape and type, when that is `beside`, the views have the same shapes.
Bits bits_of(const TensorView& view, const TensorView& beside);

// Tensors that are all broadcast to one shape, up to 16. As long as each of them has all its elements behind each other, or a single one,
// a few words for each say it all: that is what small operations mostly are, and their price is the host's time.
class NamedTensors {
 public:
  // Of no tensor: overlaps none, and can be widened.
  static constexpr TensorView::Extent kNoSpan{~std::uint64_t{0}, 0};
  static void widen(TensorView::Extent& span, const TensorView::Extent& by) {
    span = {std::min(span.first, by.first), std::max(span.end, by.end)};
  }

  explicit NamedTensors(const Dims& shape);

  // Whether the elements of a tensor of shape `other` may be seen as those of this shape, the first as the first and so on. `flat`: each
  // view of theirs has them behind each other, or has one for all.
  bool takes(const Dims& other, std::int64_t elements, bool flat) const {
    return elements == elements_ && (flat || flat_ || shape_ == other);
  }
  // Goes on with that shape, where all tensors allow it.
  void take_shape(const Dims& other) {
    if (flat_ && !(shape_ == other)) shape_ = other;
  }
  // Whether the view has its elements behind each other, `elements` of them, or one for all.
  static bool is_flat(const TensorView& view, std::int64_t elements) {
    return view.elements() == 1 || (view.elements() == elements && view.contiguous());
  }

  // The place of a view, which may be a new one; nothing when all places are taken.
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
  // Whether the view, when broadcast to the shape, is the tensor at this place.
  bool is_at(std::size_t place, const TensorView& view) const;

  // Whether all are f32, and each has its elements behind each other or a single one; and whether the former are aligned to 16 bytes.
  bool are_plain() const { return flat_ && are_f32_; }
  bool are_packed() const { return misaligned_ == 0; }

  // Drops those without a bit in `used`; the others move to the front, in their order.
  void keep_only(std::uint32_t used);

  // Dimensions, sizes of them where there are several, and tensors, as a program has them. With `any_order`, nobody asks which element is
  // which. Throws errc::unsupported for tensors that are too large.
  std::uint32_t append_to(std::vector<std::uint32_t>& words, bool any_order) const;

 private:
  enum class Step : unsigned char { none, one, general };

  Step step_of(const TensorView& view) const;
  TensorView view_at(std::size_t place) const;
  // What follows from all of them.
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
