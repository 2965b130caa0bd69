// Operators, versions and opcodes, without a compiler or a device.
#include "runtime/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jit/fingerprint.hpp"
#include "tests/unit/bench.hpp"
#include "tests/unit/fake_backend.hpp"

namespace dwell::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What the compiler was asked for, and how it answers.
struct Workshop {
  std::vector<std::vector<std::string>> images;  // the text behind each opcode; "" for an empty one
  bool refuses_link = false;
};

// Compiles a text to itself. "error" does not compile, "slow" takes a while, a text with "float" in it takes a float.
class FakeCompiler final : public jit::Compiler {
 public:
  explicit FakeCompiler(std::shared_ptr<Workshop> workshop) : workshop_(std::move(workshop)) {}

  jit::Object compile(const jit::Unit& unit) override {
    if (unit.text == "error") throw Error(errc::compile_failed, unit.file + ":" + std::to_string(unit.line) + ": error");
    if (unit.text == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const auto* const begin = reinterpret_cast<const std::byte*>(unit.text.data());
    const bool takes_float = unit.text.find("float") != std::string::npos;
    return {{{unit.exports[0].symbol, takes_float ? Signature::of<float>() : Signature()}}, {begin, begin + unit.text.size()}, {}};
  }
  jit::Image link(std::span<const jit::Opcode> entries, Tier) override {
    if (workshop_->refuses_link) throw Error(errc::link_failed, "they do not link");
    std::vector<std::string> image;
    for (const auto& [object, index] : entries)
      image.emplace_back(object == nullptr ? "" : std::string(reinterpret_cast<const char*>(object->bytes.data()), object->bytes.size()));
    if (std::ranges::find(image, "unlinkable") != image.end()) throw Error(errc::link_failed, "they do not link");
    workshop_->images.push_back(image);
    return {{}, {static_cast<std::uint32_t>(10 * workshop_->images.size()), 0, 0}};
  }
  std::string fingerprint(const jit::Unit& unit) override { return jit::fingerprint_of(unit, identity(), {}, {}); }
  std::string identity() const override { return "fake"; }

 private:
  std::shared_ptr<Workshop> workshop_;
};

class RegistryTest : public testing::Test {
 protected:
  RegistryTest() {
    Keeper::Settings settings;
    settings.lease = bench_.lease;
    settings.report = &bench_.report;
    settings.blame = bench_.blame.data();
    settings.lease_time = settings.idle_time = std::chrono::milliseconds(1);
    settings.task_timeout = std::chrono::nanoseconds(0);
    settings.workers = 1;
    keeper_ = std::make_unique<Keeper>(backend_, bench_.queue, settings, [](const auto&, bool) { return std::string(); });
    registry_ = std::make_unique<Registry>(std::make_unique<FakeCompiler>(workshop_), backend_, *keeper_, bench_.queue, nullptr,
                                           Registry::Settings{});
    bench_.name_of = [this](std::uint32_t entry) { return registry_->table().name_of(entry); };
  }

  Registry::DefinitionPointer define(const std::string& name, const std::string& text) { return registry_->define(name, text); }
  // Submits a task of an operator; its position. It stays in flight until finish() says otherwise.
  std::uint64_t submit(const detail::DefinitionState& definition, std::size_t instance = 0) {
    const detail::Task task = test::task_of({});
    std::uint64_t position = 0;
    EXPECT_EQ(bench_.queue.try_submit(definition.instances[instance].alias, &task, 1, 0, &position), 1U);
    return position;
  }
  // Completes a task as a worker does, and what the crew passes over: the keeper's requests.
  void finish(std::uint64_t position, i32 status = 0) {
    bench_.finish(position, status);
    for (std::uint64_t at = bench_.queue.reaped(); at < bench_.queue.tail(); ++at)
      if ((bench_.header(at).flags & device::flag::skip) != 0) bench_.finish(at);
  }
  std::uint32_t entry_of(std::uint64_t position) const { return bench_.header(position).entry; }
  // What the image that runs now has behind each opcode.
  const std::vector<std::string>& image() const { return workshop_->images.back(); }
  template <class Function>
  errc kind_of(Function&& function) {
    try {
      function();
    } catch (const Error& error) {
      return error.kind();
    }
    return errc::ok;
  }

