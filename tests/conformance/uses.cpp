// Operators that use others: the version that they are bound to, and its changes.
#include <set>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class UsesTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(UsesTest);

using WriteOpcode = void(Span<u32>, u32);

// An operator that writes the opcode of `used`, possibly its own, to a cell. `mark` makes sources differ.
std::string opcode_source(const std::string& name, const std::string& used, int mark = 0) {
  return "DWELL_USES(" + used + ", dwell::Span<dwell::u32>, dwell::u32)\n" + "DWELL_OPERATOR(" + name +
         ")(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at) {\n"
         "  if (g.rank() == 0) cells[at] = g.opcode(uses::" +
         used + ") + " + std::to_string(mark) + " - " + std::to_string(mark) + ";\n}\n";
}

// Pairs of tasks: `user` reports the opcode of `used`, then `used` reports its own.
class Pairs {
 public:
  Pairs(Runtime& runtime, u32 most) : runtime_(runtime), cells_(filled<u32>(runtime, 2 * most, ~0U)) {}
  void submit(const Operator<WriteOpcode>& user, const Operator<WriteOpcode>& used) {
    runtime_.submit(user, cells_, 2 * count_);
    runtime_.submit(used, cells_, 2 * count_ + 1);
    ++count_;
  }
  // The reported opcodes. Expects both tasks of a pair to agree.
  std::vector<u32> told() {
    const std::vector<u32> all = read(cells_);
    std::vector<u32> opcodes;
    for (u32 i = 0; i < count_; ++i) {
      EXPECT_EQ(all[2 * i], all[2 * i + 1]) << "pair " << i;
      opcodes.push_back(all[2 * i]);
    }
    return opcodes;
  }

 private:
  Runtime& runtime_;
  Buffer<u32> cells_;
  u32 count_ = 0;
};

TEST_P(UsesTest, TaskIsBoundToTheCurrentVersion) {
  Runtime runtime(options());
  auto used = runtime.define<WriteOpcode>("used", opcode_source("used", "used"));
  auto user = runtime.define<WriteOpcode>("user", opcode_source("user", "used"));
  Pairs pairs(runtime, 1000);
  const auto submit = [&] {
    for (int i = 0; i < 100; ++i) pairs.submit(user, used);
  };
  submit();
  used.redefine(opcode_source("used", "used", 1));
  submit();
  user.redefine(opcode_source("user", "used", 1));
  submit();
  used.rollback();
  submit();
  user.rollback();
  submit();
  const std::vector<u32> told = pairs.told();
  for (u32 i = 0; i < told.size(); ++i) ASSERT_EQ(told[i], told[i / 100 * 100]) << i;
  EXPECT_NE(told[0], told[100]);
  EXPECT_EQ(told[100], told[200]);
  EXPECT_EQ(told[300], told[0]) << "the same version again";
  EXPECT_EQ(told[400], told[300]);
  EXPECT_EQ(user.versions(), 2U);
  EXPECT_EQ(user.version(), 1U);
}

TEST_P(UsesTest, TasksInFlightKeepTheirGeneration) {
  Runtime runtime(options());
  auto used = runtime.define<WriteOpcode>("used", opcode_source("used", "used"));
  auto user = runtime.define<WriteOpcode>("user", opcode_source("user", "used"));
  Pairs pairs(runtime, 200);
  runtime.park();
  for (int generation = 0; generation < 5; ++generation) {
    for (int i = 0; i < 20; ++i) pairs.submit(user, used);
    used.redefine(opcode_source("used", "used", generation % 3 + 1));
  }
  runtime.resume();
  const std::vector<u32> told = pairs.told();
  for (u32 i = 0; i < told.size(); ++i) ASSERT_EQ(told[i], told[i / 20 * 20]) << i;
  for (u32 i = 20; i < told.size(); i += 20) EXPECT_NE(told[i], told[i - 20]) << "older ones are in flight";
}

