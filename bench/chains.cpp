// Chains of tensor operations, each of which needs the last one's result.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <dwell/batch.hpp>
#include <dwell/graph.hpp>
#include <functional>
#include <string>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr std::size_t kSteps = 64;

// A matrix in the host's memory.
struct Numbers {
  std::int64_t rows;
  std::int64_t columns;
  std::vector<double> at;

  double& operator()(std::int64_t row, std::int64_t column) { return at[static_cast<std::size_t>(row * columns + column)]; }
};
// Returns numbers of 1/8 from -2 to 2, without a pattern.
Numbers numbers_of(std::int64_t rows, std::int64_t columns) {
  Numbers numbers{rows, columns, std::vector<double>(static_cast<std::size_t>(rows * columns))};
  Random random;
  for (double& number : numbers.at) number = (static_cast<double>(random.below(33)) - 16) / 8;
  return numbers;
}
// Returns the matrix whose product moves columns: column j comes from column j + 1.
Numbers shift_of(std::int64_t size) {
  Numbers shift{size, size, std::vector<double>(static_cast<std::size_t>(size * size))};
  for (std::int64_t column = 0; column < size; ++column) shift((column + 1) % size, column) = 1;
  return shift;
}

// An operation from a matrix to one of the same shape.
struct Link {
  const char* name;
  std::int64_t rows;
  std::int64_t columns;
  std::function<void(Batch& batch, const TensorView& to, const TensorView& from, const TensorView& weights)> collect;
  std::function<void(Numbers& numbers)> compute;
  Numbers weights = {0, 0, {}};
  bool transposed = false;  // the weights, in memory
  std::int64_t rows_written = rows;
};

void shift_columns(Numbers& numbers) {
  for (std::int64_t row = 0; row < numbers.rows; ++row) {
    const auto first = numbers.at.begin() + row * numbers.columns;
    std::rotate(first, first + 1, first + numbers.columns);
  }
}
void softmax_rows(Numbers& numbers) {
  for (std::int64_t row = 0; row < numbers.rows; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < numbers.columns; ++i) sum += numbers(row, i) = std::exp(numbers(row, i));
    for (std::int64_t i = 0; i < numbers.columns; ++i) numbers(row, i) /= sum;
  }
}
constexpr double kEpsilon = 1e-5;
void normalize_rows(Numbers& numbers) {
  const auto count = static_cast<double>(numbers.columns);
  for (std::int64_t row = 0; row < numbers.rows; ++row) {
    double mean = 0;
    double square = 0;
    for (std::int64_t i = 0; i < numbers.columns; ++i) mean += numbers(row, i) / count;
    for (std::int64_t i = 0; i < numbers.columns; ++i) square += std::pow(numbers(row, i) - mean, 2) / count;
    for (std::int64_t i = 0; i < numbers.columns; ++i) numbers(row, i) = (numbers(row, i) - mean) / std::sqrt(square + kEpsilon);
  }
}
// The first row becomes the means of all columns.
void average_columns(Numbers& numbers) {
  for (std::int64_t column = 0; column < numbers.columns; ++column) {
    double sum = 0;
    for (std::int64_t row = 0; row < numbers.rows; ++row) sum += numbers(row, column);
    numbers(0, column) = sum / static_cast<double>(numbers.rows);
  }
}

std::vector<Link> links() {
  const auto mm = [](Batch& batch, const TensorView& to, const TensorView& from, const TensorView& weights) {
    batch.mm(to, from, weights);
  };
  const auto softmax = [](Batch& batch, const TensorView& to, const TensorView& from, const TensorView&) { batch.softmax(to, from, -1); };
  const auto norm = [](Batch& batch, const TensorView& to, const TensorView& from, const TensorView&) {
    batch.layer_norm(to, from, {from.shape()[1]}, {}, {}, kEpsilon);
  };
  const auto mean = [](Batch& batch, const TensorView& to, const TensorView& from, const TensorView&) {
    const TensorView first(to.address(), to.type(), {to.shape()[1]});
    batch.reduce(Reduction::mean, first, from, {0});
  };
  return {{"linear 1x256 by 256x256", 1, 256, mm, shift_columns, shift_of(256), true},
          {"linear 1x32 by 32x32", 1, 32, mm, shift_columns, shift_of(32), true},
          {"mm 1x256 by 256x256", 1, 256, mm, shift_columns, shift_of(256)},
          {"linear 8x256 by 256x256", 8, 256, mm, shift_columns, shift_of(256), true},
          {"linear 64x256 by 256x256", 64, 256, mm, shift_columns, shift_of(256), true},
          {"mm 8x8", 8, 8, mm, shift_columns, shift_of(8)},
          {"mm 64x64", 64, 64, mm, shift_columns, shift_of(64)},
          {"softmax 8x128", 8, 128, softmax, softmax_rows},
          {"layer norm 1x256", 1, 256, norm, normalize_rows},
          {"mean of 64 rows of 64", 64, 64, mean, average_columns, {0, 0, {}}, false, 1}};
}