  test::Bench bench_{7, 1};
  std::shared_ptr<test::FakeDevice> device_ = std::make_shared<test::FakeDevice>();
  test::FakeBackend backend_{device_};
  std::shared_ptr<Workshop> workshop_ = std::make_shared<Workshop>();
  std::unique_ptr<Keeper> keeper_;
  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryTest, EachOperatorHasAnOpcode) {
  const auto a = define("a", "a1");
  const auto b = define("b", "b1");
  EXPECT_THAT(image(), ElementsAre("a1", "b1"));
  EXPECT_EQ(entry_of(submit(*a)), 0U);
  EXPECT_EQ(entry_of(submit(*b)), 1U);
  EXPECT_EQ(registry_->table().name_of(1), "b (version 1)");
  EXPECT_EQ(registry_->table().name_of(2), "an unknown operator");
  EXPECT_EQ(registry_->table().images(), 2U);
  EXPECT_EQ(registry_->table().resources().registers, 20U);
}

TEST_F(RegistryTest, ANameIsAnIdentifierAndTakenOnce) {
  define("a_1", "a1");
  for (const char* const name : {"", "1a", "a b", "a-b", "ä", "a_1"})
    EXPECT_EQ(kind_of([&] { define(name, "x"); }), errc::invalid_argument) << name;
  EXPECT_EQ(registry_->table().images(), 1U);
}

TEST_F(RegistryTest, ANewVersionIsForTasksFromThenOn) {
  const auto a = define("a", "a1");
  const std::uint64_t before = submit(*a);
  registry_->redefine(a, std::string("a2"));
  const std::uint64_t after = submit(*a);
  EXPECT_THAT(image(), ElementsAre("a1", "a2"));
  EXPECT_EQ(entry_of(before), 0U);
  EXPECT_EQ(entry_of(after), 1U);
  EXPECT_EQ(a->current, 2U);
  EXPECT_EQ(a->versions, 2U);
}

TEST_F(RegistryTest, AnOpcodeIsUsedAgainOnlyWhenNoTaskCanNeedIt) {
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
  EXPECT_EQ(entry_of(submit(*a)), 0U);
}

TEST_F(RegistryTest, RollingBackNeedsNoImage) {
  const auto a = define("a", "a1");
  registry_->redefine(a, std::string("a2"));
  define("b", "b1");  // an occasion to drop what is not needed
  registry_->rollback(*a);
  EXPECT_EQ(registry_->table().images(), 3U);
  EXPECT_EQ(entry_of(submit(*a)), 0U);
  EXPECT_EQ(a->current, 1U);
  EXPECT_EQ(a->versions, 2U);
}

TEST_F(RegistryTest, RollingBackToAVersionThatIsGoneLinksItAgain) {
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
  EXPECT_EQ(image().at(entry_of(submit(*a))), "a1");
  EXPECT_EQ(kind_of([&] { registry_->rollback(*a); }), errc::no_previous_version);
}

TEST_F(RegistryTest, AVersionThatCameBackIsNotDropped) {
  const auto a = define("a", "a1");
  registry_->redefine(a, std::string("a2"));
  registry_->rollback(*a);
  define("b", "b1");
  define("c", "c1");
  EXPECT_EQ(image().at(entry_of(submit(*a))), "a1");
  EXPECT_THAT(image(), testing::Not(testing::Contains("a2"))) << "nothing leads back to 2";
}

TEST_F(RegistryTest, NumbersAreNotUsedAgain) {
  const auto a = define("a", "a1");
  registry_->redefine(a, std::string("a2"));
  registry_->rollback(*a);
  registry_->redefine(a, std::string("a3"));
  EXPECT_EQ(a->current, 3U);
  EXPECT_EQ(registry_->table().name_of(a->instances[0].alias), "a (version 3)");
}

TEST_F(RegistryTest, AFailureIsNamedByTheVersionThatRanThen) {
  const auto a = define("a", "a1");
  const std::uint64_t failed = submit(*a);
  registry_->redefine(a, std::string("a2"));
  finish(failed, 7);
  registry_->redefine(a, std::string("a3"));
  registry_->redefine(a, std::string("a4"));
  EXPECT_EQ(entry_of(failed), a->instances[0].alias) << "the opcode means another version now";
  EXPECT_EQ(bench_.queue.result(failed).ran, "a (version 1)");
}

// ---- What fails leaves everything as it was ----

TEST_F(RegistryTest, WhatDoesNotCompileChangesNothing) {
  const auto a = define("a", "a1");
  EXPECT_EQ(kind_of([&] { registry_->redefine(a, std::string("error")); }), errc::compile_failed);
  EXPECT_EQ(kind_of([&] { define("b", "error"); }), errc::compile_failed);
  EXPECT_EQ(a->current, 1U);
  EXPECT_EQ(registry_->table().images(), 1U);
  define("b", "b1");
  EXPECT_THAT(image(), ElementsAre("a1", "b1"));
}

TEST_F(RegistryTest, WhatDoesNotLinkGivesItsOpcodeBack) {
  const auto a = define("a", "a1");
  workshop_->refuses_link = true;
  EXPECT_EQ(kind_of([&] { registry_->redefine(a, std::string("a2")); }), errc::link_failed);
  EXPECT_EQ(kind_of([&] { define("b", "b1"); }), errc::link_failed);
  workshop_->refuses_link = false;
  EXPECT_EQ(a->versions, 1U);
  define("b", "b1");
  EXPECT_THAT(image(), ElementsAre("a1", "b1"));
}

TEST_F(RegistryTest, WhatDoesNotLoadLeavesTheOldImageRunning) {
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
  try {
    registry_->redefine(a, std::string("float"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::signature_mismatch);
    EXPECT_THAT(error.message(), HasSubstr("'a' takes (), its new source takes (float)"));
  }
  EXPECT_EQ(a->versions, 1U);
}

TEST_F(RegistryTest, OfTwoAtOnceOneGetsTheName) {
  std::atomic<int> taken{0};
  std::atomic<int> refused{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { ++(kind_of([&] { define("a", "slow"); }) == errc::ok ? taken : refused); });
  }
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(refused, 3);
}

TEST_F(RegistryTest, AClosedOneRefusesEverything) {
  const auto a = define("a", "a1");
  registry_->redefine(a, std::string("a2"));
  registry_->close();
  EXPECT_EQ(kind_of([&] { define("b", "b1"); }), errc::closed);
  EXPECT_EQ(kind_of([&] { registry_->redefine(a, std::string("a3")); }), errc::closed);
  EXPECT_EQ(kind_of([&] { registry_->rollback(*a); }), errc::closed);
  EXPECT_EQ(registry_->table().name_of(0), "a (version 1)") << "messages may still be made";
}

// ---- In the background ----

// What the reports of asynchronous requests said, in order.
struct Said {
  Registry::Report report(const std::string& name) {
    return [this, name](const auto&, const Error* failure) {
      const std::lock_guard lock(mutex);
      list.push_back(name +
                     (failure == nullptr ? " done" : " " + std::string(error_category().message(static_cast<int>(failure->kind())))));
      changed.notify_all();
    };
  }
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return list.size() >= count; }));
    return list;
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> list;
};

