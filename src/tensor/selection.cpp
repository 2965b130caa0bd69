#include "tensor/selection.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include <dwell/error.hpp>

#include "tensor/layout.hpp"
#include "tensor/promotion.hpp"

namespace dwell::tensor {

namespace {

using device::SelectionKind;
using device::SelectionWords;

static_assert(SelectionWords::words(Dims::kMost) <= 42 && 42 <= kMostOwnWords, "the operator below takes as many");

// Sizes, and strides of `to`, `from` and the index.
struct Layout {
  Dims sizes;
  std::array<Dims, 3> strides;
};

// Returns the task's dimensions: some at the end are kept, the others are joined.
Layout layout_of(const Selection& selection) {
  const Dims& shape = selection.to.shape();
  const std::size_t dims = shape.size();
  const TensorView* const views[] = {&selection.to, &selection.from, &selection.index};
  const auto is_kept = [&](std::size_t dim) {
    switch (selection.kind) {
      case SelectionKind::gather: return false;
      case SelectionKind::scatter_add: return dim == selection.dim;
      default: return dim + 2 >= dims;
    }
  };
  Layout layout;
  const auto add = [&](bool kept) {
    for (std::size_t dim = 0; dim < dims; ++dim) {
      if (is_kept(dim) != kept) continue;
      layout.sizes.push_back(shape[dim]);
      for (std::size_t i = 0; i < std::size(views); ++i) layout.strides[i].push_back(views[i]->strides()[dim]);
    }
  };
  add(false);
  join_dims(layout.sizes, layout.strides, true);
  const bool single = layout.sizes.size() == 1 && layout.sizes[0] == 1;
  if (single && selection.kind != SelectionKind::gather) layout = {};
  add(true);
  return layout;
}

// Returns how many adjacent elements can be moved as one, of at most 16 bytes.
std::int64_t packed(const Selection& selection, const Layout& layout) {
  const std::size_t last = layout.sizes.size() - 1;
  const auto bytes = static_cast<std::int64_t>(bytes_of(selection.to.type()));
  if (selection.kind != SelectionKind::gather || layout.strides[0][last] != 1 || layout.strides[1][last] != 1 ||
      layout.strides[2][last] != 0)
    return 1;
  std::int64_t count = 16 / bytes;
  const auto fits = [&](std::int64_t of) {
    bool all = layout.sizes[last] % of == 0 && selection.step % of == 0;
    for (const TensorView* const view : {&selection.to, &selection.from})
      all = all && view->address() % static_cast<std::uint64_t>(of * bytes) == 0;
    for (std::size_t dim = 0; dim < last; ++dim) all = all && layout.strides[0][dim] % of == 0 && layout.strides[1][dim] % of == 0;
    return all;
  };
  while (!fits(count)) count /= 2;
  return count;
}

}  // namespace

const OwnSource kSelection{"dwell_selection", R"(#include "tensor/device/select.hpp"

struct Words {
  dwell::u32 at[42];
};

DWELL_OPERATOR(dwell_selection)(dwell::Group g, const Words& selection) { dwell::device::run_selection(g, selection.at); }
)"};

Operation operation_of(const Selection& selection, bool on_cuda, std::uint32_t workers) {
  Layout layout = layout_of(selection);
  const std::size_t last = layout.sizes.size() - 1;
  const std::int64_t pack = packed(selection, layout);
  layout.sizes[last] /= pack;
  for (std::size_t dim = 0; dim < last; ++dim) {
    layout.strides[0][dim] /= pack;
    layout.strides[1][dim] /= pack;
  }
  const ElementType type = selection.to.type();
  const auto log_bytes = static_cast<std::uint32_t>(std::countr_zero(bytes_of(type) * static_cast<std::size_t>(pack)));
  const bool atomic =
      on_cuda && (type == ElementType::f32 || type == ElementType::f64 || type == ElementType::i32 || type == ElementType::i64);
  const auto dims = static_cast<std::uint32_t>(layout.sizes.size());
  std::int64_t places = 1;
  for (const std::int64_t size : layout.sizes) places *= size;

  Operation operation;
  const auto put = [&](auto value) { operation.words.push_back(static_cast<std::uint32_t>(value)); };
  put(SelectionWords::head(selection.kind, dims, type, log_bytes, selection.index.type() == ElementType::i64, atomic));
  put(places);
  put(selection.size);
  put(selection.step / pack);
  for (const std::int64_t size : layout.sizes) put(size);
  const TensorView* const views[] = {&selection.to, &selection.from, &selection.index};
  for (std::size_t i = 0; i < std::size(views); ++i) {
    put(views[i]->address());
    put(views[i]->address() >> 32U);
    for (const std::int64_t stride : layout.strides[i]) put(stride);
  }

  const bool in_columns = selection.kind == SelectionKind::scatter_add && !atomic;
  const std::int64_t columns = in_columns ? places / layout.sizes[last] : places;  // columns that can be divided among groups
  const std::int64_t wanted = on_cuda ? columns / 1024 : places / 16384;
  operation.groups =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(wanted, 1, std::min({columns, kMostGroups, static_cast<std::int64_t>(workers)})));
  return operation;
}

}  // namespace dwell::tensor
