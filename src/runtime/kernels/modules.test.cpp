// Names and arguments of kernels, and loading and unloading of programs, without a compiler or a device.
#include "runtime/kernels/modules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/program/argument_check.hpp"
#include "tests/unit/bench.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/fake_backend.hpp"
#include "tests/unit/keeper.hpp"

namespace dwell::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Pair {
  int a, b;
};

constexpr Parameter kFloat{Kind::floating, Kind::structure, 4};
constexpr Parameter kFloats{Kind::pointer, Kind::floating, 4};
constexpr Parameter kInts{Kind::pointer, Kind::signed_integer, 4};

jit::ModuleObject some_object() {
  jit::ModuleObject object;
  object.kernels = {{"_Z4axpyIfEvT_", "axpy<float, 256>", Signature(std::vector{kFloat})},
                    {"scale", "scale", Signature()},
                    {"_ZN2ns4overEPf", "ns::over", Signature(std::vector{kFloats})},
                    {"_ZN2ns4overEPi", "ns::over", Signature(std::vector{kInts})}};
  object.expressions = {{"axpy<T, 256>", "_Z4axpyIfEvT_"}};
  return object;
}

TEST(KernelNames, ExpressionsNamesSymbolsAndParameters) {
  const jit::ModuleObject object = some_object();
  EXPECT_EQ(find_kernel(object, "axpy<T, 256>"), 0U);
  EXPECT_EQ(find_kernel(object, "axpy<float, 256>"), 0U);
  EXPECT_EQ(find_kernel(object, "axpy<float,256>"), 0U) << "blanks do not count";
  EXPECT_EQ(find_kernel(object, "_Z4axpyIfEvT_"), 0U);
  EXPECT_EQ(find_kernel(object, "scale"), 1U);
  EXPECT_EQ(find_kernel(object, "ns::over(i32*)"), 3U);
  EXPECT_THAT(kernel_names(object), ElementsAre("axpy<float, 256>", "scale", "ns::over(float*)", "ns::over(i32*)"));
  for (const std::string& name : kernel_names(object)) EXPECT_NO_THROW(find_kernel(object, name)) << name;
}

TEST(KernelNames, AnUnknownNameListsTheKnownOnes) {
  const Error error = error_of([] { find_kernel(some_object(), "scala"); });
  EXPECT_EQ(error.kind(), errc::operator_not_found);
  expect_fields(error, {"kernel", "scala"});
  EXPECT_THAT(error.message(), HasSubstr("axpy<float, 256>, scale, ns::over(float*), ns::over(i32*)"));
  EXPECT_THAT(error_of([] { find_kernel({}, "x"); }).message(), HasSubstr("none at all"));
}

TEST(KernelNames, AnAmbiguousNameListsTheCandidates) {
  const Error error = error_of([] { find_kernel(some_object(), "ns::over"); });
  EXPECT_EQ(error.kind(), errc::operator_not_found);
  expect_fields(error, {"kernel", "ns::over"});
  EXPECT_THAT(error.message(), HasSubstr("several kernels: ns::over(float*), ns::over(i32*)"));
}

template <class... Given>
void check(const std::vector<Parameter>& declared) {
  const std::vector<Parameter> given = {detail::Passed<Given>::type...};
  check_arguments("kernel", "f", Signature(declared), given, detail::kernel_accepts);
}

TEST(KernelArguments, FitByKindAndSize) {
  const Parameter const_floats{Kind::const_pointer, Kind::floating, 4};
  const Parameter untyped{Kind::pointer, Kind::opaque, 0};
  const Parameter objects{Kind::pointer, Kind::structure, 0};
  const Parameter pair{Kind::structure, Kind::structure, 8};
  EXPECT_NO_THROW((check<float, Buffer<float>, const float*, Pair>({kFloat, kFloats, const_floats, pair})));
  EXPECT_NO_THROW((check<Slice<float>, float*>({const_floats, const_floats})));
  EXPECT_NO_THROW((check<void*, std::nullptr_t, Buffer<int>, Pair*>({kFloats, const_floats, untyped, objects})));
  EXPECT_THROW((check<double>({kFloat})), Error);
  EXPECT_THROW((check<int>({kFloat})), Error);
  EXPECT_THROW((check<const float*>({kFloats})), Error) << "the kernel would write it";
  EXPECT_THROW((check<const void*>({kFloats})), Error);
  EXPECT_THROW((check<Buffer<int>>({kFloats})), Error);
  EXPECT_THROW((check<unsigned long>({kFloats})), Error) << "an integer is no pointer";
  EXPECT_THROW((check<float*>({objects})), Error);
  EXPECT_THROW((check<float**>({kFloats})), Error);
}

