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
#include "tensor/gang/owners.hpp"
#include "tensor/gang/ranges.hpp"
#include "tensor/gang/step_list.hpp"

namespace dwell::tensor::gang {

namespace {

using device::ProductWords;
using Extent = TensorView::Extent;

constexpr std::uint64_t kMostLocal = std::uint64_t{48} << 10U;       // bytes of a tensor that each member has
constexpr std::uint64_t kMostFactor = std::uint64_t{128} << 10U;     // bytes of a factor of products that a single member only reads
constexpr std::uint64_t kLeastFar = std::uint64_t{1} << 10U;         // bytes of an input that members read where it lies, if need be
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
constexpr std::int64_t kWorkOfThread = 64;
// On call, a single member does so many multiplications in the time that several take to hand on a call and an exchange.
constexpr std::int64_t kMostWorkAlone = std::int64_t{1} << 15U;
constexpr std::int64_t kMostExchanged = std::int64_t{1} << 13U;  // words

[[noreturn]] void refuse(const std::string& why) { throw Error(errc::unsupported, "the program does not fit a gang: " + why); }

// Weights that members keep.
struct Kept {
  const Operation* of = nullptr;  // the first product with them
  std::int64_t outputs = 0;
  std::uint64_t bytes = 0;
  std::uint64_t place = 0;
};

class Planner {
 public:
  Planner(const Noted& noted, const std::function<bool(const Extent&)>& needed, const Limits& limits)
      : needed_([&](const Extent& memory) { return is_output(memory) || (!is_copy(noted, memory) && needed(memory)); }), limits_(limits) {
    for (const NotedOperation& operation : noted.operations) operations_.push_back(operation_of(operation));
    if (operations_.empty()) refuse("it has no operations");
  }

  Plan plan() {
    ranges_ = Ranges(operations_, needed_);
    if (drop_dead(operations_, ranges_)) ranges_ = Ranges(operations_, needed_);
    if (operations_.empty()) refuse("nobody reads its results");
    for (const Operation& operation : operations_)
      if (!operation.refusal.empty()) throw Error(errc::unsupported, "a program of the whole has no form for " + operation.refusal);
    choose_members();
    find_slices();
    place_all();
    write_steps();
    plan_.on_call = limits_.on_call;
    plan_.list = std::move(steps_.words);
    steps_.begins.pop_back();  // behind the last end
    plan_.begins = std::move(steps_.begins);
    plan_.forms = std::move(steps_.forms);
    plan_.remarks = std::move(steps_.remarks);
    return std::move(plan_);
  }

 private:
  // Returns whether it is memory of the batch's own, which nobody else reads.
  static bool is_copy(const Noted& noted, const Extent& memory) {
    return std::ranges::any_of(noted.copies, [&](const Buffer<std::byte>& copy) {
      const auto first = reinterpret_cast<std::uint64_t>(copy.data());
      return first <= memory.first && memory.end <= first + copy.size();
    });
  }

  // ---- Slices ------------------------------------------------------------------------------------------------------------------------