TEST_P(UsesTest, UserAndUsedChangeAtOneTicket) {
  // Along the tickets, the opcodes of both kinds of task change exactly once with each redefinition.
  constexpr u32 kSwaps = kSanitized ? 10 : 100;
  constexpr u32 kMost = kSwaps * 40'000;
  Options small = options();
  small.ring_slots = 256;
  Runtime runtime(small);
  auto used = runtime.define<WriteOpcode>("used", opcode_source("used", "used"));
  std::vector<Operator<WriteOpcode>> all_of_them = {used};
  for (const char* const name : {"a", "b", "c", "d", "e", "f", "g"})
    all_of_them.push_back(runtime.define<WriteOpcode>(name, opcode_source(name, "used")));
  auto cells = filled<u32>(runtime, kMost, ~0U);
  std::atomic<bool> stop{false};
  std::atomic<u32> submitted{0};
  std::atomic<u32> allowed{0};
  std::vector<std::vector<std::pair<std::uint64_t, u32>>> seen(2);  // position and cell
  std::vector<std::jthread> producers;
  for (u32 me = 0; me < 2; ++me)
    producers.emplace_back([&, me] {
      for (u32 i = me; i < kMost && !stop; i += 2) {
        seen[me].emplace_back(runtime.submit(all_of_them[i % all_of_them.size()], cells, i).position(), i);
        ++submitted;
        while (i >= allowed && !stop) std::this_thread::yield();
      }
    });
  for (u32 swap = 0; swap < kSwaps; ++swap) {
    // Each generation has its own tasks, and some are left for the last change.
    for (const u32 half : {0U, 1U}) {
      allowed += kMost / kSwaps / 2;
      for (const u32 before = submitted; submitted < before + 20;) std::this_thread::yield();
      if (half == 0) used.redefine(opcode_source("used", "used", swap % 2 == 0 ? 1 : 2));
    }
  }
  stop = true;
  producers.clear();
  const std::vector<u32> told = read(cells);
  std::vector<std::pair<std::uint64_t, u32>> all(seen[0]);
  all.insert(all.end(), seen[1].begin(), seen[1].end());
  std::sort(all.begin(), all.end());
  u32 changes = 0;
  for (std::size_t i = 1; i < all.size(); ++i) changes += told[all[i].second] != told[all[i - 1].second] ? 1 : 0;
  EXPECT_EQ(changes, kSwaps);
}

TEST_P(UsesTest, ManyRedefinitionsLeaveRoomInTheImage) {
  Runtime runtime(options());
  auto used = runtime.define<WriteOpcode>("used", opcode_source("used", "used"));
  auto user = runtime.define<WriteOpcode>("user", opcode_source("user", "used"));
  Pairs pairs(runtime, 60);
  for (int i = 0; i < 60; ++i) {
    pairs.submit(user, used);
    if (i % 5 == 4)
      used.rollback();
    else
      used.redefine(opcode_source("used", "used", i % 3));
    runtime.wait_all();
  }
  for (const u32 opcode : pairs.told()) EXPECT_LT(opcode, 12U);
}

TEST_P(UsesTest, TwoOperatorsUseEachOther) {
  Runtime runtime(options());
  auto a = runtime.define<WriteOpcode>("a", opcode_source("a", "a"));
  auto b = runtime.define<WriteOpcode>("b", opcode_source("b", "a"));
  a.redefine(opcode_source("a", "b"));
  auto cells = filled<u32>(runtime, 4, 0);
  runtime.submit(a, cells, 0U);
  runtime.submit(b, cells, 1U);
  b.redefine(opcode_source("b", "a", 1));
  runtime.submit(a, cells, 2U);
  runtime.submit(b, cells, 3U);
  const std::vector<u32> told = read(cells);
  EXPECT_EQ(std::set<u32>(told.begin(), told.end()).size(), 4U) << "two generations of two";
}

TEST_P(UsesTest, SeveralUsesAreDistinct) {
  Runtime runtime(options());
  runtime.define<WriteOpcode>("first", opcode_source("first", "first"));
  runtime.define("second", "DWELL_OPERATOR(second)(dwell::Group) {}");
  auto all = runtime.define("all", R"(
    DWELL_USES(second)
    DWELL_USES(first, dwell::Span<dwell::u32>, dwell::u32)
    DWELL_USES(all, dwell::Span<dwell::u32>)
    void write_opcodes(dwell::Group g, dwell::Span<dwell::u32> cells) {
      if (g.rank() != 0) return;
      const dwell::u32 own = 3 * g.index();
      cells[own] = g.opcode(uses::first);
      cells[own + 1] = g.opcode(uses::second);
      cells[own + 2] = g.alone().opcode(uses::all);
    }
    DWELL_OPERATOR(all)(dwell::Group g, dwell::Span<dwell::u32> cells) { write_opcodes(g, cells); })");
  auto cells = filled<u32>(runtime, 9, 9);
  runtime.submit(all, cells, groups(3));
  EXPECT_THAT(read(cells), testing::ElementsAre(0U, 1U, 2U, 0U, 1U, 2U, 0U, 1U, 2U));
}