TEST(KernelArguments, CLinkageChecksSizesOnly) {
  const auto opaque = [](u16 bytes) { return Parameter{Kind::opaque, Kind::structure, bytes}; };
  EXPECT_NO_THROW((
      check<Buffer<float>, const int*, unsigned, float, Pair, double>({opaque(8), opaque(8), opaque(4), opaque(4), opaque(8), opaque(8)})));
  EXPECT_THROW((check<float>({opaque(8)})), Error);
  EXPECT_THROW((check<Buffer<float>>({opaque(4)})), Error);
}

TEST(KernelArguments, AMismatchShowsBothLists) {
  const Error wrong = error_of([] { check<float, Buffer<int>>({kFloat, kFloats}); });
  EXPECT_EQ(wrong.kind(), errc::signature_mismatch);
  EXPECT_EQ(wrong.message(), "kernel 'f' takes (float, float*), not (float, i32*): argument 2 is i32* where float* is needed");
  expect_fields(wrong, {"kernel", "f"});
  const Error few = error_of([] { check<float>({kFloat, kFloats}); });
  expect_fields(few, {"kernel", "f", 1, 2});
  EXPECT_THAT(few.message(), HasSubstr("2 arguments are needed, 1 were given"));
}

TEST(KernelArguments, TypedHandleIsCheckedAtCompilation) {
  using Typed = Kernel<void(float, const float*, float*, Pair)>;
  static_assert(Typed::fits<float, Buffer<float>, Slice<float>, Pair>());
  static_assert(!Typed::fits<double, Buffer<float>, Slice<float>, Pair>());
  static_assert(!Typed::fits<float, Buffer<float>, const float*, Pair>());
  static_assert(!Typed::fits<float, Buffer<float>, Slice<float>>());
}

// Compiles any source but "error" into two kernels.
class FakeCompiler final : public jit::Compiler {
 public:
  jit::Object compile(const jit::Unit&) override { return {}; }
  jit::Image link(std::span<const jit::Opcode>, Tier, std::uint32_t) override { return {}; }
  jit::ModuleObject compile_module(const jit::Unit& unit) override {
    units.push_back(unit);
    if (unit.text == "error") throw Error(errc::compile_failed, "error");
    return some_object();
  }
  std::string fingerprint(const jit::Unit& unit) override { return "fingerprint of " + unit.text; }
  std::string identity() const override { return "fake"; }

  std::vector<jit::Unit> units;
};

class ModulesTest : public testing::Test {
 protected:
  ModulesTest() { modules_ = std::make_unique<Modules>(compiler_, backend_, *keeper_, launches_, nullptr); }
  template <class... Given>
  std::uint64_t launch(const std::shared_ptr<detail::ModuleState>& module, std::size_t index, const LaunchConfig& config,
                       const Given&... given) {
    const std::tuple<detail::Passed<Given>...> passed(detail::Passed<Given>{given}...);
    return std::apply(
        [&](const auto&... each) {
          const detail::LaunchArgument list[] = {each.argument()..., detail::LaunchArgument{}};
          return modules_->launch(module, index, config, list, sizeof...(Given));
        },
        passed);
  }

  // Waits until all is unloaded: the janitor does that on its own thread.
  bool comes_to_hold_nothing() const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (device_->loaded_kernels != 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return device_->loaded_kernels == 0;
  }

  std::shared_ptr<test::FakeDevice> device_ = std::make_shared<test::FakeDevice>();
  test::FakeBackend backend_{device_};
  test::Bench bench_;
  FakeCompiler compiler_;
  std::unique_ptr<Keeper> keeper_ = test::make_keeper(backend_, bench_);
  Launches launches_{backend_};
  std::unique_ptr<Modules> modules_;
};