std::vector<float> floats_of(const std::vector<double>& numbers) { return {numbers.begin(), numbers.end()}; }

// The tensors of a chain: it goes from the first to the second and back.
class Chain {
 public:
  Chain(Runtime& runtime, const Link& link)
      : link_(link),
        start_(numbers_of(link.rows, link.columns)),
        first_(runtime.allocate<float>(start_.at.size())),
        second_(runtime.allocate<float>(start_.at.size())),
        weights_(runtime.allocate<float>(std::max<std::size_t>(link.weights.at.size(), 1))) {
    Numbers weights = link.weights;
    for (std::int64_t row = 0; link.transposed && row < weights.rows; ++row)
      for (std::int64_t column = 0; column < row; ++column) std::swap(weights(row, column), weights(column, row));
    weights.at.resize(weights_.size());
    weights_.write(floats_of(weights.at));
    fill();
  }

  void fill() {
    first_.write(floats_of(start_.at));
    second_.write(floats_of(start_.at));
  }
  void collect(Batch& batch) const {
    const Dims shape{link_.rows, link_.columns};
    const TensorView one(TensorView(first_).address(), ElementType::f32, shape);
    const TensorView other(TensorView(second_).address(), ElementType::f32, shape);
    TensorView weights(TensorView(weights_).address(), ElementType::f32, {link_.weights.rows, link_.weights.columns});
    if (link_.transposed) weights = weights.transpose(0, 1);
    for (std::size_t step = 0; step < kSteps; ++step)
      link_.collect(batch, step % 2 == 0 ? other : one, step % 2 == 0 ? one : other, weights);
  }
  // Returns elements that are wrong after one run from `fill` on.
  std::size_t wrong() const {
    Numbers one = start_;
    Numbers other = start_;
    for (std::size_t step = 0; step < kSteps; ++step) {
      Numbers result = step % 2 == 0 ? one : other;
      link_.compute(result);
      Numbers& to = step % 2 == 0 ? other : one;
      std::copy_n(result.at.begin(), link_.rows_written * link_.columns, to.at.begin());
    }
    std::vector<float> found(first_.size());
    first_.read(found);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      wrong += std::fabs(static_cast<double>(found[i]) - one.at[i]) <= 1e-4 * (1 + std::fabs(one.at[i])) ? 0U : 1U;
    return wrong;
  }

 private:
  const Link& link_;
  const Numbers start_;
  Buffer<float> first_;
  Buffer<float> second_;
  Buffer<float> weights_;
};

// Returns the nanoseconds a step of each run, behind an untimed one whose results are checked.
std::vector<double> time(std::size_t runs, Chain& chain, Report& report, const std::string& what, const auto& run) {
  std::vector<double> times;
  chain.fill();
  run();
  report.check_none("elements that are wrong, " + what, chain.wrong());
  for (std::size_t i = 0; i < runs; ++i) {
    const Clock::time_point start = Clock::now();
    run();
    times.push_back(nanoseconds_since(start) / static_cast<double>(kSteps));
  }
  return times;
}

void run(const Context& context, Report& report) {
  Options options = context.options();
  options.compile_programs_after = 0;
  Runtime runtime(options);
  const std::size_t runs = context.pick<std::size_t>(200, 5);
  for (const Link& link : links()) {
    Chain chain(runtime, link);
    const GraphExec graph = runtime.instantiate(runtime.capture([&] {
      Batch inside(runtime);
      chain.collect(inside);
      inside.submit();
    }));
    const std::string what = std::string("chain of ") + link.name + ", a step";
    report.add({what, "dwell, graph", true, "ns",
                spread_of(time(runs, chain, report, link.name + std::string(" in a graph"), [&] { runtime.launch(graph).wait(); }))});
    Batch batch(runtime);
    report.add({what, "dwell, Batch", true, "ns", spread_of(time(runs, chain, report, link.name + std::string(" in a batch"), [&] {
                  chain.collect(batch);
                  batch.flush().wait();
                }))});
  }
  report.note("a chain has " + std::to_string(kSteps) + " steps; its launch and the wait behind it are shared among them");
}

const Registration kRegistration{
    {105, "chains", "tensor operations of which each needs the last one's result, interpreted: a step", 60, run}};

}  // namespace

}  // namespace dwell::bench
