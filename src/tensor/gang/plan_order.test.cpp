// Plans of random programs, run step by step for several members of several threads: every read gets what the operations before it have
// written, and accesses that conflict are ordered, however slow a thread is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "tensor/device/member.hpp"
#include "tensor/device/product.hpp"
#include "tensor/gang/forms.hpp"
#include "tensor/gang/plan.hpp"
#include "tensor/gang/ranges.hpp"
#include "tests/unit/noted_operations.hpp"
#include "tests/unit/sanitized.hpp"

namespace dwell::tensor::gang {
namespace {

using device::ProductWords;
using Extent = TensorView::Extent;

constexpr std::size_t kThreads = 3;  // of a member, some of which put no words of a step

// The elements that a member owns, as a form's text has them.
struct OwnedText {
  std::int64_t each = 0;  // 0: it owns none
  std::int64_t period = 0;

  bool has(std::size_t member, std::int64_t element) const {
    return each == 0 || element % period / each == static_cast<std::int64_t>(member);
  }
};

// Runs a plan's list. A value is the number of the operation that has written it.
class PlanRun {
 public:
  // `putting`: of threads, which puts the words of the first step that has some; then the next one.
  PlanRun(const Noted& noted, const Ranges::Needed& needed, const Plan& plan, std::size_t putting)
      : plan_(plan), members_(plan.members), putting_(putting) {
    for (const NotedOperation& operation : noted.operations) operations_.push_back(operation_of(operation));
    ranges_ = Ranges(operations_, needed);
    if (drop_dead(operations_, ranges_)) ranges_ = Ranges(operations_, needed);
    base_ = ranges_[0].extent.first;
    std::uint64_t end = base_;
    for (const Range& range : ranges_) end = std::max(end, range.extent.end);
    expected_.assign((end - base_) / sizeof(float), kInitial);
    global_ = expected_;
    local_.assign(members_, std::vector<int>(plan.local_bytes / sizeof(float) + 1, kNothing));
    strong_.assign(members_ * kThreads, std::vector<int>(members_ * kThreads, -1));
    weak_ = strong_;
  }

  // Returns the first fault, or an empty string.
  std::string fault() {
    for (std::size_t at = 0; plan_.list.at(at) != 0 && fault_.empty(); at += plan_.list[at] >> device::kStepFormBits & device::kStepWords) {
      step(at);
      if ((plan_.list[at] & device::kStepSync) != 0) meet();
      ++now_;
    }
    if (fault_.empty() && done_ != operations_.size()) fault_ = "there are operations without a step";
    for (const Range& range : ranges_)
      for (std::size_t i = word_of(range.extent.first); range.out && i < word_of(range.extent.end); ++i)
        if (fault_.empty() && global_[i] != expected_[i])
          fault_ = "a result of operation " + std::to_string(global_[i]) + " is left, not of " + std::to_string(expected_[i]);
    return fault_;
  }

 private:
  static constexpr int kInitial = -1;
  static constexpr int kNothing = -2;

  // A tensor in a step's words.
  struct Place {
    bool local = false;
    std::uint64_t at = 0;
  };
  struct Access {
    bool local = false;
    Extent memory;
    bool writes = false;
    std::size_t thread = kThreads;  // of each member; kThreads: all of them
    std::size_t member = kAny;
    OwnedText owned = {};  // a thread has element i of what the member owns, of each period
    int step = 0;

    // Returns whether a thread of a member accesses a word.
    bool has(std::size_t of_member, std::size_t of_thread, std::uint64_t word) const {
      if (member != kAny && member != of_member) return false;
      if (owned.each == 0) return thread == kThreads || thread == of_thread;
      const auto element = static_cast<std::int64_t>(word - memory.first / sizeof(float));
      return owned.has(of_member, element) && static_cast<std::size_t>(element % owned.period % owned.each) % kThreads == of_thread;
    }
  };
  static constexpr std::size_t kAny = ~std::size_t{0};
  // A result of which others get the words.
  struct Awaited {
    View to;
    int operation = 0;
    std::vector<std::vector<int>> clocks;  // of the threads that have put its words, by member
  };

  std::size_t word_of(std::uint64_t address) const { return (address - base_) / sizeof(float); }
  const std::uint32_t* operands(std::size_t at) const { return plan_.list.data() + at + 1; }
  static std::uint64_t address_in(const std::uint32_t* words) { return words[0] | static_cast<std::uint64_t>(words[1]) << 32U; }

