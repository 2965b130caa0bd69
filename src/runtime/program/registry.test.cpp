// Operators, versions and opcodes, without a compiler or a device.
#include "runtime/program/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/program/parts.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/registry_test.hpp"

namespace dwell::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(RegistryTest, EachOperatorHasAnOpcode) {
  const auto a = define("a", "a1");
  const auto b = define("b", "b1");
  EXPECT_THAT(image(), ElementsAre("a1", "b1"));
  EXPECT_EQ(opcode_of(submit(*a)), 0U);
  EXPECT_EQ(opcode_of(submit(*b)), 1U);
  EXPECT_EQ(registry_->table().name_of(1), "b (version 1)");
  EXPECT_EQ(registry_->table().name_of(2), "an unknown operator");
  EXPECT_EQ(registry_->table().images(), 2U);
  EXPECT_EQ(registry_->table().resources().registers, 20U);
}

TEST_F(RegistryTest, NamesAreUniqueIdentifiers) {
  define("a_1", "a1");
  for (const char* const name : {"", "1a", "a b", "a-b", "ä", "a_1"})
    EXPECT_EQ(kind_of([&] { define(name, "x"); }), errc::invalid_argument) << name;
  EXPECT_EQ(registry_->table().images(), 1U);
}

TEST_F(RegistryTest, ANewVersionRunsLaterTasks) {
  const auto a = define("a", "a1");
  const std::uint64_t before = submit(*a);
  registry_->redefine(a, std::string("a2"));
  const std::uint64_t after = submit(*a);
  EXPECT_THAT(image(), ElementsAre("a1", "a2"));
  EXPECT_EQ(opcode_of(before), 0U);
  EXPECT_EQ(opcode_of(after), 1U);
  EXPECT_EQ(a->current, 2U);
  EXPECT_EQ(a->versions, 2U);
}

TEST_F(RegistryTest, FirstUseOfAPartLoadsAllParts) {
  namespace part = device::part;
  registry_->need(part::graphs);
  EXPECT_EQ(registry_->table().images(), 0U) << "nothing runs yet";
  registry_.reset();
  open({});
  const auto a = define("a", "a1");
  registry_->need(part::wide | part::cancels);
  EXPECT_THAT(workshop_->parts, ElementsAre(+part::base));
  workshop_->refuses_link = true;
  EXPECT_EQ(kind_of([&] { registry_->need(part::links); }), errc::link_failed);
  workshop_->refuses_link = false;
  EXPECT_EQ(registry_->table().parts(), part::base) << "nothing has changed";
  const std::uint64_t before = submit(*a);
  registry_->need(part::links);
  EXPECT_EQ(registry_->table().parts(), part::all);
  registry_->need(part::graphs | part::gangs);
  define("b", "b1");
  EXPECT_THAT(workshop_->parts, ElementsAre(+part::base, +part::all, +part::all));
  EXPECT_EQ(opcode_of(submit(*a)), opcode_of(before)) << "operators keep their places";
}

TEST_F(RegistryTest, SlowFirstUseWarnsAndNamesRunningTasks) {
  std::mutex mutex;
  std::vector<std::string> lines;
  const auto warned = [&] {
    const std::lock_guard lock(mutex);
    return !lines.empty();
  };
  Registry::Settings settings;
  settings.warn = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  };
  registry_.reset();
  open(settings);
  const auto a = define("a", "a1");
  registry_->need(device::part::links);
  EXPECT_FALSE(warned());
  registry_.reset();
  open(settings);
  const auto b = define("b", "b1");
  const std::uint64_t position = submit(*b);
  bench_.in_flight[0].word = position | static_cast<std::uint64_t>(opcode_of(position)) << 32U | device::InFlight::kValid;
  // Simulates a load that waits for the task.
  device_->on_load = [&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!warned() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  registry_->need(device::part::links);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("the running tasks: b (version 1), ticket " + std::to_string(position) + "."));
  EXPECT_THAT(lines[0], HasSubstr("the option parts"));
}

