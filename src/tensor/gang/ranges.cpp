#include "tensor/gang/ranges.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace dwell::tensor::gang {

Ranges::Ranges(const std::vector<Operation>& operations, const Needed& needed) {
  std::vector<TensorView::Extent> all;
  for (const Operation& operation : operations)
    for (const View& view : operation.tensors) all.push_back(view.extent());
  std::ranges::sort(all, {}, &TensorView::Extent::first);
  for (const TensorView::Extent& extent : all) {
    if (all_.empty() || all_.back().extent.end <= extent.first)
      all_.push_back({.extent = extent});
    else
      all_.back().extent.end = std::max(all_.back().extent.end, extent.end);
  }
  std::vector<bool> seen(all_.size());
  for (std::size_t step = 0; step < operations.size(); ++step) {
    const auto use = [&](const View& view) -> Range& {
      Range& range = of(view);
      const auto index = static_cast<std::size_t>(&range - all_.data());
      if (!seen[index]) range.first = step;
      seen[index] = true;
      range.last = step;
      return range;
    };
    for (const View& view : operations[step].tensors) {
      Range& range = use(view);
      if (view.read && !range.covered) range.read_first = true;
    }
    for (const View& view : operations[step].tensors) {
      if (!view.written) continue;
      Range& range = use(view);
      const TensorView::Extent extent = view.extent();
      const bool all_of_it = view.is_dense() && extent.first == range.extent.first && extent.end == range.extent.end;
      if (all_of_it)
        range.covered = true;
      else if (!range.covered)
        range.read_first = true;  // what it does not write stays
      if (std::ranges::none_of(range.writes,
                               [&](const TensorView::Extent& known) { return known.first == extent.first && known.end == extent.end; }))
        range.writes.push_back(extent);
    }
  }
  for (Range& range : all_) range.out = range.written() && (range.read_first || std::ranges::any_of(range.writes, needed));
}

Range& Ranges::of(const View& view) {
  const auto behind = std::ranges::upper_bound(all_, view.extent().first, {}, [](const Range& range) { return range.extent.first; });
  return *std::prev(behind);
}

bool Ranges::covers(const View& view) const {
  const TensorView::Extent extent = view.extent();
  const TensorView::Extent& all = of(view).extent;
  return view.is_dense() && extent.first == all.first && extent.end == all.end;
}

bool Ranges::is_aligned(const View& view) const {
  const bool flat = view.sizes.size() == 1 && view.strides[0] == 1;
  return view.type == ElementType::f32 && flat && (view.address - of(view).extent.first) % sizeof(float) == 0;
}

bool Ranges::shares(const Operation& operation) const {
  return std::ranges::any_of(operation.tensors, [&](const View& view) { return view.written && of(view).shared; });
}

bool drop_dead(std::vector<Operation>& operations, const Ranges& ranges) {
  std::vector<TensorView::Extent> read;  // by operations behind
  std::vector<Operation> live;
  for (auto operation = operations.rbegin(); operation != operations.rend(); ++operation) {
    const bool lives = std::ranges::any_of(operation->tensors, [&](const View& view) {
      if (!view.written) return false;
      const TensorView::Extent extent = view.extent();
      return ranges.of(view).out || std::ranges::any_of(read, [&](const TensorView::Extent& other) { return other.overlaps(extent); });
    });
    if (!lives) continue;
    for (const View& view : operation->tensors)
      if (view.read) read.push_back(view.extent());
    live.push_back(std::move(*operation));
  }
  const bool dropped = live.size() != operations.size();
  std::ranges::reverse(live);
  operations = std::move(live);
  return dropped;
}

}  // namespace dwell::tensor::gang
