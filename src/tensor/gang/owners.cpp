#include "tensor/gang/owners.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tensor/device/product.hpp"

namespace dwell::tensor::gang {

namespace {

using device::ProductWords;

class Owners {
 public:
  Owners(const std::vector<Operation>& operations, Ranges& ranges, const OwnerSettings& settings,
         const std::function<bool(const Operation&)>& may_be_owned)
      : operations_(operations), ranges_(ranges), settings_(settings), may_be_owned_(may_be_owned) {}

  std::vector<Ownership> find() {
    ownership_.assign(operations_.size(), {});
    for (Range& range : ranges_) range.period = 0;
    if (settings_.members > 1) find_periods();
    // A state that is owned behind a run is owned before the next one: tried with all, given up for those of which a step needs more.
    std::set<const Range*> kept;
    if (settings_.repeats)
      for (const Range& range : ranges_)
        if (is_state(range) && range.period != 0) kept.insert(&range);
    while (const Range* const needed = find_with(kept)) kept.erase(needed);
    return std::move(ownership_);
  }

 private:
  static bool is_state(const Range& range) { return range.written() && range.read_first; }

  // Finds the owners if members have only the elements that they own of these ranges at first. Returns one of them of which a step needs
  // all elements; null if there is none.
  const Range* find_with(const std::set<const Range*>& kept) {
    ownership_.assign(operations_.size(), {});
    for (Range& range : ranges_) range.owned = kept.contains(&range);
    if (settings_.members == 1) return nullptr;
    // The last step that wrote a range's owned elements.
    std::map<const Range*, std::size_t> writer;
    const Range* needed = nullptr;
    const auto hand_on = [&](Range& range) {
      range.owned = false;
      const auto at = writer.find(&range);
      if (at == writer.end()) {
        needed = &range;
        return;
      }
      const Operation& operation = operations_[at->second];
      for (std::size_t i = 0; i < operation.tensors.size(); ++i)
        if (operation.tensors[i].written && &ranges_.of(operation.tensors[i]) == &range) ownership_[at->second].handed_on.push_back(i);
    };
    for (std::size_t step = 0; step < operations_.size(); ++step) {
      const Operation& operation = operations_[step];
      Ownership& ownership = ownership_[step];
      std::int64_t period = 0;
      if (may_be_owned_(operation)) {
        // Its factors are read as a whole.
        for (std::size_t i = 1; i < operation.tensors.size(); ++i)
          if (Range& range = ranges_.of(operation.tensors[i]); range.owned) hand_on(range);
        period = ranges_.of(operation.tensors[ProductWords::to]).period;
      } else if (is_elementwise(operation)) {
        period = period_of(operation);
      }
      if (period != 0) {
        ownership.owned = {.period = period, .each = period / settings_.members};
        for (const View& view : operation.tensors) {
          if (!view.written) continue;
          Range& range = ranges_.of(view);
          range.owned = true;
          writer[&range] = step;
        }
        continue;
      }
      for (const View& view : operation.tensors)
        if (Range& range = ranges_.of(view); range.owned) hand_on(range);
    }
    // The next run needs all elements of a state, unless it begins with the owned ones.
    if (settings_.repeats)
      for (Range& range : ranges_)
        if (is_state(range) && range.owned && !kept.contains(&range)) hand_on(range);
    return needed;
  }

  // The period of the elements of a program that a member computes alone: 0 if each member computes all of them.
  std::int64_t period_of(const Operation& operation) const {
    std::int64_t period = 0;
    bool fits = true;
    for (const View& view : operation.tensors) {
      const Range& range = ranges_.of(view);
      if (!range.owned && !view.written) continue;
      fits = fits && range.period != 0 && (period == 0 || range.period == period) && ranges_.is_aligned(view) &&
             (!view.written || ranges_.covers(view));
      period = range.period;
    }
    const bool reads_owned = std::ranges::any_of(operation.tensors, [&](const View& view) { return view.read && ranges_.of(view).owned; });
    return fits && reads_owned ? period : 0;
  }

  // Ranges that elementwise steps join have one period: that of the shortest step, if all others are whole numbers of it.
  void find_periods() {
    std::vector<std::size_t> group(ranges_.size());
    for (std::size_t i = 0; i < group.size(); ++i) group[i] = i;
    const auto root = [&](std::size_t i) {
      while (group[i] != i) i = group[i] = group[group[i]];
      return i;
    };
    const auto index_of = [&](const View& view) { return ranges_.index_of(view); };
    const auto is_joined = [&](const View& view) {
      const Range& range = ranges_.of(view);
      return range.written() && !range.shared && range.is_divisible() && range.bytes() <= settings_.most_bytes && ranges_.is_aligned(view);
    };
    for (const Operation& operation : operations_) {
      if (!is_elementwise(operation)) continue;
      std::optional<std::size_t> first;
      for (const View& view : operation.tensors) {
        if (!is_joined(view)) continue;
        const std::size_t of = root(index_of(view));
        if (!first) first = of;
        group[of] = root(*first);
      }
    }
    std::map<std::size_t, std::int64_t> periods;
    const auto shorten = [&](std::size_t of, std::int64_t elements) {
      const auto [at, made] = periods.emplace(of, elements);
      at->second = std::min(at->second, elements);
    };
    for (const Operation& operation : operations_) {
      if (may_be_owned_(operation)) shorten(root(index_of(operation.tensors[ProductWords::to])), operation.product.n);
      if (!is_elementwise(operation)) continue;
      for (const View& view : operation.tensors)
        if (is_joined(view)) shorten(root(index_of(view)), elements_of(operation));
    }
    const auto refuse_unless = [&](std::size_t of, bool fits) {
      if (!fits) periods[of] = 0;
    };
    for (auto& [of, period] : periods)
      if (period % settings_.members != 0) period = 0;
    for (const Operation& operation : operations_) {
      if (may_be_owned_(operation)) {
        const std::size_t of = root(index_of(operation.tensors[ProductWords::to]));
        refuse_unless(of, periods[of] != 0 && operation.product.n % periods[of] == 0);
      }
      if (!is_elementwise(operation)) continue;
      for (const View& view : operation.tensors) {
        const Range& range = ranges_.of(view);
        if (!range.written()) continue;
        const std::size_t of = root(index_of(view));
        const auto place = static_cast<std::int64_t>((view.address - range.extent.first) / sizeof(float));
        if (is_joined(view)) refuse_unless(of, periods[of] != 0 && elements_of(operation) % periods[of] == 0 && place % periods[of] == 0);
      }
    }
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const auto at = periods.find(root(i));
      ranges_[i].period = at == periods.end() ? 0 : at->second;
    }
  }

  const std::vector<Operation>& operations_;
  Ranges& ranges_;
  const OwnerSettings settings_;
  const std::function<bool(const Operation&)>& may_be_owned_;
  std::vector<Ownership> ownership_;
};

}  // namespace

std::vector<Ownership> find_owners(const std::vector<Operation>& operations, Ranges& ranges, const OwnerSettings& settings,
                                   const std::function<bool(const Operation&)>& may_be_owned) {
  return Owners(operations, ranges, settings, may_be_owned).find();
}

}  // namespace dwell::tensor::gang
