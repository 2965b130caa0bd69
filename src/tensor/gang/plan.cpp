#include "tensor/gang/plan.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <dwell/error.hpp>

#include "tensor/device/member.hpp"
#include "tensor/device/product.hpp"
#include "tensor/device/program.hpp"
#include "tensor/gang/forms.hpp"
#include "tensor/gang/local_memory.hpp"

namespace dwell::tensor::gang {

namespace {

using device::ProductWords;
using Extent = TensorView::Extent;

constexpr std::uint64_t kMostLocal = std::uint64_t{48} << 10U;       // bytes of a tensor that each member has
constexpr std::int64_t kMostElements = std::int64_t{1} << 15U;       // of a step that each member does
constexpr std::int64_t kMostWork = std::int64_t{1} << 20U;           // multiplications of such a product
constexpr std::int64_t kMostElementsOnCpu = std::int64_t{1} << 17U;  // where tasks would use several threads
constexpr std::int64_t kMostWorkOnCpu = std::int64_t{1} << 22U;
constexpr std::int64_t kLeastShared = std::int64_t{1} << 14U;  // multiplications that are worth an exchange
constexpr std::int64_t kOutputsOfMember = 8;                   // elements of a product's result
constexpr std::uint32_t kUsualMembers = 32;
constexpr std::int64_t kElementsOfMember = 2048;  // of a step that members share out
constexpr std::int64_t kWorkOfMember = std::int64_t{1} << 15U;
constexpr std::uint32_t kThreadsOfMember = 256;
constexpr std::int64_t kMostExchanged = std::int64_t{1} << 13U;  // words

[[noreturn]] void refuse(const std::string& why) { throw Error(errc::unsupported, "the program does not fit a gang: " + why); }

// Memory that tensors of the program share.
struct Range {
  Extent extent;
  std::vector<Extent> writes = {};  // of steps, without duplicates
  bool read_first = false;          // before it has been written as a whole
  bool covered = false;             // it has been
  bool used = false;                // by other steps than products that keep their weights
  std::size_t first = 0;            // steps that use it
  std::size_t last = 0;
  bool local = false;       // each member has it in its own memory
  bool shared = false;      // it lies in global memory, and members share out the steps that write it
  bool out = false;         // goes back to where the program's caller reads it
  std::int64_t period = 0;  // of the elements that a member may own of it; 0: members own none
  bool owned = false;       // each member has the elements alone that it owns, where the planner is
  std::uint64_t place = 0;

  std::uint64_t bytes() const { return extent.end - extent.first; }
  bool written() const { return !writes.empty(); }
};

// How members do an operation: each the elements that it owns, and what of its results it hands on to the others.
struct Ownership {
  Owned owned = {};  // period 0: not so
  std::vector<std::size_t> handed_on = {};
};

// Weights that members keep.
struct Kept {
  const Operation* of = nullptr;  // the first product with them
  std::int64_t outputs = 0;
  std::uint64_t bytes = 0;
  std::uint64_t place = 0;
};

class Planner {
 public:
  Planner(const Noted& noted, const std::function<bool(const Extent&)>& needed, const Limits& limits) : needed_(needed), limits_(limits) {
    for (const NotedOperation& operation : noted.operations) operations_.push_back(operation_of(operation));
    if (operations_.empty()) refuse("it has no operations");
  }

  Plan plan() {
    find_ranges();
    if (drop_dead()) find_ranges();
    for (const Operation& operation : operations_)
      if (!operation.refusal.empty()) throw Error(errc::unsupported, "a program of the whole has no form for " + operation.refusal);
    choose_members();
    place_all();
    write_steps();
    plan_.list.push_back(0);  // the end
    return std::move(plan_);
  }

 private:
  // ---- Memory ------------------------------------------------------------------------------------------------------------------------

  void find_ranges() {
    ranges_.clear();
    std::vector<Extent> all;
    for (const Operation& operation : operations_)
      for (const View& view : operation.tensors) all.push_back(view.extent());
    std::ranges::sort(all, {}, &Extent::first);
    for (const Extent& extent : all) {
      if (ranges_.empty() || ranges_.back().extent.end <= extent.first)
        ranges_.push_back({.extent = extent});
      else
        ranges_.back().extent.end = std::max(ranges_.back().extent.end, extent.end);
    }
    std::vector<bool> seen(ranges_.size());
    for (std::size_t step = 0; step < operations_.size(); ++step) {
      const auto use = [&](const View& view) -> Range& {
        Range& range = range_of(view);
        const auto index = static_cast<std::size_t>(&range - ranges_.data());
        if (!seen[index]) range.first = step;
        seen[index] = true;
        range.last = step;
        return range;
      };
      for (const View& view : operations_[step].tensors) {
        Range& range = use(view);
        if (view.read && !range.covered) range.read_first = true;
      }
      for (const View& view : operations_[step].tensors) {
        if (!view.written) continue;
        Range& range = use(view);
        const Extent extent = view.extent();
        const bool all_of_it = view.is_dense() && extent.first == range.extent.first && extent.end == range.extent.end;
        if (all_of_it)
          range.covered = true;
        else if (!range.covered)
          range.read_first = true;  // what it does not write stays
        if (std::ranges::none_of(range.writes, [&](const Extent& known) { return known.first == extent.first && known.end == extent.end; }))
          range.writes.push_back(extent);
      }
    }
    for (Range& range : ranges_) range.out = range.written() && (range.read_first || std::ranges::any_of(range.writes, needed_));
  }