TEST_F(RegistryTest, TheLoopWithAllPartsIsMadeInAdvance) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (workshop_->prepared == 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(workshop_->prepared, device::part::all);
  EXPECT_EQ(registry_->table().images(), 0U);
  EXPECT_EQ(registry_->table().parts(), device::part::base);
}

TEST_F(RegistryTest, OptionAllLoadsAllParts) {
  Registry::Settings settings;
  settings.parts = Parts::all;
  registry_.reset();
  open(settings);
  define("a", "a1");
  registry_->need(device::part::all);
  EXPECT_THAT(workshop_->parts, ElementsAre(+device::part::all));
}

TEST_F(RegistryTest, OptionLoadsNamedParts) {
  namespace part = device::part;
  Registry::Settings settings;
  settings.parts = {Part::links, Part::graphs};
  registry_.reset();
  open(settings);
  define("a", "a1");
  constexpr std::uint32_t kNamed = part::base | part::links | part::graphs | part::host_nodes;
  registry_->need(part::links | part::host_nodes);
  EXPECT_THAT(workshop_->parts, ElementsAre(kNamed));
  registry_->need(part::gangs);
  EXPECT_THAT(workshop_->parts, ElementsAre(kNamed, +part::all));
}

TEST(PartsTest, HaveARowEach) {
  Parts each;
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kParts[i].part), i) << kPartNames[i];
    EXPECT_NE(kParts[i].bits & ~device::part::base, 0U) << kPartNames[i] << " is in every loop";
    EXPECT_FALSE(each.has(kParts[i].part)) << kPartNames[i];
    each.add(kParts[i].part);
    EXPECT_TRUE(Parts::all.has(kParts[i].part)) << kPartNames[i];
  }
  EXPECT_EQ(loop_bits(Parts::used), device::part::base);
  EXPECT_EQ(loop_bits(each) | device::part::spawn, loop_bits(Parts::all) & ((device::part::repeats << 1U) - 1))
      << "all but tasks that operators make";
}

TEST_F(RegistryTest, OpcodeIsReusedOnlyWithoutTasks) {
  const auto a = define("a", "a1");
  const std::uint64_t first = submit(*a);
  registry_->redefine(a, std::string("a2"));
  const std::uint64_t second = submit(*a);
  registry_->redefine(a, std::string("a3"));
  registry_->redefine(a, std::string("a4"));
  EXPECT_THAT(image(), ElementsAre("a1", "a2", "a3", "a4")) << "tasks of 1 and 2 are in flight";
  finish(second);
  registry_->redefine(a, std::string("a5"));
  EXPECT_THAT(image(), ElementsAre("a1", "a2", "a3", "a4", "a5")) << "what is complete behind one in flight is not known yet";
  finish(first);
  registry_->redefine(a, std::string("a6"));
  EXPECT_THAT(image(), ElementsAre("a6", "", "", "a4", "a5")) << "4 stays for the rollback from 5";
  EXPECT_EQ(registry_->table().name_of(0), "a (version 6)");
  EXPECT_EQ(opcode_of(submit(*a)), 0U);
}

TEST_F(RegistryTest, RollingBackNeedsNoImage) {
  const auto a = define("a", "a1");
  registry_->redefine(a, std::string("a2"));
  define("b", "b1");  // drops what is no longer needed
  registry_->rollback(*a);
  EXPECT_EQ(registry_->table().images(), 3U);
  EXPECT_EQ(opcode_of(submit(*a)), 0U);
  EXPECT_EQ(a->current, 1U);
  EXPECT_EQ(a->versions, 2U);
}

