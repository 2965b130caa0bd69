// Operators that use others, without a compiler or a device.
#include "runtime/program/bindings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/unit/expect_error.hpp"
#include "tests/unit/registry_test.hpp"

namespace dwell::runtime {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class BindingsTest : public RegistryTest {
 protected:
  // The texts that a task submitted now runs: its own, then the first operator that each uses in turn.
  std::vector<std::string> chain(const detail::DefinitionState& definition, std::size_t length) {
    std::vector<std::string> texts;
    std::uint32_t opcode = definition.instances[0].alias;
    for (;;) {
      texts.push_back(image().at(opcode));
      if (texts.size() == length) return texts;
      opcode = uses(opcode).at(0);
    }
  }
  const std::vector<std::uint32_t>& uses(std::uint32_t opcode) const { return workshop_->uses.at(opcode); }
  std::uint32_t alias(const Registry::DefinitionPointer& definition) const { return definition->instances[0].alias; }
};

TEST_F(BindingsTest, VersionIsBoundToCurrentVersions) {
  const auto b = define("b", "b1");
  const auto a = define("a", "a1 uses b");
  const std::uint64_t before = submit(*a);
  registry_->redefine(b, std::string("b2"));
  const std::uint64_t after = submit(*a);
  EXPECT_THAT(image(), ElementsAre("b1", "a1 uses b", "b2", "a1 uses b"));
  EXPECT_THAT(uses(opcode_of(before)), ElementsAre(0U)) << "b1";
  EXPECT_THAT(uses(opcode_of(after)), ElementsAre(2U)) << "b2";
  EXPECT_EQ(a->current, 1U);
  EXPECT_EQ(a->versions, 1U);
  EXPECT_EQ(registry_->table().name_of(opcode_of(after)), "a (version 1)");
}

TEST_F(BindingsTest, IndirectUsersAreReboundAndOthersAreNot) {
  const auto c = define("c", "c1");
  const auto b = define("b", "b1 uses c");
  const auto a = define("a", "a1 uses b");
  const auto other = define("other", "other1");
  const std::uint32_t others = alias(other);
  const std::uint32_t own = alias(c);
  registry_->redefine(c, std::string("c2"));
  EXPECT_THAT(chain(*a, 3), ElementsAre("a1 uses b", "b1 uses c", "c2"));
  registry_->redefine(b, std::string("b2 uses c"));
  EXPECT_THAT(chain(*a, 3), ElementsAre("a1 uses b", "b2 uses c", "c2"));
  EXPECT_EQ(alias(other), others);
  EXPECT_NE(alias(c), own);
  const std::uint32_t second = alias(c);
  registry_->redefine(a, std::string("a2 uses c b"));
  EXPECT_THAT(uses(alias(a)), ElementsAre(second, alias(b)));
}

TEST_F(BindingsTest, ARollbackReachesTheUsers) {
  const auto b = define("b", "b1");
  const auto a = define("a", "a1 uses b");
  registry_->redefine(b, std::string("b2"));
  registry_->rollback(*b);
  EXPECT_THAT(chain(*a, 2), ElementsAre("a1 uses b", "b1"));
  submit(*a);  // keeps that binding in the image
  registry_->redefine(a, std::string("a2"));
  registry_->redefine(b, std::string("b3"));
  registry_->rollback(*a);
  EXPECT_THAT(chain(*a, 2), ElementsAre("a1 uses b", "b3")) << "it is bound to what is current then, not to what was once";
}

TEST_F(BindingsTest, RecursionStaysWithinAVersion) {
  const auto a = define("a", "a1 uses a");
  EXPECT_THAT(uses(alias(a)), ElementsAre(alias(a)));
  const std::uint32_t first = alias(a);
  registry_->redefine(a, std::string("a2 uses a"));
  EXPECT_THAT(uses(alias(a)), ElementsAre(alias(a)));
  EXPECT_THAT(uses(first), ElementsAre(first));
  const std::uint64_t images = registry_->table().images();
  registry_->rollback(*a);
  EXPECT_EQ(alias(a), first);
  EXPECT_EQ(registry_->table().images(), images) << "what uses none but itself is in the image as it was";
}

TEST_F(BindingsTest, ACycleIsBoundToItself) {
  const auto a = define("a", "a1");
  const auto b = define("b", "b1 uses a");
  registry_->redefine(a, std::string("a2 uses b"));
  EXPECT_THAT(chain(*a, 4), ElementsAre("a2 uses b", "b1 uses a", "a2 uses b", "b1 uses a"));
  EXPECT_THAT(uses(alias(b)), ElementsAre(alias(a)));
  const std::uint32_t before = alias(a);
  registry_->redefine(b, std::string("b2 uses a"));
  EXPECT_THAT(chain(*a, 3), ElementsAre("a2 uses b", "b2 uses a", "a2 uses b"));
  EXPECT_THAT(uses(uses(before)[0]), ElementsAre(before)) << "the older generation stays as it was";
  registry_->rollback(*a);
  EXPECT_THAT(chain(*b, 2), ElementsAre("b2 uses a", "a1"));
}

TEST_F(BindingsTest, ABindingLeavesTheImageWithItsLastTask) {
  const auto b = define("b", "b1");
  const auto a = define("a", "a1 uses b");
  const std::uint64_t old = submit(*a);
  registry_->redefine(b, std::string("b2"));
  registry_->redefine(b, std::string("b3"));
  EXPECT_THAT(image(), testing::Contains("a1 uses b").Times(3));
  EXPECT_THAT(chain(*a, 2), ElementsAre("a1 uses b", "b3"));
  EXPECT_THAT(uses(opcode_of(old)), ElementsAre(0U));
  EXPECT_EQ(image().at(0), "b1") << "a task that may make tasks of it is in flight";
  finish(old);
  define("c", "c1");
  EXPECT_THAT(image(), testing::Contains("a1 uses b").Times(1));
  EXPECT_THAT(image(), testing::Not(testing::Contains("b1")));
  registry_->redefine(a, std::string("a2 uses b"));
  finish(submit(*a));
  define("d", "d1");
  EXPECT_THAT(image(), testing::Not(testing::Contains("a1 uses b"))) << "a rollback would bind it anew";
}

TEST_F(BindingsTest, AnInstanceIsChosenByItsParameters) {
  const auto b = registry_->define("b", std::string("b1 float"));
  define("a", "a1 uses b:");
  DWELL_EXPECT_ERROR(define("c", "c1 uses b"), errc::signature_mismatch,
                     AllOf(HasSubstr("'c'"), HasSubstr("'b'"), HasSubstr("b takes (float)")));
  DWELL_EXPECT_ERROR_FIELDS(define("c", "c1 uses b"), errc::signature_mismatch, "operator", "b");
  DWELL_EXPECT_ERROR(define("d", "d1 uses d:"), errc::signature_mismatch, HasSubstr("d takes ()"));
}

TEST_F(BindingsTest, AnOperatorThatIsNotDefinedIsRefused) {
  const auto b = define("b", "b1");
  const std::uint64_t images = registry_->table().images();
  DWELL_EXPECT_ERROR(define("a", "a1 uses b nowhere"), errc::operator_not_found,
                     AllOf(HasSubstr("'a' uses 'nowhere'"), HasSubstr("define 'nowhere' first")));
  DWELL_EXPECT_ERROR_FIELDS(registry_->redefine(b, std::string("b2 uses nowhere")), errc::operator_not_found, "operator", "nowhere");
  EXPECT_EQ(registry_->table().images(), images);
  EXPECT_EQ(b->versions, 1U);
  define("a", "a1 uses b");
}

TEST_F(BindingsTest, FailedLinkLeavesUsersUnchanged) {
  const auto b = define("b", "b1");
  const auto a = define("a", "a1 uses b");
  const std::uint32_t before = alias(a);
  workshop_->refuses_link = true;
  EXPECT_EQ(kind_of([&] { registry_->redefine(b, std::string("b2")); }), errc::link_failed);
  workshop_->refuses_link = false;
  EXPECT_EQ(alias(a), before);
  define("c", "c1");
  EXPECT_THAT(image(), ElementsAre("b1", "a1 uses b", "c1", "")) << "their opcodes are free again";
}

// Defines in the background. The result throws the error.
std::future<void> define_async(Registry& registry, const std::string& name, const std::string& text) {
  auto promise = std::make_shared<std::promise<void>>();
  registry.define_async(name, text, {},
                        [promise](const auto&, const Error* failure) {
                          if (failure == nullptr)
                            promise->set_value();
                          else
                            promise->set_exception(std::make_exception_ptr(*failure));
                        },
                        {});
  return promise->get_future();
}

TEST_F(BindingsTest, DefinitionWaitsForPendingUses) {
  open({.threads = 3});
  std::promise<void> defined;
  std::promise<void> compile;
  workshop_->on_compile = [all = defined.get_future().share(), passed = compile.get_future().share()](const std::string& text) {
    (text == "c1" ? passed : all).wait();
  };
  std::future<void> c = define_async(*registry_, "c", "c1");
  std::future<void> a = define_async(*registry_, "a", "a1 uses b");
  std::future<void> b = define_async(*registry_, "b", "b1 uses c");
  defined.set_value();
  EXPECT_EQ(a.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  compile.set_value();
  for (std::future<void>* const each : {&a, &b, &c}) each->get();
  EXPECT_EQ(registry_->table().images(), 1U);
}

TEST_F(BindingsTest, VersionsOfOneHandOverUseThemselves) {
  const auto a = define("a", "a1 uses a");
  std::promise<void> compile;
  std::promise<void> done;
  workshop_->on_compile = [passed = compile.get_future().share()](const std::string&) { passed.wait(); };
  registry_->redefine_async(a, std::string("a2 uses a"), nullptr, [](const auto&, const Error*) {}, {});
  registry_->redefine_async(a, std::string("a3 uses a"), nullptr, [&](const auto&, const Error*) { done.set_value(); }, {});
  compile.set_value();
  done.get_future().wait();
  EXPECT_EQ(registry_->table().images(), 2U);
  for (const char* const text : {"a3 uses a", "a2 uses a", "a1 uses a"}) {
    EXPECT_EQ(image().at(alias(a)), text);
    EXPECT_THAT(uses(alias(a)), ElementsAre(alias(a)));
    if (a->current != 1) registry_->rollback(*a);
  }
}

TEST_F(BindingsTest, DefinitionsThatUseEachOtherShareAHandOver) {
  std::promise<void> compile;
  workshop_->on_compile = [passed = compile.get_future().share()](const std::string&) { passed.wait(); };
  std::future<void> a = define_async(*registry_, "a", "a1 uses b");
  std::future<void> b = define_async(*registry_, "b", "b1 uses a");
  std::future<void> bad = define_async(*registry_, "bad", "unlinkable");
  compile.set_value();
  a.get();
  b.get();
  EXPECT_THROW(bad.get(), Error) << "which takes nobody with it";
  EXPECT_THAT(uses(0), ElementsAre(1U));
  EXPECT_THAT(uses(1), ElementsAre(0U));
}

TEST_F(BindingsTest, DefinitionFailsWithItsUse) {
  std::promise<void> compile;
  workshop_->on_compile = [passed = compile.get_future().share()](const std::string&) { passed.wait(); };
  std::future<void> b = define_async(*registry_, "b", "error");
  std::future<void> a = define_async(*registry_, "a", "a1 uses b");
  compile.set_value();
  EXPECT_THROW(b.get(), Error);
  DWELL_EXPECT_ERROR(a.get(), errc::operator_not_found, HasSubstr("'b'"));
}

}  // namespace
}  // namespace dwell::runtime