TEST_P(UsesTest, AnInstanceIsChosenByItsParameters) {
  Runtime runtime(options());
  const Definition instances = {.instances = {"same<float>", "same<double>"}};
  runtime.define("same", "template <class T> DWELL_OPERATOR(same)(dwell::Group, T) {}", instances);
  auto user = runtime.define("user", R"(
    DWELL_USES(same, double)
    DWELL_OPERATOR(user)(dwell::Group g, dwell::Span<dwell::u32> cells) { if (g.rank() == 0) cells[0] = g.opcode(uses::same); })");
  auto cells = filled<u32>(runtime, 1, 9);
  runtime.submit(user, cells);
  EXPECT_THAT(read(cells), testing::ElementsAre(1U));
  const Definition alike = {.instances = {"either<1>", "either<2>"}};
  runtime.define("either", "template <int> DWELL_OPERATOR(either)(dwell::Group, double) {}", alike);
  DWELL_EXPECT_ERROR(runtime.define("other", "DWELL_USES(either, double)\nDWELL_OPERATOR(other)(dwell::Group) {}"),
                     errc::signature_mismatch, HasSubstr("more than one instance"));
}

TEST_P(UsesTest, MismatchesAreRefused) {
  Runtime runtime(options());
  const auto used = runtime.define<WriteOpcode>("used", opcode_source("used", "used"));
  DWELL_EXPECT_ERROR(runtime.define("user", opcode_source("user", "nowhere")), errc::operator_not_found,
                     AllOf(HasSubstr("'user' uses 'nowhere'"), HasSubstr("define 'nowhere' first")));
  const std::string body = "DWELL_OPERATOR(user)(dwell::Group) {}\n";
  DWELL_EXPECT_ERROR(runtime.define("user", "DWELL_USES(used, dwell::u32)\n" + body), errc::signature_mismatch,
                     AllOf(HasSubstr("(u32)"), HasSubstr("used takes (Span<u32>, u32)")));
  DWELL_EXPECT_ERROR(runtime.define("user", "namespace mine { DWELL_USES(used, dwell::u32) }\n" + body), errc::compile_failed,
                     HasSubstr("dwell_use_used"));
  std::string many;
  for (int i = 0; i < 33; ++i) many += "DWELL_USES(used" + std::to_string(i) + ")\n";
  DWELL_EXPECT_ERROR(runtime.define("user", many + body), errc::compile_failed, HasSubstr("a source uses at most 32 operators"));
  runtime.submit(runtime.define("user", body)).wait();
}

TEST_P(UsesTest, OlderStandardsAndHeadersWork) {
  Runtime runtime(options());
  const auto used = runtime.define<WriteOpcode>("used", opcode_source("used", "used"));
  const std::string header =
      "DWELL_USES(used, dwell::Span<dwell::u32>, dwell::u32)\n"
      "DWELL_DEVICE dwell::u32 opcode_of_used(dwell::Group g) { return g.opcode(uses::used); }\n";
  const std::string text =
      "#include \"used.h\"\n"
      "DWELL_USES(user, dwell::Span<dwell::u32>)\n"
      "DWELL_OPERATOR(user)(dwell::Group g, dwell::Span<dwell::u32> cells) {\n"
      "  if (g.rank() == 0) cells[0] = opcode_of_used(g) * 16 + g.opcode(uses::user);\n"
      "}\n";
  CompileOptions old = CompileOptions().with_header("used.h", header);
  old.standard = 14;
  auto user = runtime.define("user", text, {.options = old});
  auto cells = filled<u32>(runtime, 1, 9);
  runtime.submit(user, cells);
  EXPECT_THAT(read(cells), testing::ElementsAre(1U));
}

}  // namespace
}  // namespace dwell::test