TEST_F(RegistryTest, WhatIsReadyMeanwhileSharesAHandOver) {
  Said said;
  for (const char* const name : {"a", "b", "c", "d", "e", "f"}) registry_->define_async(name, "slow", {}, said.report(name), {});
  for (const std::string& line : said.wait_for(6)) EXPECT_THAT(line, HasSubstr(" done"));
  EXPECT_LT(registry_->table().images(), 6U);
  EXPECT_EQ(image().size(), 6U);
}

TEST_F(RegistryTest, OneThatDoesNotLinkTakesNoOthersWithIt) {
  Said said;
  for (const char* const name : {"a", "b", "c"})
    registry_->define_async(name, name == std::string("b") ? "unlinkable" : "slow", {}, said.report(name), {});
  EXPECT_THAT(said.wait_for(3), testing::UnorderedElementsAre("a done", "b the operators do not link", "c done"));
  EXPECT_THAT(image(), testing::Contains("slow").Times(2));
  define("b", "b1");
}

TEST_F(RegistryTest, AFailureInTheMiddleLeavesTheOrder) {
  const auto a = define("a", "a1");
  Said said;
  registry_->redefine_async(a, std::string("slow"), nullptr, said.report("2"), {});
  registry_->redefine_async(a, std::string("error"), nullptr, said.report("none"), {});
  registry_->redefine_async(a, std::string("a3"), nullptr, said.report("3"), {});
  EXPECT_THAT(said.wait_for(3), testing::UnorderedElementsAre("2 done", "none the operator does not compile", "3 done"));
  EXPECT_EQ(a->current, 3U);
  EXPECT_EQ(image().at(entry_of(submit(*a))), "a3");
}

TEST_F(RegistryTest, WhatIsCalledOffLetsTheNextPass) {
  const auto a = define("a", "a1");
  Said said;
  std::stop_source stop;
  registry_->redefine_async(a, std::string("slow"), nullptr, said.report("off"), stop.get_token());
  registry_->redefine_async(a, std::string("a3"), nullptr, said.report("on"), {});
  stop.request_stop();
  EXPECT_THAT(said.wait_for(2), testing::UnorderedElementsAre("off cancelled", "on done"));
  EXPECT_EQ(image().at(entry_of(submit(*a))), "a3");
}