  // Drops operations whose results nobody reads. Returns whether there were any.
  bool drop_dead() {
    std::vector<Extent> read;  // by operations behind
    std::vector<Operation> live;
    for (auto operation = operations_.rbegin(); operation != operations_.rend(); ++operation) {
      const bool lives = std::ranges::any_of(operation->tensors, [&](const View& view) {
        if (!view.written) return false;
        const Extent extent = view.extent();
        return range_of(view).out || std::ranges::any_of(read, [&](const Extent& other) { return other.overlaps(extent); });
      });
      if (!lives) continue;
      for (const View& view : operation->tensors)
        if (view.read) read.push_back(view.extent());
      live.push_back(std::move(*operation));
    }
    const bool dropped = live.size() != operations_.size();
    std::ranges::reverse(live);
    operations_ = std::move(live);
    if (operations_.empty()) refuse("nobody reads its results");
    return dropped;
  }

  Range& range_of(const View& view) {
    const auto behind = std::ranges::upper_bound(ranges_, view.extent().first, {}, [](const Range& range) { return range.extent.first; });
    return *std::prev(behind);
  }

  // ---- Members -----------------------------------------------------------------------------------------------------------------------

  // Returns whether members hand on parts of the product's result.
  bool is_handed_on(const Operation& operation) {
    return plan_.members > 1 && operation.kind == NotedOperation::Kind::product && operation.product.work() >= kLeastShared &&
           operation.product.outputs() >= static_cast<std::int64_t>(plan_.members) && operation.product.outputs() <= kMostExchanged &&
           !is_shared(operation);
  }
  // Returns whether members share the operation out, and leave its results in global memory.
  bool is_shared(const Operation& operation) {
    return std::ranges::any_of(operation.tensors, [&](const View& view) { return view.written && range_of(view).shared; });
  }
  // Returns whether members keep the second factor.
  bool keeps(const Operation& operation) {
    return keeps_ && is_handed_on(operation) && operation.product.batch == 1 &&
           operation.product.n >= static_cast<std::int64_t>(plan_.members) && !range_of(operation.tensors[ProductWords::b]).written();
  }
  // Elements of the result that a member computes.
  std::int64_t outputs_of_member(const Operation& operation) const {
    return (operation.product.outputs() + plan_.members - 1) / plan_.members;
  }
  static std::int64_t elements_of(const Operation& operation) {
    if (operation.kind == NotedOperation::Kind::product) return operation.product.outputs();
    std::int64_t elements = 1;
    for (const std::int64_t size : operation.tensors.front().sizes) elements *= size;
    return elements;
  }

  void choose_members() {
    std::int64_t wanted = 1;
    std::int64_t elements = 0;
    for (const Operation& operation : operations_) {
      elements = std::max(elements, elements_of(operation));
      if (elements_of(operation) > kMostElements) wanted = std::max(wanted, elements_of(operation) / kElementsOfMember);
      if (operation.kind != NotedOperation::Kind::product || operation.product.work() < kLeastShared) continue;
      const std::int64_t for_outputs = std::min<std::int64_t>(operation.product.outputs() / kOutputsOfMember, kUsualMembers);
      wanted = std::max({wanted, for_outputs, operation.product.work() / kWorkOfMember});
    }
    if (!limits_.on_cuda) return;
    plan_.members = limits_.members != 0 ? std::min(limits_.members, limits_.most_members)
                                         : static_cast<std::uint32_t>(std::min<std::int64_t>(wanted, limits_.most_members));
    // More members where the weights of fewer do not fit.
    while (plan_.members > 1 && limits_.members == 0 && kept_bytes() > limits_.local_bytes / 2 && plan_.members * 2 <= limits_.most_members)
      plan_.members *= 2;
    if (plan_.members > 1)
      plan_.threads = kThreadsOfMember;
    else
      plan_.threads = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(std::bit_ceil(static_cast<std::uint64_t>(elements)), 128, 1024));
  }