  bool is_output(const Extent& memory) const {
    return std::ranges::any_of(limits_.slices, [&](const GangSlices& slices) { return slices.output && slices.memory.overlaps(memory); });
  }
  [[noreturn]] static void refuse_slices(const std::string& why) { throw Error(errc::invalid_argument, "slices of a program: " + why); }
  // All memory of the slices.
  Extent all_of(const GangSlices& slices) const {
    const std::int64_t last = slices.stride * (static_cast<std::int64_t>(limits_.repeats) - 1);
    const std::uint64_t least = slices.first + static_cast<std::uint64_t>(std::min<std::int64_t>(last, 0));
    const std::uint64_t most = slices.first + static_cast<std::uint64_t>(std::max<std::int64_t>(last, 0));
    return {least, most + slices.memory.end - slices.memory.first};
  }
  void check(const GangSlices& slices) {
    const std::uint64_t bytes = slices.memory.end - slices.memory.first;
    if (limits_.on_call) {
      if ((slices.memory.first | bytes) % 4 != 0) refuse_slices("addresses and sizes are multiples of 4 bytes");
      for (const GangSlices& other : limits_.slices)
        if (&other != &slices && slices.output == other.output && slices.memory.overlaps(other.memory))
          refuse_slices(slices.output ? "two outputs overlap" : "two inputs overlap");
      return;
    }
    if ((slices.memory.first | slices.first | static_cast<std::uint64_t>(slices.stride) | bytes) % 4 != 0)
      refuse_slices("addresses, sizes and strides are multiples of 4 bytes");
    if (bytes > kMostLocal) refuse_slices("of " + std::to_string(bytes) + " bytes, " + std::to_string(kMostLocal) + " at most");
    const Extent all = all_of(slices);
    if (std::ranges::any_of(ranges_, [&](const Range& range) { return range.extent.overlaps(all); }))
      refuse_slices("the operations name memory of the whole tensor, not only of the slice");
    for (const GangSlices& other : limits_.slices)
      if (&other != &slices && (slices.output || other.output) && all.overlaps(all_of(other)))
        refuse_slices("an output's tensor is that of another input or output");
  }
  void find_slices() {
    for (const GangSlices& slices : limits_.slices) {
      check(slices);
      bool found = false;
      for (Range& range : ranges_) {
        if (!range.extent.overlaps(slices.memory)) continue;
        const Extent& outer = slices.output ? range.extent : slices.memory;
        const Extent& inner = slices.output ? slices.memory : range.extent;
        if (range.input != nullptr && !slices.output) refuse_slices("memory has slices of two tensors");
        if (inner.first < outer.first || inner.end > outer.end) refuse_slices("the operations name memory around the slice");
        if (slices.output)
          range.outputs.push_back(&slices);
        else
          range.input = &slices;
        found = true;
      }
      if (slices.output && !found) refuse_slices("no operation writes the output's memory");
    }
  }

  // ---- Members -----------------------------------------------------------------------------------------------------------------------