TEST_F(RegistryTest, EveryRequestIsAnsweredOnceHoweverItEnds) {
  // Definitions, versions, stops and the end of all, from several threads at once.
  std::atomic<int> asked{0};
  std::atomic<int> answered{0};
  const auto report = [&](const auto&, const Error*) { ++answered; };
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        try {
          for (int i = 0; i < 40; ++i) {
            std::stop_source stop;
            const std::string name = "op" + std::to_string(t) + "_" + std::to_string(i);
            registry_->define_async(name, i % 7 == 0 ? "error" : "slow", {}, report, stop.get_token());
            ++asked;
            if (i % 3 == 0) stop.request_stop();
            if (i % 5 == 0) {
              const auto own = define(name + "x", "x");
              registry_->redefine_async(own, std::string("y"), nullptr, report, {});
              ++asked;
            }
          }
        } catch (const Error& error) {
          EXPECT_TRUE(error.kind() == errc::closed || error.kind() == errc::cancelled) << error.what();
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    registry_->close();
  }
  EXPECT_GT(asked, 3);
  EXPECT_EQ(answered, asked);
}

// ---- Tiers ----

class TierTest : public RegistryTest {
 protected:
  TierTest() {
    Registry::Settings settings;
    settings.tier = std::nullopt;
    settings.warn = [this](std::string_view line) { warnings_.emplace_back(line); };
    registry_ = std::make_unique<Registry>(std::make_unique<FakeCompiler>(workshop_), backend_, *keeper_, bench_.queue, nullptr, settings);
  }
  bool becomes(Tier tier, std::chrono::milliseconds limit = std::chrono::seconds(10)) const {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (registry_->table().tier() != tier && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return registry_->table().tier() == tier;
  }
  std::vector<std::string> warnings_;
};

TEST_F(TierTest, AnImageThatStandsAndIsUsedIsInlined) {
  const auto a = define("a", "a1");
  EXPECT_FALSE(becomes(Tier::lto, std::chrono::milliseconds(1300))) << "nobody uses it";
  finish(submit(*a));
  EXPECT_TRUE(becomes(Tier::lto));
  EXPECT_EQ(registry_->table().tasks(Tier::relocatable), 1U);
  EXPECT_EQ(registry_->table().images(), 2U);
  EXPECT_EQ(entry_of(submit(*a)), 0U) << "opcodes mean the same in both";
  registry_->redefine(a, std::string("a2"));
  EXPECT_EQ(registry_->table().tier(), Tier::relocatable);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TierTest, ALeaseThatDoesNotEndIsNotMadeTo) {
  const auto a = define("a", "a1");
  device_->obeys = false;
  const std::uint64_t task = submit(*a);
  keeper_->submitted();
  ASSERT_EQ(device_->starts, 1);
  EXPECT_FALSE(becomes(Tier::lto, std::chrono::milliseconds(1500)));
  EXPECT_EQ(device_->programs, 1);
  finish(task);
  device_->end_lease();
  EXPECT_TRUE(becomes(Tier::lto)) << "the next try finds the loop gone";
  device_->obeys = true;
}

TEST_F(TierTest, WhatDoesNotLinkInlinedIsSaidAndStaysAsItIs) {
  const auto a = define("a", "a1");
  workshop_->refuses_link = true;
  finish(submit(*a));
  EXPECT_FALSE(becomes(Tier::lto, std::chrono::milliseconds(1500)));
  registry_->close();
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("they do not link"));
}

TEST_F(RegistryTest, SymbolsNameTheirContent) {
  // The same source twice is one operator to the linker; another line or file is not, since its messages differ.
  class Recorder final : public jit::Compiler {
   public:
    explicit Recorder(std::vector<std::string>* symbols) : symbols_(symbols) {}
    jit::Object compile(const jit::Unit& unit) override {
      symbols_->push_back(unit.exports[0].symbol);
      return {{{unit.exports[0].symbol, {}}}, {}, {}};
    }
    std::string fingerprint(const jit::Unit& unit) override { return jit::fingerprint_of(unit, identity(), {}, {}); }
    jit::Image link(std::span<const jit::Opcode>, Tier) override { return {}; }
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

}  // namespace
}  // namespace dwell::runtime