  // Tensors that are written and too large for each member's memory are shared; so are all others that the same steps write.
  void choose_shared() {
    if (plan_.members == 1) return;
    for (Range& range : ranges_) range.shared = range.written() && range.bytes() > kMostLocal;
    for (bool changed = true; changed;) {
      changed = false;
      for (const Operation& operation : operations_) {
        const bool large = elements_of(operation) > kMostElements || (operation.kind == NotedOperation::Kind::product &&
                                                                      operation.product.work() > kMostWork && !is_handed_on(operation));
        if (!large && !is_shared(operation)) continue;
        for (const View& view : operation.tensors) {
          if (!view.written || range_of(view).shared) continue;
          range_of(view).shared = true;
          changed = true;
        }
      }
    }
  }
  void check_sizes() {
    for (const Operation& operation : operations_) {
      if (is_shared(operation) || is_handed_on(operation)) continue;
      const std::int64_t most = limits_.on_cuda ? kMostElements : kMostElementsOnCpu;
      if (elements_of(operation) > most)
        refuse("an operation has " + std::to_string(elements_of(operation)) + " elements, " + std::to_string(most) + " at most");
      if (operation.kind == NotedOperation::Kind::product && operation.product.work() > (limits_.on_cuda ? kMostWork : kMostWorkOnCpu))
        refuse("a product of " + std::to_string(operation.product.work()) + " multiplications");
    }
  }

  // Instructions for an element, of a step that is none of products.
  static std::int64_t instructions_of(const Operation& operation) {
    constexpr std::int64_t kOfRows = 4;
    return operation.kind == NotedOperation::Kind::program ? device::ProgramWords(operation.words.data()).instructions() : kOfRows;
  }
  // Refuses a program that tasks would run faster, side by side: many steps that do not depend on each other. Nanoseconds, measured on an
  // H200; a task behind another one takes about two microseconds.
  void check_worth() {
    if (!limits_.on_cuda || limits_.members != 0) return;
    constexpr double kOfBurst = 60'000;
    constexpr double kOfTask = 2'000;
    constexpr double kOfSubmission = 50;
    constexpr double kOfStep = 100;
    constexpr double kOfMeeting = 1'000;
    constexpr double kOfInstruction = 0.06;    // and element, in a member
    constexpr double kOfMultiplication = 0.3;  // in a member
    constexpr double kTasksOfMember = 4;       // a group of a task has so many times fewer threads
    constexpr std::int64_t kElementsOfGroup = 1024;
    constexpr double kMuch = 1.5;  // the estimates are rough
    double whole = 0;
    double last = 0;
    std::map<const Range*, double> written;  // when tasks have
    std::map<const Range*, double> read;
    for (const Operation& operation : operations_) {
      const bool is_product = operation.kind == NotedOperation::Kind::product;
      const auto elements = static_cast<double>(elements_of(operation));
      const double work = is_product ? static_cast<double>(operation.product.work()) * kOfMultiplication
                                     : elements * static_cast<double>(instructions_of(operation)) * kOfInstruction;
      const bool meets = is_shared(operation) || is_handed_on(operation);
      whole += kOfStep + (meets ? kOfMeeting + work / plan_.members : work);
      double begins = 0;
      for (const View& view : operation.tensors) {
        const Range* const range = &range_of(view);
        begins = std::max(begins, written[range]);
        if (view.written) begins = std::max(begins, read[range]);
      }
      const double groups = std::max<double>(1, elements / kElementsOfGroup);
      const double ends = begins + kOfTask + work * kTasksOfMember / groups;
      last = std::max(last, ends);
      for (const View& view : operation.tensors) {
        double& of = view.written ? written[&range_of(view)] : read[&range_of(view)];
        of = std::max(of, ends);
      }
    }
    const double tasks = kOfBurst + last + kOfSubmission * static_cast<double>(operations_.size());
    if (whole > kMuch * tasks)
      refuse("its " + std::to_string(operations_.size()) + " steps hardly depend on each other: tasks run them side by side");
  }

  std::uint64_t kept_bytes_of(const Operation& operation) const {
    const std::int64_t columns = (operation.product.n + plan_.members - 1) / plan_.members;
    return static_cast<std::uint64_t>(columns * pitch_of(operation.product, plan_.threads, outputs_of_member(operation))) * sizeof(float);
  }
  std::uint64_t kept_bytes() {
    std::set<std::tuple<std::uint64_t, std::int64_t, std::int64_t>> known;
    std::uint64_t bytes = 0;
    for (const Operation& operation : operations_)
      if (keeps(operation) && known.emplace(operation.tensors[ProductWords::b].address, operation.product.n, operation.product.k).second)
        bytes += kept_bytes_of(operation);
    return bytes;
  }