TEST_F(RegistryTest, RollingBackToADroppedVersionLinksItAgain) {
  const auto a = define("a", "a1");
  registry_->redefine(a, std::string("a2"));
  registry_->redefine(a, std::string("a3"));
  registry_->redefine(a, std::string("a4"));
  EXPECT_THAT(image(), ElementsAre("a4", "a2", "a3")) << "at that time 2 was the one below the current";
  registry_->rollback(*a);
  registry_->rollback(*a);
  EXPECT_EQ(registry_->table().images(), 4U);
  registry_->rollback(*a);
  EXPECT_EQ(registry_->table().images(), 5U);
  EXPECT_EQ(image().at(opcode_of(submit(*a))), "a1");
  DWELL_EXPECT_ERROR_FIELDS(registry_->rollback(*a), errc::no_previous_version, "operator", "a");
}

TEST_F(RegistryTest, RollbackTargetIsNotDropped) {
  const auto a = define("a", "a1");
  registry_->redefine(a, std::string("a2"));
  registry_->rollback(*a);
  define("b", "b1");
  define("c", "c1");
  EXPECT_EQ(image().at(opcode_of(submit(*a))), "a1");
  EXPECT_THAT(image(), testing::Not(testing::Contains("a2"))) << "nothing leads back to 2";
}

TEST_F(RegistryTest, VersionNumbersAreNotReused) {
  const auto a = define("a", "a1");
  registry_->redefine(a, std::string("a2"));
  registry_->rollback(*a);
  registry_->redefine(a, std::string("a3"));
  EXPECT_EQ(a->current, 3U);
  EXPECT_EQ(registry_->table().name_of(a->instances[0].alias), "a (version 3)");
}

TEST_F(RegistryTest, AFailureNamesTheVersionOfItsTime) {
  const auto a = define("a", "a1");
  const std::uint64_t failed = submit(*a);
  registry_->redefine(a, std::string("a2"));
  finish(failed, 7);
  registry_->redefine(a, std::string("a3"));
  registry_->redefine(a, std::string("a4"));
  EXPECT_EQ(opcode_of(failed), a->instances[0].alias) << "the opcode means another version now";
  EXPECT_EQ(bench_.queue.result(failed).ran, "a (version 1)");
}

// ---- Failures change nothing ----

TEST_F(RegistryTest, AFailedCompilationChangesNothing) {
  const auto a = define("a", "a1");
  EXPECT_EQ(kind_of([&] { registry_->redefine(a, std::string("error")); }), errc::compile_failed);
  EXPECT_EQ(kind_of([&] { define("b", "error"); }), errc::compile_failed);
  EXPECT_EQ(a->current, 1U);
  EXPECT_EQ(registry_->table().images(), 1U);
  define("b", "b1");
  EXPECT_THAT(image(), ElementsAre("a1", "b1"));
}

TEST_F(RegistryTest, OptionsAreInheritedFromThePreviousVersion) {
  const auto a = registry_->define("a", std::string("a1"), {.options = CompileOptions().with_define("ONE")});
  const CompileOptions two = CompileOptions().with_define("TWO");
  EXPECT_THROW(registry_->redefine(a, std::string("error"), &two), Error);
  registry_->redefine(a, std::string("a2"));
  EXPECT_TRUE(workshop_->options.defines.contains("ONE")) << "what did not compile is no version";
  registry_->redefine(a, std::string("a3"), &two);
  registry_->redefine(a, std::string("a4"));
  EXPECT_TRUE(workshop_->options.defines.contains("TWO"));
}

TEST_F(RegistryTest, AFailedLinkGivesItsOpcodeBack) {
  const auto a = define("a", "a1");
  workshop_->refuses_link = true;
  EXPECT_EQ(kind_of([&] { registry_->redefine(a, std::string("a2")); }), errc::link_failed);
  EXPECT_EQ(kind_of([&] { define("b", "b1"); }), errc::link_failed);
  workshop_->refuses_link = false;
  EXPECT_EQ(a->versions, 1U);
  define("b", "b1");
  EXPECT_THAT(image(), ElementsAre("a1", "b1"));
}