  // Returns whether members hand on parts of the product's result.
  bool is_handed_on(const Operation& operation) {
    return plan_.members > 1 && operation.kind == NotedOperation::Kind::product && operation.product.work() >= kLeastShared &&
           operation.product.outputs() >= static_cast<std::int64_t>(plan_.members) && operation.product.outputs() <= kMostExchanged &&
           !ranges_.shares(operation);
  }
  // Returns whether members keep the second factor.
  bool keeps(const Operation& operation) {
    return keeps_ && is_handed_on(operation) && operation.product.batch == 1 &&
           operation.product.n >= static_cast<std::int64_t>(plan_.members) && stays(ranges_.of(operation.tensors[ProductWords::b]));
  }
  // Returns whether all runs read the same of it.
  static bool stays(const Range& range) { return !range.written() && range.input == nullptr; }
  // Elements of the result that a member computes.
  std::int64_t outputs_of_member(const Operation& operation) const {
    return (operation.product.outputs() + plan_.members - 1) / plan_.members;
  }
  void choose_members() {
    std::int64_t wanted = 1;
    std::int64_t elements = 0;
    std::int64_t most_work = 0;
    std::int64_t all_work = 0;
    for (const Operation& operation : operations_) {
      elements = std::max(elements, elements_of(operation));
      if (elements_of(operation) > kMostElements) wanted = std::max(wanted, elements_of(operation) / kElementsOfMember);
      if (operation.kind == NotedOperation::Kind::product) {
        most_work = std::max(most_work, operation.product.work());
        all_work += operation.product.work();
      }
      if (operation.kind != NotedOperation::Kind::product || operation.product.work() < kLeastShared) continue;
      const std::int64_t for_outputs = std::min<std::int64_t>(operation.product.outputs() / kOutputsOfMember, kUsualMembers);
      wanted = std::max({wanted, for_outputs, operation.product.work() / kWorkOfMember});
    }
    if (!limits_.on_cuda) return;
    if (limits_.on_call && all_work <= kMostWorkAlone && elements <= kElementsOfMember) wanted = 1;
    plan_.members = limits_.members != 0 ? std::min(limits_.members, limits_.most_members)
                                         : static_cast<std::uint32_t>(std::min<std::int64_t>(wanted, limits_.most_members));
    // More members where the weights of fewer do not fit.
    while (plan_.members > 1 && limits_.members == 0 && kept_bytes() > limits_.local_bytes / 2 && plan_.members * 2 <= limits_.most_members)
      plan_.members *= 2;
    if (limits_.threads != 0)
      plan_.threads = limits_.threads;
    else if (plan_.members > 1)
      plan_.threads = kThreadsOfMember;
    else
      plan_.threads = static_cast<std::uint32_t>(
          std::clamp<std::uint64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(elements, most_work / kWorkOfThread))), 128, 1024));
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
        if (!large && !ranges_.shares(operation)) continue;
        for (const View& view : operation.tensors) {
          if (!view.written || ranges_.of(view).shared) continue;
          ranges_.of(view).shared = true;
          changed = true;
        }
      }
    }
  }
  void check_sizes() {
    for (const Operation& operation : operations_) {
      if (ranges_.shares(operation) || is_handed_on(operation)) continue;
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
      const bool meets = ranges_.shares(operation) || is_handed_on(operation);
      whole += kOfStep + (meets ? kOfMeeting + work / plan_.members : work);
      double begins = 0;
      for (const View& view : operation.tensors) {
        const Range* const range = &ranges_.of(view);
        begins = std::max(begins, written[range]);
        if (view.written) begins = std::max(begins, read[range]);
      }
      const double groups = std::max<double>(1, elements / kElementsOfGroup);
      const double ends = begins + kOfTask + work * kTasksOfMember / groups;
      last = std::max(last, ends);
      for (const View& view : operation.tensors) {
        double& of = view.written ? written[&ranges_.of(view)] : read[&ranges_.of(view)];
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
    for (const bool keeps : {true, false}) {
      keeps_ = keeps;
      choose_owners();
      // Inputs of a program that repeats stay as long as it runs: the large ones rather lie where they are.
      for (most_input_ = plan_.members == 1 ? kMostFactor : kMostLocal; most_input_ >= kLeastFar; most_input_ /= 2) {
        if (try_to_place()) return;
        if (!limits_.is_repeated() && most_input_ <= kMostLocal) break;
      }
    }
    refuse("its tensors take more than a member's " + std::to_string(limits_.local_bytes) + " bytes");
  }

  // Returns whether members may own the result of a product.
  bool may_be_owned(const Operation& operation) {
    if (!keeps(operation) || operation.product.m != 1) return false;
    const View& to = operation.tensors[ProductWords::to];
    return ranges_.covers(to) && to.strides[2] == 1 && ranges_.of(to).is_divisible();
  }
  static bool is_elementwise(const Operation& operation) { return operation.kind == NotedOperation::Kind::program; }
  void choose_owners() {
    ownership_ = find_owners(operations_, ranges_, {.members = plan_.members, .most_bytes = kMostLocal, .repeats = limits_.is_repeated()},
                             [this](const Operation& operation) { return may_be_owned(operation); });
  }

  // Returns whether the member's memory is better for it. On a CPU that is memory as any other: it only has intermediate results, which
  // share places there that stay in the caches.
  bool is_worth_a_copy(const Range& range) const {
    if (range.input != nullptr || !range.outputs.empty()) return true;
    if (!limits_.on_cuda) return range.written() && !range.out;
    return range.written() || range.bytes() <= (is_factor(range) ? most_input_ : std::min(most_input_, kMostLocal));
  }

  // Returns whether a product reads it, again and again.
  bool is_factor(const Range& range) const {
    return std::ranges::any_of(operations_, [&](const Operation& operation) {
      return operation.kind == NotedOperation::Kind::product &&
             (&ranges_.of(operation.tensors[ProductWords::a]) == &range || &ranges_.of(operation.tensors[ProductWords::b]) == &range);
    });
  }

  bool try_to_place() {
    std::vector<Life> lives;
    const std::size_t last = operations_.size();
    kept_.clear();
    kept_at_.clear();
    for (Range& range : ranges_) range.used = false;
    for (const Operation& operation : operations_) {
      const bool kept = keeps(operation);
      for (std::size_t i = 0; i < operation.tensors.size(); ++i)
        if (!kept || i != ProductWords::b) ranges_.of(operation.tensors[i]).used = true;
      if (kept) keep(operation);
    }
    std::vector<Range*> local;
    for (Range& range : ranges_) {
      const std::uint64_t most = plan_.members == 1 && !range.written() && range.input == nullptr ? kMostFactor : kMostLocal;
      range.local = range.used && !range.shared && range.bytes() <= most && is_worth_a_copy(range);
      if (!range.local && (range.input != nullptr || !range.outputs.empty()))
        refuse("members share out the tensor of a slice, or it is larger than " + std::to_string(kMostLocal) + " bytes");
      if (!range.local) continue;
      local.push_back(&range);
      lives.push_back({.first = range.read_first ? 0 : range.first,
                       .last = range.out || (limits_.is_repeated() && range.read_first) ? last : range.last,
                       .bytes = range.bytes(),
                       // Slices lie anywhere.
                       .shift = range.input != nullptr ? 0 : range.extent.first % device::kMemberAlignment});
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
    if (operation.kind != NotedOperation::Kind::product || !ranges_.shares(operation)) return {};
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

  void write_steps() {
    begin();
    if (limits_.is_repeated()) {
      steps_.end_list();
      begin_run();
    }
    const std::size_t last = operations_.size() - 1;
    for (std::size_t i = 0; i <= last; ++i) {
      if (waits_for_exchange(operations_[i])) exchange();
      // Early enough to arrive by the end of the run, and where most plans have a barrier of the member's threads.
      if (i == last) fetch_next([&](const Range& range) { return range.last < last; });
      write(operations_[i]);
    }
    fetch_next([&](const Range& range) { return range.last == last; });
    if (fetches_) steps_.add({}, {.body = "  end_copies();\n"}, "waits for the copies");
    exchange();
    if (limits_.is_repeated()) {
      end_run();
      steps_.end_repeated();
    }
    end();
    steps_.end_list();
  }

  // `places`: both of them and what else their alignment depends on, or'ed.
  static FormText copy_text(const std::string& to, const std::string& from, std::uint64_t bytes, std::uint64_t places,
                            const std::string& function = "begin_copy") {
    const std::uint64_t alignment = std::uint64_t{1} << std::min(std::countr_zero(places), 4);
    return {"  static constexpr u32 bytes = " + std::to_string(bytes) +
                ";\n  static constexpr u32 alignment = " + std::to_string(alignment) + ";\n",
            "  " + function + "<Form, kThreads>(m, " + to + ", " + from + ");\n"};
  }
  void begin() {
    bool any = false;
    for (const Range& range : ranges_) {
      if (!range.local || !range.read_first || range.input != nullptr) continue;
      MemberStep step;
      const std::string to = step.local_at("u8", range.place);
      const std::string from = step.global_at("const u8", range.extent.first);
      steps_.add(step, copy_text(to, from, range.bytes(), range.place | range.extent.first), "copies a tensor to the member's memory");
      any = true;
    }
    for (const Kept& weights : kept_) {
      MemberStep step;
      const std::string to = step.local_at("float", weights.place);
      const std::string from = step.global_at("const float", weights.of->tensors[ProductWords::b].address);
      steps_.add(step, weights_text(*weights.of, to, from, plan_.threads, weights.outputs, owned_by(*weights.of)),
                 "copies weights that the member keeps");
      any = true;
    }
    for (const Range& range : ranges_) {
      if (!is_fetched_ahead(range)) continue;
      copy_slice(range, "m.turn()", "");
      any = true;
    }
    if (any) steps_.add({}, {.body = "  end_copies();\n"}, "waits for the copies", true);
  }

  // Returns whether a run's slice comes at the end of the run before: while members wait for each other's words.
  bool is_fetched_ahead(const Range& range) const {
    return range.input != nullptr && range.local && !range.written() && range.outputs.empty() && !limits_.on_call;
  }
  void copy_slice(const Range& range, const std::string& turn, const std::string& condition) {
    MemberStep step;
    step.use(range, range.extent, true);
    const std::string to = step.local_at("u8", range.place);
    const std::string from = slice_at(step, "const u8", *range.input, range.extent.first, turn);
    const std::uint64_t first = range.input->first + range.extent.first - range.input->memory.first;
    FormText form = copy_text(to, from, range.bytes(), range.place | first | static_cast<std::uint64_t>(range.input->stride));
    form.body.insert(0, condition);
    steps_.add(step, form, "copies a slice to the member's memory");
  }
  // Begins to fetch slices of the next run. No step of this one reads its own any more.
  template <class Of>
  void fetch_next(Of of) {
    for (const Range& range : ranges_) {
      if (!is_fetched_ahead(range) || !of(range)) continue;
      copy_slice(range, "(m.turn() + 1)", "if (!m.is_last_turn()) ");
      fetches_ = true;
    }
  }
  // The slices of a run come, and go.
  void begin_run() {
    if (limits_.on_call) return await_call();
    bool any = false;
    for (const Range& range : ranges_) {
      if (range.input == nullptr || !range.local || is_fetched_ahead(range)) continue;
      copy_slice(range, "m.turn()", "");
      any = true;
    }
    if (any) steps_.add({}, {.body = "  end_copies();\n"}, "waits for the slices", true);
  }
  void end_run() {
    if (limits_.on_call) return answer();
    for (const Range& range : ranges_)
      for (const GangSlices* const output : range.outputs)
        copy_out(
            range, output->memory, output->first | static_cast<std::uint64_t>(output->stride),
            [&](MemberStep& step, const std::string& type) { return slice_at(step, type, *output, output->memory.first, "m.turn()"); });
  }
  // The number of the first word of what lies at this address of a call's inputs, or of its outputs.
  std::uint64_t call_word(const GangSlices& of, std::uint64_t address) const {
    std::uint64_t bytes = 0;
    for (const GangSlices* slices = limits_.slices.data(); slices != &of; ++slices)
      if (slices->output == of.output) bytes += slices->memory.end - slices->memory.first;
    return (bytes + address - of.memory.first) / sizeof(std::uint32_t);
  }
  void await_call() {
    MemberStep step;
    std::string place;
    std::string word;
    std::uint64_t count = 0;
    for (const Range& range : ranges_) {
      if (range.input == nullptr || !range.local) continue;
      step.use(range, range.extent, true);
      const std::string i = count == 0 ? "i" : "(i - " + std::to_string(count) + ")";
      count += range.bytes() / sizeof(std::uint32_t);
      const std::string piece = "    if (i < " + std::to_string(count) + ") return ";
      place += piece + step.word(range.place) + " + " + i + " * 4;\n";
      word += piece + step.word(call_word(*range.input, range.extent.first)) + " + " + i + ";\n";
    }
    if (plan_.members > 1) step.use_arrivals();
    const std::string begin = "(const u32* at, u32 i) {\n    (void)at;\n";
    steps_.add(step,
               {"  static constexpr u32 count = " + std::to_string(count) + ";\n  static DWELL_DEVICE u32 place" + begin + place +
                    "    return 0;\n  }\n  static DWELL_DEVICE u32 word" + begin + word + "    return 0;\n  }\n",
                "  m.await_call<Form, kThreads, kMembers>(at);\n"},
               "waits for a call and its inputs", true);
    plan_.arrived = static_cast<std::uint32_t>(count);
  }
  void answer() {
    for (const Range& range : ranges_) {
      for (const GangSlices* const output : range.outputs) {
        MemberStep step;
        step.use(range, output->memory, false);
        const std::string from = step.local_at("const u32", range.place + output->memory.first - range.extent.first);
        const std::uint64_t words = (output->memory.end - output->memory.first) / sizeof(std::uint32_t);
        const std::string first = step.word(call_word(*output, output->memory.first));
        if (range.owned) {
          const Owned owned{.period = range.period, .each = range.period / plan_.members};
          steps_.add(step,
                     {.body = "  for (int i = static_cast<int>(m.thread()); i < " + owned.count(static_cast<std::int64_t>(words)) +
                              "; i += kThreads) {\n    const int e = " + owned.element("i") + ";\n    m.answer(" + first + " + e, " + from +
                              "[e]);\n  }\n"},
                     "answers with what a member owns");
          continue;
        }
        step.word(words);
        step.word(writer_++ % plan_.members);
        steps_.add(step, {.body = "  if (m.rank() == at[3]) m.answer_all<kThreads>(" + first + ", " + from + ", at[2]);\n"},
                   "answers with a result, by one member");
      }
    }
  }
  // The place in the slice of a run of what lies at this address of the memory that stands for it.
  static std::string slice_at(MemberStep& step, const std::string& type, const GangSlices& slices, std::uint64_t address,
                              const std::string& turn) {
    const std::string first = step.global_at("char", slices.first + address - slices.memory.first);
    return "reinterpret_cast<" + type + "*>(" + first + " + static_cast<i64>(" + turn + ") * " + std::to_string(slices.stride) + ")";
  }

  bool waits_for_exchange(const Operation& operation) {
    if (awaited_.empty()) return false;
    if (words_ + elements_of(operation) > kMostExchanged) return true;
    const bool own = owned_by(operation).period != 0;
    return std::ranges::any_of(operation.tensors, [&](const View& view) {
      // Its own elements a member has already, of a result that members own. A product reads its factors as a whole.
      const bool reads_own = own && !view.written && is_elementwise(operation);
      return std::ranges::any_of(
          awaited_, [&](const Awaited& other) { return !(reads_own && other.owned) && other.to.extent().overlaps(view.extent()); });
    });
  }

  void write(const Operation& operation) {
    MemberStep step;
    const Ownership& ownership = ownership_[static_cast<std::size_t>(&operation - operations_.data())];
    const bool own = ownership.owned.period != 0;
    if (own && is_elementwise(operation)) {
      Places places;
      for (const View& view : operation.tensors) places.push_back(step.place_of(view, ranges_.of(view), ownership.owned));
      HandedOn handed_on;
      for (const std::size_t i : ownership.handed_on) handed_on.emplace_back(i, word_in(step, operation.tensors[i], true));
      steps_.add(step, program_text(operation, places, By::own, plan_.threads, ownership.owned, handed_on),
                 remark_of(operation) + ", what a member owns");
      if (!handed_on.empty()) steps_.tell(step);
      return;
    }
    if (is_handed_on(operation)) {
      const View& to = operation.tensors[ProductWords::to];
      const bool kept = keeps(operation);
      Places places{own ? step.place_of(to, ranges_.of(to)) : ""};
      for (std::size_t i = 1; i < operation.tensors.size(); ++i)
        places.push_back(kept && i == ProductWords::b ? step.local_at("const float", kept_for(operation).place)
                                                      : step.place_of(operation.tensors[i], ranges_.of(operation.tensors[i])));
      const bool hands_on = !own || !ownership.handed_on.empty();
      const std::string word = hands_on ? word_in(step, to, own) : "";
      const By by = own ? By::own : kept ? By::kept : By::parts;
      steps_.add(step, product_text(operation, places, by, plan_.threads, outputs_of_member(operation), word, ownership.owned),
                 remark_of(operation));
      if (hands_on) steps_.tell(step);
      return;
    }
    Places places;
    for (const View& view : operation.tensors) places.push_back(step.place_of(view, ranges_.of(view)));
    if (const std::optional<Tile> tile = tile_for(operation)) {
      const std::uint64_t at = tiles_at_.at(static_cast<std::size_t>(&operation - operations_.data()));
      step.use_local(at, tile->bytes());
      const std::string tiles = step.local_at("float", at);
      return steps_.add(step, tiled_text(operation, places, plan_.threads, *tile, tiles), remark_of(operation) + ", in tiles");
    }
    const By by = ranges_.shares(operation) ? By::shared : By::each;
    const std::int64_t outputs = by == By::shared ? outputs_of_member(operation) : operation.product.outputs();
    switch (operation.kind) {
      case NotedOperation::Kind::program: return steps_.add(step, program_text(operation, places, by, plan_.threads), remark_of(operation));
      case NotedOperation::Kind::product:
        return steps_.add(step, product_text(operation, places, by, plan_.threads, outputs, ""), remark_of(operation));
      default: return steps_.add(step, rows_text(operation, places, by, plan_.threads), remark_of(operation));
    }
  }

  // Adds the first word of a result that the step hands on, and returns the text that finds it. `owned`: the member keeps its own elements.
  std::string word_in(MemberStep& step, const View& to, bool owned) {
    // As a batch of rows and columns.
    View matrices = to;
    while (matrices.sizes.size() < 3) {
      matrices.sizes.insert(matrices.sizes.begin(), 1);
      matrices.strides.insert(matrices.strides.begin(), 0);
    }
    awaited_.push_back({matrices, matrices.sizes[0] * matrices.sizes[1] * matrices.sizes[2], owned});
    std::string first = step.word(static_cast<std::uint64_t>(words_));
    words_ += awaited_.back().elements;
    return first;
  }
  // The step that gets all that others have handed on since the last exchange.
  void exchange() {
    if (awaited_.empty()) return;
    MemberStep step;
    std::string text =
        "  static constexpr u32 count = " + std::to_string(words_) + ";\n  static DWELL_DEVICE u32 place(const u32* at, u32 i) {\n";
    std::int64_t first = 0;
    for (std::size_t i = 0; i < awaited_.size(); ++i) {
      const View& to = awaited_[i].to;
      const Range& range = ranges_.of(to);
      step.use(range, to.extent(), true);
      step.word(range.place + to.address - range.extent.first);
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
    steps_.add(step, {text, "  gather<Form, kThreads>(m, at);\n"}, "gets the members' parts of products", true);
    steps_.heard();
    plan_.exchanged = std::max(plan_.exchanged, static_cast<std::uint32_t>(words_));
    awaited_.clear();
    words_ = 0;
  }

  void end() {
    // No member stores a result before all have their copies of what lay there.
    if (plan_.members > 1 && !steps_.has_met()) steps_.barrier();
    for (const Range& range : ranges_)
      if (range.local && range.out && range.input == nullptr)
        copy_out(range, range.extent, range.extent.first,
                 [&](MemberStep& step, const std::string& type) { return step.global_at(type, range.extent.first); });
  }

  // Copies memory of a range out, to where `to` says: by its owners, or by one member, another one each time. `outside`: places there,
  // or'ed.
  void copy_out(const Range& range, const Extent& memory, std::uint64_t outside,
                const std::function<std::string(MemberStep&, const std::string&)>& to) {
    MemberStep step;
    step.use(range, memory, false);
    const std::uint64_t place = range.place + memory.first - range.extent.first;
    if (range.owned) {
      const std::string from = step.local_at("const float", place);
      const std::string target = to(step, "float");
      const Owned owned{.period = range.period, .each = range.period / plan_.members};
      const std::string count = owned.count(static_cast<std::int64_t>(range.bytes() / sizeof(float)));
      steps_.add(step,
                 {.body = "  for (int i = static_cast<int>(m.thread()); i < " + count + "; i += kThreads) {\n    const int e = " +
                          owned.element("i") + ";\n    " + target + "[e] = " + from + "[e];\n  }\n"},
                 "copies out what a member owns");
      return;
    }
    const std::string from = step.local_at("const u8", place);
    const std::string target = to(step, "u8");
    step.word(writer_++ % plan_.members);
    FormText form = copy_text(target, from, memory.end - memory.first, place | outside, "copy_out");
    form.body.insert(0, "  if (m.rank() == at[3])");
    steps_.add(step, form, "copies a result out, by one member");
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

  const std::function<bool(const Extent&)> needed_;
  const Limits limits_;
  std::vector<Operation> operations_;
  Ranges ranges_;
  bool keeps_ = true;
  std::uint64_t most_input_ = kMostLocal;  // bytes of a tensor that is only read, and that each member has
  std::vector<Kept> kept_;
  std::map<WeightsKey, std::size_t> kept_at_;
  std::vector<Ownership> ownership_;               // by operation
  std::map<std::size_t, std::uint64_t> tiles_at_;  // places of tiles, by operation
  Plan plan_;

  StepList steps_;
  // A result of which the others' words have not been got.
  struct Awaited {
    View to;  // of three dimensions
    std::int64_t elements = 0;
    bool owned = false;  // each member has its own elements of it
  };
  std::vector<Awaited> awaited_;
  std::int64_t words_ = 0;    // of them
  bool fetches_ = false;      // slices of the next run
  std::uint32_t writer_ = 0;  // the member that copies the next result out
};

}  // namespace

std::vector<std::size_t> steps_of(const Plan& plan, std::size_t list) {
  std::vector<std::size_t> steps;
  for (std::size_t at = plan.begins[list]; plan.list[at] != 0; at += plan.list[at] >> device::kStepFormBits & device::kStepWords)
    steps.push_back(at);
  return steps;
}

Plan plan_of(const Noted& noted, const std::function<bool(const TensorView::Extent&)>& needed, const Limits& limits) {
  return Planner(noted, needed, limits).plan();
}

}  // namespace dwell::tensor::gang
