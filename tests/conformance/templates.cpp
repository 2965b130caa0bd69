// Operator templates and their instances.
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class TemplateTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(TemplateTest);

// A template with two parameters, one of them a value; `factor` distinguishes versions.
std::string scaled(int factor) {
  return "template <class T, int N>\n"
         "DWELL_OPERATOR(scaled)(dwell::Group g, T a, dwell::Span<const T> x, dwell::Span<T> y) {\n"
         "  for (auto i : g.range(y.size())) y[i] = static_cast<T>(" +
         std::to_string(factor) +
         " * N * a * x[i]);\n"
         "}\n";
}

const Definition kInstances = {.instances = {"scaled<float, 1>", "scaled<double, 1>", "scaled<int, 3>"}};

template <class T>
void expect_scaled(Runtime& runtime, const Operator<>& op, T factor) {
  const std::vector<T> input = {1, 2, 3, 4, 5};
  auto x = runtime.allocate<T>(input.size());
  auto y = runtime.allocate<T>(input.size());
  x.write(input);
  runtime.submit(op, T{2}, x, y).wait();
  std::vector<T> expected;
  for (const T value : input) expected.push_back(factor * 2 * value);
  EXPECT_EQ(read(y), expected) << op.name();
}

TEST_P(TemplateTest, EachInstanceHasItsTypes) {
  Runtime runtime(options());
  const Operator<> op = runtime.define("scaled", scaled(1), kInstances);
  EXPECT_EQ(op.name(), "scaled<float, 1>");
  EXPECT_EQ(op.instances(), kInstances.instances);
  expect_scaled<float>(runtime, op, 1);
  expect_scaled<double>(runtime, op.instance("scaled<double,1>"), 1);
  expect_scaled<int>(runtime, op.instance("scaled< int, 3 >"), 3);
  EXPECT_EQ(runtime.metrics().images, 1U);
  const Operator<void(int, Span<const int>, Span<int>)> typed(op.instance("scaled<int, 3>"));
  DWELL_EXPECT_ERROR((Operator<void(float, Span<const int>, Span<int>)>(op.instance("scaled<int, 3>"))), errc::signature_mismatch,
                     HasSubstr("scaled<int, 3>"));
  DWELL_EXPECT_ERROR(op.instance("scaled<short, 1>"), errc::operator_not_found,
                     AllOf(HasSubstr("scaled<short, 1>"), HasSubstr("scaled<float, 1>, scaled<double, 1>, scaled<int, 3>")));
}

TEST_P(TemplateTest, NewVersionAppliesToAllInstances) {
  Runtime runtime(options());
  Operator<> op = runtime.define("scaled", scaled(1), kInstances);
  const Operator<> ints = op.instance("scaled<int, 3>");
  op.redefine(scaled(10));
  EXPECT_EQ(ints.version(), 2U);
  expect_scaled<float>(runtime, op, 10);
  expect_scaled<int>(runtime, ints, 30);
  op.rollback();
  expect_scaled<double>(runtime, op.instance("scaled<double, 1>"), 1);
  expect_scaled<int>(runtime, ints, 3);
}

TEST_P(TemplateTest, SymbolsAreInTheImage) {
  Runtime runtime(options());
  DWELL_EXPECT_ERROR(runtime.image(), errc::invalid_argument, HasSubstr("before the first"));
  Operator<> op = runtime.define("scaled", scaled(1), kInstances);
  const Image before = runtime.image();
  const std::string symbol = op.lowered_name("scaled<int, 3>");
  EXPECT_THAT(before.symbols(), testing::Contains(symbol));
  const auto bytes = before.bytes();
  EXPECT_NE(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).find(symbol), std::string_view::npos);
  op.redefine(scaled(2));
  EXPECT_NE(op.lowered_name("scaled<int, 3>"), symbol);
  EXPECT_EQ(before.bytes().data(), bytes.data()) << "a handle keeps its image";
  DWELL_EXPECT_ERROR(op.lowered_name("scaled"), errc::operator_not_found, HasSubstr("scaled<float, 1>"));
  if (GetParam() == "cpu") {
    DWELL_EXPECT_ERROR(before.cubin(), errc::unsupported, HasSubstr("CPU"));
    DWELL_EXPECT_ERROR(before.ptx(), errc::unsupported, HasSubstr("PTX"));
  } else {
    EXPECT_EQ(before.cubin().data(), bytes.data());
    EXPECT_THAT(before.ptx(), AllOf(HasSubstr(".version"), HasSubstr(symbol)));
  }
}

TEST_P(TemplateTest, ImpossibleInstancesAreRefused) {
  Runtime runtime(options());
  const auto define = [&](std::vector<std::string> instances) { runtime.define("scaled", scaled(1), {.instances = std::move(instances)}); };
  DWELL_EXPECT_ERROR(define({"other<int>"}), errc::invalid_argument, HasSubstr("other<int>"));
  DWELL_EXPECT_ERROR(define({"scaled<int, 3>", "scaled<int,3>"}), errc::invalid_argument, HasSubstr("twice"));
  DWELL_EXPECT_ERROR(define({"scaled<int, 3>); int x = (1"}), errc::invalid_argument, HasSubstr("scaled<int, 3>"));
  DWELL_EXPECT_ERROR(define({"scaled<nothing, 3>"}), errc::compile_failed, HasSubstr("nothing"));
  DWELL_EXPECT_ERROR(define({"scaled<int>"}), errc::compile_failed, HasSubstr("scaled"));
  DWELL_EXPECT_ERROR(define({}), errc::compile_failed, HasSubstr("scaled is a template"));
  EXPECT_EQ(runtime.metrics().images, 0U);
  define({"scaled<int, 3>"});
}

}  // namespace
}  // namespace dwell::test