TEST_F(RegistryTest, AFailedLoadLeavesTheOldImageRunning) {
  const auto a = define("a", "a1");
  device_->refuses_load = true;
  EXPECT_EQ(kind_of([&] { registry_->redefine(a, std::string("a2")); }), errc::link_failed);
  device_->refuses_load = false;
  EXPECT_EQ(a->current, 1U);
  EXPECT_EQ(device_->programs, 1);
  submit(*a);
  keeper_->submitted();
  EXPECT_EQ(device_->starts, 1) << "the keeper must not stay held";
}

TEST_F(RegistryTest, AnotherSignatureIsRefused) {
  const auto a = define("a", "a1");
  DWELL_EXPECT_ERROR(registry_->redefine(a, std::string("float")), errc::signature_mismatch,
                     HasSubstr("'a' takes (), its new source takes (float)"));
  EXPECT_EQ(a->versions, 1U);
}

TEST_F(RegistryTest, OneOfTwoConcurrentDefinitionsGetsTheName) {
  std::atomic<int> taken{0};
  std::atomic<int> refused{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { ++(kind_of([&] { define("a", "slow"); }) == errc::ok ? taken : refused); });
  }
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(refused, 3);
}

TEST_F(RegistryTest, AClosedRegistryRefusesEverything) {
  const auto a = define("a", "a1");
  registry_->redefine(a, std::string("a2"));
  registry_->close();
  EXPECT_EQ(kind_of([&] { define("b", "b1"); }), errc::closed);
  EXPECT_EQ(kind_of([&] { registry_->redefine(a, std::string("a3")); }), errc::closed);
  EXPECT_EQ(kind_of([&] { registry_->rollback(*a); }), errc::closed);
  EXPECT_EQ(registry_->table().name_of(0), "a (version 1)") << "messages may still be made";
}

TEST_F(RegistryTest, SymbolsNameTheirContent) {
  // Equal sources are one operator to the linker; another line or file makes another one, since its messages differ.
  class Recorder final : public jit::Compiler {
   public:
    explicit Recorder(std::vector<std::string>* symbols) : symbols_(symbols) {}
    jit::Object compile(const jit::Unit& unit) override {
      symbols_->push_back(unit.exports[0].symbol);
      return {{{unit.exports[0].symbol, {}}}, {}, {}};
    }
    std::string fingerprint(const jit::Unit& unit) override { return jit::fingerprint_of(unit, identity(), {}, {}); }
    jit::Image link(std::span<const jit::Opcode>, Tier, std::uint32_t) override { return {}; }
    std::string identity() const override { return "recorder"; }

   private:
    std::vector<std::string>* symbols_;
  };
  std::vector<std::string> symbols;
  Registry registry(std::make_unique<Recorder>(&symbols), backend_, *keeper_, bench_.queue, nullptr, Registry::Settings{});
  const auto a = registry.define("a", Source("text", "file", 1));
  registry.redefine(a, Source("text", "file", 1));
  registry.redefine(a, Source("text", "file", 2));
  registry.redefine(a, Source("text", "other", 1));
  registry.redefine(a, Source("texu", "file", 1));
  registry.define("b", Source("text", "file", 1));
  EXPECT_EQ(symbols[0], symbols[1]);
  std::sort(symbols.begin(), symbols.end());
  EXPECT_EQ(std::unique(symbols.begin(), symbols.end()) - symbols.begin(), 5);
}

TEST_F(RegistryTest, TasksByTierOnlyGrow) {
  const auto a = define("a", "a1");
  finish(submit(*a));
  EXPECT_EQ(registry_->table().tasks(Tier::relocatable), 1U);
  const std::vector<std::uint32_t> words(detail::kFirstSlotWords + 1);  // takes a second slot
  std::uint64_t position = 0;
  ASSERT_TRUE(bench_.queue.try_submit(a->instances[0].alias, test::task_of(words), &position));
  EXPECT_EQ(registry_->table().tasks(Tier::relocatable), 1U) << "it is in flight";
  finish(position);
  EXPECT_EQ(registry_->table().tasks(Tier::relocatable), 2U);
  EXPECT_EQ(registry_->table().tasks(Tier::lto), 0U);
}

}  // namespace
}  // namespace dwell::runtime