  // ---- Order -------------------------------------------------------------------------------------------------------------------------

  static void join(std::vector<int>& clock, const std::vector<int>& other) {
    for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
  }
  std::size_t index(std::size_t member, std::size_t thread) const { return member * kThreads + thread; }
  // The threads of each member meet, behind this step or amid it.
  void meet() {
    for (auto* clocks : {&strong_, &weak_})
      for (std::size_t member = 0; member < members_; ++member) {
        std::vector<int> together(clocks->size(), -1);
        for (std::size_t thread = 0; thread < kThreads; ++thread) {
          (*clocks)[index(member, thread)][index(member, thread)] = now_;
          join(together, (*clocks)[index(member, thread)]);
        }
        for (std::size_t thread = 0; thread < kThreads; ++thread) (*clocks)[index(member, thread)] = together;
      }
  }
  void meet_all() {
    meet();
    for (auto* clocks : {&strong_, &weak_}) {
      std::vector<int> together(clocks->size(), -1);
      for (const std::vector<int>& clock : *clocks) join(together, clock);
      clocks->assign(clocks->size(), together);
    }
  }
  // Words order nothing but what a member has read before what others write behind them: they are no fence.
  void access(Access access) {
    access.step = now_;
    for (const Access& other : accesses_) {
      if (other.step == now_ || other.local != access.local || (!other.writes && !access.writes)) continue;
      if (!other.memory.overlaps(access.memory)) continue;
      const std::uint64_t first = std::max(other.memory.first, access.memory.first) / sizeof(float);
      const std::uint64_t end = std::min(other.memory.end, access.memory.end) / sizeof(float);
      // Threads with elements of their own may differ from word to word, so all words are compared; else the first one suffices.
      const bool apart = other.owned.each != 0 || access.owned.each != 0;
      const auto meets = [&](std::size_t a, std::size_t b) {
        for (std::uint64_t word = first; word < (apart ? end : first + 1); ++word)
          if (other.has(a / kThreads, a % kThreads, word) && access.has(b / kThreads, b % kThreads, word)) return true;
        return false;
      };
      for (std::size_t a = 0; a < members_ * kThreads; ++a)
        for (std::size_t b = 0; b < members_ * kThreads; ++b) {
          if (a == b || (access.local && a / kThreads != b / kThreads)) continue;
          const auto& clocks = other.writes || a / kThreads == b / kThreads ? strong_ : weak_;
          if (clocks[b][a] >= other.step || !fault_.empty() || !meets(a, b)) continue;
          fault_ = "step " + std::to_string(now_) + (access.writes ? " writes" : " reads") + (access.local ? " a place" : " memory") +
                   " that step " + std::to_string(other.step) + (other.writes ? " writes" : " reads") + ", and they are not ordered";
        }
    }
    accesses_.push_back(access);
  }

  // ---- Values ------------------------------------------------------------------------------------------------------------------------

  // Values are looked at for one of so many elements, which are of all rows and owners.
  static constexpr std::size_t kLookedAt = 13;
  bool is_looked_at(std::uint64_t address) const { return word_of(address) % kLookedAt == 0; }
  // Calls with the number and the address of elements that are looked at.
  template <class Call>
  void for_elements(const View& view, const Call& call) const {
    std::int64_t elements = 1;
    for (std::size_t dim = view.sizes.size(); dim-- != 0; elements *= view.sizes[dim])
      ASSERT_TRUE(view.sizes[dim] == 1 || view.strides[dim] == elements) << "elements lie one behind the other";
    std::int64_t i = 0;
    while (i < elements && !is_looked_at(view.address + static_cast<std::uint64_t>(i) * sizeof(float))) ++i;
    for (; i < elements; i += kLookedAt) call(i, view.address + static_cast<std::uint64_t>(i) * sizeof(float));
  }
  int& value(std::size_t member, const Place& place, const View& view, std::uint64_t address) {
    return place.local ? local_[member].at((place.at + address - view.address) / sizeof(float)) : global_.at(word_of(address));
  }
  void read(std::size_t member, const Place& place, const View& view, std::uint64_t address) {
    const int found = value(member, place, view, address);
    const int wanted = expected_[word_of(address)];
    if (found == wanted || !fault_.empty()) return;
    fault_ = "operation " + std::to_string(done_) + " reads what operation " + std::to_string(found) + " has written, not " +
             std::to_string(wanted);
  }

