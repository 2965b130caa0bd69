// One operator template, and an instance of it for each type that is needed.
#include <cstdio>
#include <vector>

#include <dwell/dwell.hpp>

namespace {

constexpr const char* kAxpy = R"(
template <class T>
DWELL_OPERATOR(axpy)(dwell::Group g, T a, dwell::Span<const T> x, dwell::Span<T> y) {
  g.transform(y, [=](T b, T c) { return a * b + c; }, x, y);
})";

// How many sums are wrong.
template <class T>
unsigned run(dwell::Runtime& runtime, const dwell::Operator<>& axpy) {
  constexpr unsigned kCount = 1000;
  auto x = runtime.allocate<T>(kCount);
  auto y = runtime.allocate<T>(kCount);
  x.write(std::vector<T>(kCount, T{3}));
  y.write(std::vector<T>(kCount, T{1}));
  runtime.submit(axpy, T{2}, x, y);
  std::vector<T> sums(kCount);
  y.read(sums);  // waits for the task
  unsigned wrong = 0;
  for (const T sum : sums) wrong += sum == T{7} ? 0 : 1;
  return wrong;
}

}  // namespace

int main() {
  dwell::Runtime runtime;
  const auto axpy = runtime.define("axpy", kAxpy, {.instances = {"axpy<float>", "axpy<double>", "axpy<int>"}});
  unsigned wrong = run<float>(runtime, axpy);  // the handle that define gives is the first instance's
  wrong += run<double>(runtime, axpy.instance("axpy<double>"));
  wrong += run<int>(runtime, axpy.instance("axpy<int>"));
  std::printf("templates: three instances of one source, %u wrong sums; axpy<int> is %s in the image\n", wrong,
              axpy.lowered_name("axpy<int>").c_str());
  return wrong == 0 ? 0 : 1;
}