TEST_F(ModulesTest, CompilesWithTheRequestedSourceOptionsAndExpressions) {
  const auto module = modules_->compile({"text", "mine.cu", 7}, CompileOptions{.fast_math = true}, {"axpy<float>", "g"});
  ASSERT_EQ(compiler_.units.size(), 1U);
  const jit::Unit& unit = compiler_.units[0];
  EXPECT_EQ(unit.text, "text");
  EXPECT_EQ(unit.file, "mine.cu");
  EXPECT_EQ(unit.line, 7);
  EXPECT_TRUE(unit.program);
  EXPECT_TRUE(unit.options.fast_math);
  EXPECT_EQ(unit.exports[1].expression, "g");
  EXPECT_EQ(unit.fingerprint, "fingerprint of text");
  EXPECT_EQ(device_->loaded_kernels, 1);
  modules_->release(*module);
  EXPECT_TRUE(comes_to_hold_nothing());
}

TEST_F(ModulesTest, AFailedCompilationOrLoadLeavesNothingBehind) {
  EXPECT_THROW(modules_->compile("error", {}, {}), Error);
  device_->refuses_load = true;
  EXPECT_THROW(modules_->compile("text", {}, {}), Error);
  EXPECT_THROW(keeper_->resume(), Error) << "the park of the loading is still on";
  EXPECT_EQ(device_->loaded_kernels, 0);
}

TEST_F(ModulesTest, ALaunchKeepsItsProgramLoaded) {
  auto module = modules_->compile("text", {}, {});
  const std::weak_ptr<detail::ModuleState> watched = module;
  float* const data = reinterpret_cast<float*>(0x1000);
  launch(module, 2, {.grid = {8}, .block = {128}}, data);
  EXPECT_THAT(launches_.naming(0x1000, 0x1001), ElementsAre(0));
  launches_.collect();
  EXPECT_EQ(module.use_count(), 2);
  device_->end_launch(0);
  launches_.collect();
  EXPECT_EQ(module.use_count(), 1);
  modules_->release(*module);
}

TEST_F(ModulesTest, CooperativeLaunchReachesTheBackend) {
  const auto module = modules_->compile("text", {}, {});
  launch(module, 0, {.cooperative = true}, 1.0F);
  EXPECT_EQ(device_->cooperative, 1);
  launch(module, 0, {}, 1.0F);
  EXPECT_EQ(device_->cooperative, 1);
  EXPECT_EQ(device_->launches, 2);
  device_->end_launch(0);
  device_->end_launch(1);
  launches_.collect();
  modules_->release(*module);
}

TEST_F(ModulesTest, AWrongLaunchNeverReachesTheDevice) {
  const auto module = modules_->compile("text", {}, {});
  EXPECT_EQ(error_of([&] { launch(module, 0, {}, 1); }).kind(), errc::signature_mismatch);
  const Error empty = error_of([&] { launch(module, 0, {.grid = {0}}, 1.0F); });
  EXPECT_EQ(empty.kind(), errc::invalid_argument);
  EXPECT_THAT(empty.message(), HasSubstr("grid"));
  EXPECT_THAT(error_of([&] { launch(module, 0, {.block = {1, 0, 1}}, 1.0F); }).message(), HasSubstr("block"));
  EXPECT_EQ(device_->launches, 0);
  device_->refuses_launch = true;
  const Error refused = error_of([&] { launch(module, 0, {}, 1.0F); });
  expect_fields(refused, {"kernel", "axpy<float, 256>"});
  EXPECT_THAT(refused.message(), HasSubstr("the launch is refused"));
  modules_->release(*module);
}

TEST_F(ModulesTest, CloseUnloadsAllAndEndsLaunching) {
  const auto one = modules_->compile("text", {}, {});
  const auto two = modules_->compile("text", {}, {});
  EXPECT_EQ(device_->loaded_kernels, 2);
  modules_->close();
  EXPECT_EQ(device_->loaded_kernels, 0);
  EXPECT_EQ(error_of([&] { launch(one, 1, {}); }).kind(), errc::closed);
  EXPECT_EQ(error_of([&] { modules_->compile("text", {}, {}); }).kind(), errc::closed);
  EXPECT_TRUE(comes_to_hold_nothing());
  modules_->release(*two);
}

}  // namespace
}  // namespace dwell::runtime