  // ---- Steps -------------------------------------------------------------------------------------------------------------------------

  void step(std::size_t at) {
    const FormText& form = plan_.forms.at((plan_.list[at] & 0xFFFFU) - 1);
    const std::uint32_t* const words = operands(at);
    const auto is = [&](const char* text) { return form.body.find(text) != std::string::npos; };
    if (is("m.barrier<")) return meet_all();
    if (is("end_copies();") && form.body.size() < 30) return;
    if (is("begin_copy<") || is("copy_out<")) {
      static const std::regex size(R"(bytes = (\d+))");
      std::smatch found;
      ASSERT_TRUE(std::regex_search(form.members, found, size)) << form.members;
      const bool out = is("copy_out<");
      return copy(words[0], address_in(words + 1), std::stoul(found[1]), out, out ? words[3] : kAny);
    }
    if (is("begin_weights<")) return access({.local = true, .memory = {words[0], words[0] + 4}, .writes = true});
    if (is("gather<")) return gather(words);
    if (plan_.remarks.at((plan_.list[at] & 0xFFFFU) - 1).starts_with("copies out what a member owns")) {
      const std::uint64_t address = address_in(words + 1);
      return copy(words[0], address, ranges_.of(View{.address = address, .sizes = {1}, .strides = {1}}).bytes(), true, kAny,
                  owned_in(form));
    }
    operate(form, words);
  }

  static OwnedText owned_in(const FormText& form) {
    static const std::regex elements(R"(i / (\d+) \* (\d+) \+ (static_cast<int>\(m\.)?rank)");
    static const std::regex of_threads(R"(p \* (\d+) \+ static_cast<int>\(m\.rank\(\)\) \* (\d+) \+ i;)");
    std::smatch found;
    const std::string text = form.members + form.body;
    if (std::regex_search(text, found, of_threads)) return {.each = std::stoll(found[2]), .period = std::stoll(found[1])};
    if (!std::regex_search(text, found, elements)) return {};
    return {.each = std::stoll(found[1]), .period = std::stoll(found[2])};
  }

  void copy(std::uint64_t place, std::uint64_t address, std::uint64_t bytes, bool out, std::size_t by, const OwnedText& owned = {}) {
    access({.local = true, .memory = {place, place + bytes}, .writes = !out, .member = by});
    access({.memory = {address, address + bytes}, .writes = out, .member = by});
    for (std::size_t member = 0; member < members_; ++member) {
      if (by != kAny && by != member) continue;
      for (std::size_t i = 0; i < bytes / sizeof(float); ++i) {
        if (!is_looked_at(address + i * sizeof(float))) continue;
        int& mine = local_[member].at(place / sizeof(float) + i);
        int& outside = global_.at(word_of(address) + i);
        if (out && owned.has(member, static_cast<std::int64_t>(i))) outside = mine;
        if (!out) mine = outside;
      }
    }
  }

  void gather(const std::uint32_t* words) {
    std::size_t turn = 0;
    for (std::size_t i = 0; i < awaited_.size(); ++i) {
      const Awaited& awaited = awaited_[i];
      const Extent extent = awaited.to.extent();
      access({.local = true, .memory = {words[i], words[i] + extent.end - extent.first}, .writes = true});
      for (std::size_t from = 0; from < members_; ++from, ++turn)
        for (std::size_t member = 0; member < members_; ++member) join(weak_[index(member, turn % kThreads)], awaited.clocks[from]);
      for_elements(awaited.to, [&](std::int64_t, std::uint64_t address) {
        for (std::size_t member = 0; member < members_; ++member) value(member, {true, words[i]}, awaited.to, address) = awaited.operation;
      });
    }
    awaited_.clear();
  }