  // ---- Places ------------------------------------------------------------------------------------------------------------------------

  void place_all() {
    choose_shared();
    check_sizes();
    check_worth();
    choose_owners();
    if (try_to_place()) return;
    keeps_ = false;
    kept_.clear();
    kept_at_.clear();
    choose_owners();
    if (!try_to_place()) refuse("its tensors take more than a member's " + std::to_string(limits_.local_bytes) + " bytes");
  }

  // ---- Who owns what -----------------------------------------------------------------------------------------------------------------
  // A member that has computed some elements of a product's result goes on with them, as long as elementwise steps need no others: then the
  // members exchange less, and later.

  // Returns whether the view is a range's elements from a place on, one behind the other.
  bool is_aligned(const View& view) {
    const bool flat = view.sizes.size() == 1 && view.strides[0] == 1;
    return view.type == ElementType::f32 && flat && (view.address - range_of(view).extent.first) % sizeof(float) == 0;
  }
  // Returns whether it is the range as a whole.
  bool covers(const View& view) {
    const Extent extent = view.extent();
    const Extent& all = range_of(view).extent;
    return view.is_dense() && extent.first == all.first && extent.end == all.end;
  }
  // Returns whether members may own the result of a product.
  bool may_be_owned(const Operation& operation) {
    if (!keeps(operation) || operation.product.m != 1) return false;
    const View& to = operation.tensors[ProductWords::to];
    return covers(to) && to.strides[2] == 1;
  }
  bool is_elementwise(const Operation& operation) const { return operation.kind == NotedOperation::Kind::program; }