  void operate(const FormText& form, const std::uint32_t* words) {
    const Operation& operation = operations_.at(done_);
    const auto is = [&](const char* text) { return form.body.find(text) != std::string::npos; };
    const bool kept = is("multiply_kept<");
    const bool stays = form.members.find("stays = true") != std::string::npos;
    const bool puts = is("multiply_part<") || is("m.put(") || form.members.find("hands_on = true") != std::string::npos;
    const bool parts = kept || is("multiply_part<");
    const OwnedText owned = owned_in(form);
    // The places of its tensors, in their order.
    static const std::regex at_words(R"(m\.(local|global)<[^>]*>\(at\[(\d+)\])");
    std::vector<std::pair<std::size_t, bool>> found;
    for (std::sregex_iterator i(form.body.begin(), form.body.end(), at_words); i != std::sregex_iterator(); ++i)
      found.emplace_back(std::stoul((*i)[2]), (*i)[1] == "local");
    std::ranges::sort(found);
    const std::size_t thread = puts ? putting_++ % kThreads : kThreads;
    std::size_t next = 0;
    std::vector<Place> places;
    for (std::size_t i = 0; i < operation.tensors.size(); ++i) {
      const View& view = operation.tensors[i];
      const Extent extent = view.extent();
      if (i == 0 && parts && !stays) {
        places.emplace_back();
        continue;
      }
      const auto [word, local] = found.at(next++);
      places.push_back({local, local ? words[word] : address_in(words + word)});
      if (kept && i == ProductWords::b) {
        access({.local = true, .memory = {words[word], words[word] + 4}, .thread = thread});
        continue;
      }
      if (!local && places.back().at != view.address && fault_.empty()) fault_ = "the address of a tensor is wrong";
      const std::uint64_t first = local ? words[word] : extent.first;
      // Each element of such a step is one thread's, which may be the one that puts it.
      const bool by_thread = operation.kind == NotedOperation::Kind::program && owned.each != 0 && local && view.sizes.size() == 1;
      access({.local = local,
              .memory = {first, first + extent.end - extent.first},
              .writes = view.written,
              .thread = thread,
              .owned = by_thread ? owned : OwnedText{}});
    }
    if (is("multiply_tiles<")) {
      const std::uint64_t first = words[found.at(next).first];
      access({.local = true, .memory = {first, first + tile_of(operation.product, plan_.members)->bytes()}, .writes = true});
    }
    // Values: all are read before any is written.
    const bool elementwise = operation.kind == NotedOperation::Kind::program;
    for (std::size_t i = 0; i < operation.tensors.size(); ++i) {
      const View& view = operation.tensors[i];
      if (!view.read || !ranges_.of(view).written()) continue;
      for_elements(view, [&](std::int64_t e, std::uint64_t address) {
        for (std::size_t member = 0; member < members_; ++member)
          if (!elementwise || owned.has(member, e)) read(member, places[i], view, address);
      });
    }
    for (std::size_t i = 0; i < operation.tensors.size(); ++i) {
      const View& view = operation.tensors[i];
      if (!view.written) continue;
      for_elements(view, [&](std::int64_t e, std::uint64_t address) {
        expected_[word_of(address)] = static_cast<int>(done_);
        for (std::size_t member = 0; member < members_ && !(parts && !stays); ++member)
          if (owned.has(member, e)) value(member, places[i], view, address) = static_cast<int>(done_);
      });
    }
    if (puts) put(operation, form, thread);
    ++done_;
  }
  void put(const Operation& operation, const FormText& form, std::size_t thread) {
    for (std::size_t i = 0; i < operation.tensors.size(); ++i) {
      const View& view = operation.tensors[i];
      const bool handed_on = operation.kind == NotedOperation::Kind::product
                                 ? i == 0
                                 : form.body.find(" + e, t" + std::to_string(i) + "[") != std::string::npos;
      if (!handed_on) continue;
      Awaited awaited{.to = view, .operation = static_cast<int>(done_), .clocks = {}};
      for (std::size_t member = 0; member < members_; ++member) {
        awaited.clocks.push_back(weak_[index(member, thread)]);
        awaited.clocks.back()[index(member, thread)] = now_;
      }
      awaited_.push_back(std::move(awaited));
    }
  }

  const Plan& plan_;
  const std::size_t members_;
  std::size_t putting_;
  std::vector<Operation> operations_;
  Ranges ranges_;
  std::uint64_t base_ = 0;
  std::vector<int> expected_;  // after the operations so far, one behind the other
  std::vector<int> global_;
  std::vector<std::vector<int>> local_;          // by member
  std::vector<std::vector<int>> strong_, weak_;  // by thread: the last step of each other that comes before; behind words as well
  std::vector<Access> accesses_;
  std::vector<Awaited> awaited_;
  std::size_t done_ = 0;  // operations
  int now_ = 0;           // steps
  std::string fault_;
};

// Tensors of all kinds: large ones, which members share; vectors, of which members own elements; small ones.
struct RandomProgram {
  explicit RandomProgram(std::uint32_t seed) : random(seed) {
    for (int i = 0; i < 3; ++i) large.push_back(made_up({50, 256}));
    for (int i = 0; i < 4; ++i) vectors.push_back(made_up({1, 256}));
    for (int i = 0; i < 3; ++i) pairs.push_back(made_up({2, 256}));
    for (int i = 0; i < 3; ++i) small.push_back(made_up({1, 32}));
    must_be_shared = random() % 4 != 0;
    const int operations = 10 + static_cast<int>(random() % 60);
    for (int i = 0; i < operations; ++i) add();
  }

  std::size_t below(std::size_t n) { return random() % n; }
  TensorView one_of(const std::vector<TensorView>& of) { return of[below(of.size())]; }
  // A row of 256 that an operation reads or writes.
  TensorView row() {
    switch (below(4)) {
      case 0: return one_of(large).slice(0, static_cast<std::int64_t>(below(50)), 1);
      case 1: return one_of(pairs).slice(0, static_cast<std::int64_t>(below(2)), 1);
      default: return one_of(vectors);
    }
  }
  void program(TensorOp op, const TensorView& to, const TensorView& a, const TensorView& b) {
    note_program(noted, op, to, std::vector<Operand>{a, b});
  }
  void add() {
    const TensorView u = one_of(vectors);
    const TensorView v = one_of(vectors);
    switch (below(9)) {
      case 0: return program(TensorOp::add, one_of(vectors), u, row());
      case 1: return program(TensorOp::mul, one_of(vectors), u, v);
      case 2: return program(TensorOp::sub, row(), row(), u);
      case 3: return program(TensorOp::add, one_of(large), one_of(large), one_of(large));
      case 4: return program(TensorOp::add, one_of(small), one_of(small), u.slice(1, 32 * static_cast<std::int64_t>(below(8)), 32));
      case 5:
        if (u.address() != v.address()) note_linear(noted, u, v, one_of({weights, others}), bias);
        return;
      case 6: {
        const TensorView to = one_of(pairs);
        const TensorView from = one_of(pairs);
        if (to.address() != from.address()) note_linear(noted, to, from, weights, bias);
        return;
      }
      case 7: {
        // A product that reads what members share.
        const TensorView from = one_of(large).slice(0, static_cast<std::int64_t>(below(48)), 1 + static_cast<std::int64_t>(below(2)));
        return note_linear(noted, from.shape()[0] == 1 ? u : one_of(pairs), from, below(2) == 0 ? weights : others, bias);
      }
      default: {
        const TensorView to = one_of(large);
        const TensorView from = one_of(large);
        if (must_be_shared && below(4) == 0 && to.address() != from.address()) note_linear(noted, to, from, weights, bias);
        return;
      }
    }
  }

  std::mt19937 random;
  bool must_be_shared = false;  // it may have products that are too large for one member
  Noted noted;
  TensorView weights = made_up({256, 256});
  TensorView others = made_up({256, 256});
  TensorView bias = made_up({256});
  std::vector<TensorView> large, vectors, pairs, small;
};

TEST(GangPlanOrderTest, ReadsGetTheirValuesAndConflictsAreOrdered) {
  for (std::uint32_t seed = 0; seed < (kSanitized ? 25U : 100U); ++seed) {
    RandomProgram program(seed);
    const std::vector<TensorView> results{program.one_of(program.large), program.one_of(program.vectors), program.one_of(program.pairs)};
    const auto needed = [&](const Extent& memory) {
      return seed % 2 == 0 || std::ranges::any_of(results, [&](const TensorView& view) { return memory.overlaps(view.extent()); });
    };
    for (const std::uint32_t members : {1U, 2U, 4U, 5U}) {
      if (program.must_be_shared && members == 1) continue;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(members) + " members");
      try {
        const Plan plan = plan_of(program.noted, needed, on_a_gpu(members));
        ASSERT_EQ(PlanRun(program.noted, needed, plan, seed).fault(), "");
      } catch (const Error& error) {
        ASSERT_THAT(error.what(), testing::HasSubstr("nobody reads its results"));
      }
    }
  }
}

}  // namespace
}  // namespace dwell::tensor::gang