  void choose_owners() {
    ownership_.assign(operations_.size(), {});
    for (Range& range : ranges_) range.period = 0, range.owned = false;
    if (plan_.members == 1) return;
    find_periods();
    // The last step that wrote a range's owned elements.
    std::map<const Range*, std::size_t> writer;
    const auto hand_on = [&](Range& range) {
      const std::size_t step = writer.at(&range);
      const Operation& operation = operations_[step];
      for (std::size_t i = 0; i < operation.tensors.size(); ++i)
        if (operation.tensors[i].written && &range_of(operation.tensors[i]) == &range) ownership_[step].handed_on.push_back(i);
      range.owned = false;
    };
    for (std::size_t step = 0; step < operations_.size(); ++step) {
      const Operation& operation = operations_[step];
      Ownership& ownership = ownership_[step];
      std::int64_t period = 0;
      if (may_be_owned(operation)) {
        // Its factors are read as a whole.
        for (std::size_t i = 1; i < operation.tensors.size(); ++i)
          if (Range& range = range_of(operation.tensors[i]); range.owned) hand_on(range);
        period = range_of(operation.tensors[ProductWords::to]).period;
      } else if (is_elementwise(operation)) {
        period = period_of(operation);
      }
      if (period != 0) {
        ownership.owned = {.period = period, .each = period / plan_.members};
        for (const View& view : operation.tensors) {
          if (!view.written) continue;
          Range& range = range_of(view);
          range.owned = true;
          writer[&range] = step;
        }
        continue;
      }
      for (const View& view : operation.tensors)
        if (Range& range = range_of(view); range.owned) hand_on(range);
    }
  }
  // The period of the elements of a program that a member computes alone: 0 if each member computes all of them.
  std::int64_t period_of(const Operation& operation) {
    std::int64_t period = 0;
    bool fits = true;
    for (const View& view : operation.tensors) {
      const Range& range = range_of(view);
      if (!range.owned && !view.written) continue;
      fits = fits && range.period != 0 && (period == 0 || range.period == period) && is_aligned(view) && (!view.written || covers(view));
      period = range.period;
    }
    const bool reads_owned = std::ranges::any_of(operation.tensors, [&](const View& view) { return view.read && range_of(view).owned; });
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
    const auto index_of = [&](const View& view) { return static_cast<std::size_t>(&range_of(view) - ranges_.data()); };
    const auto is_joined = [&](const View& view) {
      const Range& range = range_of(view);
      return range.written() && !range.shared && range.bytes() <= kMostLocal && is_aligned(view);
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
      if (may_be_owned(operation)) shorten(root(index_of(operation.tensors[ProductWords::to])), operation.product.n);
      if (!is_elementwise(operation)) continue;
      for (const View& view : operation.tensors)
        if (is_joined(view)) shorten(root(index_of(view)), elements_of(operation));
    }
    const auto refuse_unless = [&](std::size_t of, bool fits) {
      if (!fits) periods[of] = 0;
    };
    for (auto& [of, period] : periods)
      if (period % plan_.members != 0) period = 0;
    for (const Operation& operation : operations_) {
      if (may_be_owned(operation)) {
        const std::size_t of = root(index_of(operation.tensors[ProductWords::to]));
        refuse_unless(of, periods[of] != 0 && operation.product.n % periods[of] == 0);
      }
      if (!is_elementwise(operation)) continue;
      for (const View& view : operation.tensors) {
        const Range& range = range_of(view);
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

  // Returns whether the member's memory is better for it. On a CPU that is memory as any other: it only has intermediate results, which
  // share places there that stay in the caches.
  bool is_worth_a_copy(const Range& range) const { return limits_.on_cuda || (range.written() && !range.out); }

  bool try_to_place() {
    std::vector<Life> lives;
    const std::size_t last = operations_.size();
    for (Range& range : ranges_) range.used = false;
    for (const Operation& operation : operations_) {
      const bool kept = keeps(operation);
      for (std::size_t i = 0; i < operation.tensors.size(); ++i)
        if (!kept || i != ProductWords::b) range_of(operation.tensors[i]).used = true;
      if (kept) keep(operation);
    }
    std::vector<Range*> local;
    for (Range& range : ranges_) {
      range.local = range.used && !range.shared && range.bytes() <= kMostLocal && is_worth_a_copy(range);
      if (!range.local) continue;
      local.push_back(&range);
      lives.push_back({.first = range.read_first ? 0 : range.first,
                       .last = range.out ? last : range.last,
                       .bytes = range.bytes(),
                       .shift = range.extent.first % device::kMemberAlignment});
    }
    for (const Kept& weights : kept_) lives.push_back({.first = 0, .last = last, .bytes = weights.bytes});
    tiles_at_.clear();
    for (std::size_t step = 0; step < operations_.size(); ++step) {
      const std::optional<Tile> tile = tile_for(operations_[step]);
      if (!tile) continue;
      tiles_at_.emplace(step, lives.size());
      lives.push_back({.first = step, .last = step, .bytes = tile->bytes()});
    }
    const std::uint64_t bytes = place(lives, device::kMemberAlignment);
    // The list takes some words a step.
    if (bytes + list_bytes() > limits_.local_bytes) return false;
    for (std::size_t i = 0; i < local.size(); ++i) local[i]->place = lives[i].place;
    for (std::size_t i = 0; i < kept_.size(); ++i) kept_[i].place = lives[local.size() + i].place;
    for (auto& [step, at] : tiles_at_) at = lives[at].place;
    plan_.local_bytes = bytes;
    return true;
  }
  std::optional<Tile> tile_for(const Operation& operation) {
    if (operation.kind != NotedOperation::Kind::product || !is_shared(operation)) return {};
    return tile_of(operation.product, plan_.members);
  }
  std::uint64_t list_bytes() const {
    std::uint64_t words = 16;
    for (const Operation& operation : operations_) words += 4 + 2 * operation.tensors.size();
    return (words + 4 * ranges_.size()) * sizeof(std::uint32_t);
  }

  // The weights of a product: its second factor by address, shape and strides, and the columns that a member keeps.
  using WeightsKey = std::tuple<std::uint64_t, std::vector<std::int64_t>, std::vector<std::int64_t>, std::int64_t, std::int64_t>;
  WeightsKey key_of(const Operation& operation, std::int64_t pitch) const {
    const View& b = operation.tensors[ProductWords::b];
    return {b.address, b.sizes, b.strides, pitch, owned_by(operation).period};
  }
  const Owned& owned_by(const Operation& operation) const {
    return ownership_[static_cast<std::size_t>(&operation - operations_.data())].owned;
  }
  void keep(const Operation& operation) {
    const std::int64_t outputs = outputs_of_member(operation);
    if (kept_at_.emplace(key_of(operation, pitch_of(operation.product, plan_.threads, outputs)), kept_.size()).second)
      kept_.push_back({.of = &operation, .outputs = outputs, .bytes = kept_bytes_of(operation)});
  }
  const Kept& kept_for(const Operation& operation) const {
    return kept_.at(kept_at_.at(key_of(operation, pitch_of(operation.product, plan_.threads, outputs_of_member(operation)))));
  }

  // ---- Steps -------------------------------------------------------------------------------------------------------------------------

  // Memory that steps since the last barrier use; local places, and addresses elsewhere.
  struct Use {
    bool local = false;
    Extent memory;
    bool writes = false;
    bool synced = false;  // of shared memory: the member's threads have met behind it
    bool told = false;    // and words that others wait for have been put behind that
  };

  // A step that is being written: the text of its form, and its words.
  struct Step {
    std::vector<std::uint32_t> words = {};
    std::vector<Use> uses = {};    // of the member's memory, and of what no member shares
    std::vector<Use> shared = {};  // of what members share
  };

  void use(Step& step, const Range& range, const Extent& extent, bool writes) const {
    if (range.shared)
      step.shared.push_back({false, extent, writes});
    else if (range.local)
      step.uses.push_back({true, {range.place + extent.first - range.extent.first, range.place + extent.end - range.extent.first}, writes});
    else
      step.uses.push_back({false, extent, writes});
  }
  // Adds an address to the step, and returns the text that finds it.
  static std::string local_at(Step& step, const std::string& type, std::uint64_t place) {
    step.words.push_back(static_cast<std::uint32_t>(place));
    return "m.local<" + type + ">(at[" + std::to_string(step.words.size() - 1) + "])";
  }
  static std::string global_at(Step& step, const std::string& type, std::uint64_t address) {
    const std::size_t at = step.words.size();
    step.words.push_back(static_cast<std::uint32_t>(address));
    step.words.push_back(static_cast<std::uint32_t>(address >> 32U));
    return "m.global<" + type + ">(at[" + std::to_string(at) + "], at[" + std::to_string(at + 1) + "])";
  }
  std::string place_in(Step& step, const View& view) {
    const Range& range = range_of(view);
    use(step, range, view.extent(), view.written);
    const std::string type = (view.written ? "" : "const ") + type_name(view.type);
    return range.local ? local_at(step, type, range.place + view.address - range.extent.first) : global_at(step, type, view.address);
  }

  static bool conflict(const std::vector<Use>& uses, const std::vector<Use>& others) {
    return std::ranges::any_of(uses, [&](const Use& use) {
      return std::ranges::any_of(others, [&](const Use& other) {
        return other.local == use.local && (other.writes || use.writes) && other.memory.overlaps(use.memory);
      });
    });
  }

  // Ends a step. A barrier comes before it where it uses what a step since the last one writes, or the other way round: of the member's
  // threads, or of all members for what they share.
  void add(const Step& step, const FormText& text, const std::string& remark, bool sync = false) {
    if (conflict(step.shared, shared_since_)) {
      barrier();
    }
    shared_since_.insert(shared_since_.end(), step.shared.begin(), step.shared.end());
    if (conflict(step.uses, since_)) sync_last();
    const auto [form, made] = forms_.emplace(text, forms_.size());
    if (made) {
      plan_.forms.push_back(text);
      plan_.remarks.push_back(remark);
    }
    if (form->second + 1 >= 1U << device::kStepFormBits || step.words.size() + 1 > device::kStepWords)
      refuse("it has too many kinds of steps");
    last_ = plan_.list.size();
    plan_.list.push_back(static_cast<std::uint32_t>(form->second + 1) | static_cast<std::uint32_t>(step.words.size() + 1)
                                                                            << device::kStepFormBits);
    plan_.list.insert(plan_.list.end(), step.words.begin(), step.words.end());
    since_.insert(since_.end(), step.uses.begin(), step.uses.end());
    if (sync) sync_last();
  }
  void barrier() {
    shared_since_.clear();
    add({}, {.body = "  m.barrier<kMembers, kThreads>();\n"}, "a barrier of all members");
    since_.clear();
    met_ = true;
  }
  void sync_last() {
    plan_.list[last_] |= device::kStepSync;
    since_.clear();
    for (Use& use : shared_since_) use.synced = true;
  }

  void write_steps() {
    begin();
    for (const Operation& operation : operations_) {
      if (waits_for_exchange(operation)) exchange();
      write(operation);
    }
    exchange();
    end();
  }

  void begin() {
    bool any = false;
    for (const Range& range : ranges_) {
      if (!range.local || !range.read_first) continue;
      Step step;
      const std::string to = local_at(step, "u8", range.place);
      const std::string from = global_at(step, "const u8", range.extent.first);
      step.words.push_back(static_cast<std::uint32_t>(range.bytes()));
      add(step, {.body = "  begin_copy<kThreads>(m, " + to + ", " + from + ", at[3]);\n"}, "copies a tensor to the member's memory");
      any = true;
    }
    for (const Kept& weights : kept_) {
      Step step;
      const std::string to = local_at(step, "float", weights.place);
      const std::string from = global_at(step, "const float", weights.of->tensors[ProductWords::b].address);
      add(step, weights_text(*weights.of, to, from, plan_.threads, weights.outputs, owned_by(*weights.of)),
          "copies weights that the member keeps");
      any = true;
    }
    if (any) add({}, {.body = "  end_copies();\n"}, "waits for the copies", true);
  }

  bool waits_for_exchange(const Operation& operation) {
    if (awaited_.empty()) return false;
    if (words_ + elements_of(operation) > kMostExchanged) return true;
    const bool own = owned_by(operation).period != 0;
    return std::ranges::any_of(operation.tensors, [&](const View& view) {
      // Its own elements a member has already. A product reads its factors as a whole.
      const bool reads_own = own && !view.written && is_elementwise(operation);
      return !reads_own && std::ranges::any_of(awaited_, [&](const Awaited& other) { return other.to.extent().overlaps(view.extent()); });
    });
  }

  void write(const Operation& operation) {
    Step step;
    const Ownership& ownership = ownership_[static_cast<std::size_t>(&operation - operations_.data())];
    const bool own = ownership.owned.period != 0;
    if (own && is_elementwise(operation)) {
      Places places;
      for (const View& view : operation.tensors) places.push_back(place_in(step, view));
      HandedOn handed_on;
      for (const std::size_t i : ownership.handed_on) handed_on.emplace_back(i, word_in(step, operation.tensors[i]));
      add(step, program_text(operation, places, By::own, plan_.threads, ownership.owned, handed_on),
          remark_of(operation) + ", what a member owns");
      if (!handed_on.empty()) tell(step);
      return;
    }
    if (is_handed_on(operation)) {
      const View& to = operation.tensors[ProductWords::to];
      const bool kept = keeps(operation);
      Places places{own ? place_in(step, to) : ""};
      for (std::size_t i = 1; i < operation.tensors.size(); ++i)
        places.push_back(kept && i == ProductWords::b ? local_at(step, "const float", kept_for(operation).place)
                                                      : place_in(step, operation.tensors[i]));
      const bool hands_on = !own || !ownership.handed_on.empty();
      const std::string word = hands_on ? word_in(step, to) : "";
      const By by = own ? By::own : kept ? By::kept : By::parts;
      add(step, product_text(operation, places, by, plan_.threads, outputs_of_member(operation), word, ownership.owned),
          remark_of(operation));
      if (hands_on) tell(step);
      return;
    }
    Places places;
    for (const View& view : operation.tensors) places.push_back(place_in(step, view));
    if (const std::optional<Tile> tile = tile_for(operation)) {
      const std::uint64_t at = tiles_at_.at(static_cast<std::size_t>(&operation - operations_.data()));
      step.uses.push_back({true, {at, at + tile->bytes()}, true});
      const std::string tiles = local_at(step, "float", at);
      return add(step, tiled_text(operation, places, plan_.threads, *tile, tiles), remark_of(operation) + ", in tiles");
    }
    const By by = is_shared(operation) ? By::shared : By::each;
    const std::int64_t outputs = by == By::shared ? outputs_of_member(operation) : operation.product.outputs();
    switch (operation.kind) {
      case NotedOperation::Kind::program: return add(step, program_text(operation, places, by, plan_.threads), remark_of(operation));
      case NotedOperation::Kind::product:
        return add(step, product_text(operation, places, by, plan_.threads, outputs, ""), remark_of(operation));
      default: return add(step, rows_text(operation, places, by, plan_.threads), remark_of(operation));
    }
  }

  // Adds the first word of a result that the step hands on, and returns the text that finds it.
  std::string word_in(Step& step, const View& to) {
    // As a batch of rows and columns.
    View matrices = to;
    while (matrices.sizes.size() < 3) {
      matrices.sizes.insert(matrices.sizes.begin(), 1);
      matrices.strides.insert(matrices.strides.begin(), 0);
    }
    awaited_.push_back({matrices, matrices.sizes[0] * matrices.sizes[1] * matrices.sizes[2]});
    step.words.push_back(static_cast<std::uint32_t>(words_));
    words_ += awaited_.back().elements;
    return "at[" + std::to_string(step.words.size() - 1) + "]";
  }
  // Behind the words of this step others know that what the member has read so far may be replaced.
  void tell(const Step& step) {
    for (std::size_t i = 0; i < shared_since_.size(); ++i) {
      Use& use = shared_since_[i];
      use.told = use.told || use.synced || i + step.shared.size() >= shared_since_.size();
    }
  }

  // The step that gets all that others have handed on since the last exchange.
  void exchange() {
    if (awaited_.empty()) return;
    Step step;
    std::string text =
        "  static constexpr u32 count = " + std::to_string(words_) + ";\n  static DWELL_DEVICE u32 place(const u32* at, u32 i) {\n";
    std::int64_t first = 0;
    for (std::size_t i = 0; i < awaited_.size(); ++i) {
      const View& to = awaited_[i].to;
      const Range& range = range_of(to);
      use(step, range, to.extent(), true);
      step.words.push_back(static_cast<std::uint32_t>(range.place + to.address - range.extent.first));
      const std::string j = first == 0 ? "i" : "(i - " + std::to_string(first) + ")";
      first += awaited_[i].elements;
      std::string at = "at[" + std::to_string(i) + "]";
      const auto term = [&](std::size_t dim, const std::string& index) {
        if (to.sizes[dim] != 1 && to.strides[dim] != 0) at += " + " + index + " * " + std::to_string(to.strides[dim] * 4);
      };
      const std::int64_t rows = to.sizes[0] * to.sizes[1];
      term(0, j + " / " + std::to_string(to.sizes[1] * to.sizes[2]));
      term(1, j + " / " + std::to_string(to.sizes[2]) + " % " + std::to_string(to.sizes[1]));
      term(2, rows != 1 ? j + " % " + std::to_string(to.sizes[2]) : j);
      text += "    " + (i + 1 < awaited_.size() ? "if (i < " + std::to_string(first) + ") " : std::string()) + "return " + at + ";\n";
    }
    text += "  }\n";
    // Behind a barrier: a word of the next exchange says that all threads of its member have read this one.
    add(step, {text, "  gather<Form, kThreads>(m, at);\n"}, "gets the members' parts of products", true);
    std::erase_if(shared_since_, [](const Use& use) { return !use.writes && use.told; });
    met_ = true;
    plan_.exchanged = std::max(plan_.exchanged, static_cast<std::uint32_t>(words_));
    awaited_.clear();
    words_ = 0;
  }

  void end() {
    // No member stores a result before all have their copies of what lay there.
    if (plan_.members > 1 && !met_) barrier();
    std::uint32_t member = 0;
    for (const Range& range : ranges_) {
      if (!range.local || !range.out) continue;
      Step step;
      use(step, range, range.extent, false);
      if (range.owned) {
        const std::string from = local_at(step, "const float", range.place);
        const std::string to = global_at(step, "float", range.extent.first);
        const Owned owned{.period = range.period, .each = range.period / plan_.members};
        const std::string count = owned.count(static_cast<std::int64_t>(range.bytes() / sizeof(float)));
        add(step,
            {.body = "  for (int i = static_cast<int>(m.thread()); i < " + count +
                     "; i += kThreads) {\n    const int e = " + owned.element("i") + ";\n    " + to + "[e] = " + from + "[e];\n  }\n"},
            "copies out what a member owns");
        continue;
      }
      const std::string from = local_at(step, "const u8", range.place);
      const std::string to = global_at(step, "u8", range.extent.first);
      step.words.push_back(static_cast<std::uint32_t>(range.bytes()));
      step.words.push_back(member++ % plan_.members);
      add(step, {.body = "  if (m.rank() == at[4]) copy_out<kThreads>(m, " + to + ", " + from + ", at[3]);\n"},
          "copies a result out, by one member");
    }
  }

  static std::string remark_of(const Operation& operation) {
    switch (operation.kind) {
      case NotedOperation::Kind::program: {
        std::string shape;
        for (const std::int64_t size : operation.tensors.front().sizes) shape += (shape.empty() ? "" : " x ") + std::to_string(size);
        return "elementwise, " + shape;
      }
      case NotedOperation::Kind::product: {
        const ProductShape& shape = operation.product;
        return "product of " + (shape.batch == 1 ? "" : std::to_string(shape.batch) + " times ") + std::to_string(shape.m) + " x " +
               std::to_string(shape.k) + " by " + std::to_string(shape.k) + " x " + std::to_string(shape.n);
      }
      default: return "reduction of rows";
    }
  }

  const std::function<bool(const Extent&)>& needed_;
  const Limits limits_;
  std::vector<Operation> operations_;
  std::vector<Range> ranges_;  // by address
  bool keeps_ = true;
  std::vector<Kept> kept_;
  std::map<WeightsKey, std::size_t> kept_at_;
  std::vector<Ownership> ownership_;               // by operation
  std::map<std::size_t, std::uint64_t> tiles_at_;  // places of tiles, by operation
  Plan plan_;

  std::map<FormText, std::size_t> forms_;
  std::size_t last_ = 0;           // head of the last step
  std::vector<Use> since_;         // the last barrier of the member's threads
  std::vector<Use> shared_since_;  // the last one of all members
  bool met_ = false;               // each member has waited for all others
  // A result of which the others' words have not been got.
  struct Awaited {
    View to;  // of three dimensions
    std::int64_t elements = 0;
  };
  std::vector<Awaited> awaited_;
  std::int64_t words_ = 0;  // of them
};

}  // namespace

Plan plan_of(const Noted& noted, const std::function<bool(const TensorView::Extent&)>& needed, const Limits& limits) {
  return Planner(noted, needed, limits).plan();
}

}  // namespace dwell::tensor::gang
