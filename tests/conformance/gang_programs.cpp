// Programs of a gang: operations compiled as a whole, compared with the batch's tasks.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/gang_program.hpp>

#include "tests/conformance/emulated_gang.hpp"
#include "tests/conformance/gang_in_threads.hpp"
#include "tests/conformance/random_tensors.hpp"
#include "tests/conformance/tensor_test.hpp"
#include "tests/unit/sanitized.hpp"

namespace dwell::test {
namespace {

// Tensors of floats by name, and operations on them that may run again.
class GangProgramsTest : public TensorTest {
 protected:
  using Work = std::function<void(Batch&)>;

  TensorView tensor(const Dims& shape, float scale = 1) { return tensors.make(runtime(), shape, scale); }
  static bool needed(const TensorView::Extent&) { return true; }

  // Runs the work by tasks and by a program, some times from the same state, and compares all tensors. On a CPU also by threads, as many as
  // a GPU would have members.
  void check(const Work& work, GangSettings settings = {}, int runs = 3, double tolerance = 2e-4) {
    for (const Slices& slices : slices_)
      settings.slices.push_back({.memory = slices.memory.extent(),
                                 .first = slices.whole.address(),
                                 .stride = 4 * slices.whole.strides()[0],
                                 .output = slices.output});
    const std::vector<std::vector<float>> state = tensors.all();
    OperationList list;
    {
      Batch batch(runtime());
      batch.note_in(list);
      work(batch);
      batch.flush().wait();
    }
    tensors.restore(state);
    {
      const GangProgram program(runtime(), list, needed, settings);
      const auto run = [&](int number) {
        if (on_cpu() && number % 2 == 0)
          program.run();
        else
          program.launch().wait();
      };
      ASSERT_NO_FATAL_FAILURE(compare(work, run, program.source(), settings, runs, tolerance));
    }
    // Words are ordered by their values, of which the thread sanitizer knows nothing. The other ones compile a program for seconds.
    if (!on_cpu() || kThreadSanitized) return;
    if (kAddressSanitized && (settings.members < 2 || settings.members > kMostSanitized)) return;
    tensors.restore(state);
    GangInThreads program(runtime(), tensor::gang::plan_of(tensor::noted_in(list), needed, limits_of_gpu(settings, 1)), settings.repeats);
    if (program.plan().members == 1 && settings.members == 1) return;
    // A few members with all their threads: it takes longer.
    if (!kSanitized && settings.members > 1 && settings.members <= kMostEmulated) {
      const tensor::gang::Plan plan = tensor::gang::plan_of(tensor::noted_in(list), needed, limits_of_gpu(settings));
      EmulatedGang emulated(runtime(), plan, settings.members, settings.repeats);
      ASSERT_NO_FATAL_FAILURE(compare(
          work, [&](int) { emulated.run(); }, program.source(), settings, runs, tolerance));
      tensors.restore(state);
    }
    compare(
        work, [&](int) { program.run(); }, program.source(), settings, runs, tolerance);
  }

  // Run i of the operations has slice i of `whole` in `memory`, or leaves it there.
  void input(const TensorView& memory, const TensorView& whole) { slices_.push_back({memory, whole, false}); }
  void output(const TensorView& memory, const TensorView& whole) { slices_.push_back({memory, whole, true}); }

  std::mt19937& random() { return tensors.random(); }
  std::int64_t below(std::int64_t n) { return tensors.below(n); }

 private:
  static constexpr std::uint32_t kMostEmulated = 4;
  static constexpr std::uint32_t kMostSanitized = 9;

  struct Slices {
    TensorView memory;
    TensorView whole;
    bool output = false;
  };
  // Runs the work as often, each time with its slices.
  void run_tasks(const Work& work, std::uint32_t repeats) {
    Batch batch(runtime());
    for (std::uint32_t i = 0; i < repeats; ++i) {
      const auto slice = [&](const Slices& slices) { return slices.whole.slice(0, i, 1).reshape(slices.memory.shape()); };
      for (const Slices& slices : slices_)
        if (!slices.output) batch.assign(slices.memory, Expression(slice(slices)));
      work(batch);
      for (const Slices& slices : slices_)
        if (slices.output) batch.assign(slice(slices), Expression(slices.memory));
    }
    batch.flush().wait();
  }
  bool is_input(std::size_t buffer) const {
    return std::ranges::any_of(slices_,
                               [&](const Slices& slices) { return !slices.output && slices.memory.address() == tensors.address(buffer); });
  }
  void compare(const Work& work, const std::function<void(int)>& program, const std::string& source, const GangSettings& settings, int runs,
               double tolerance) {
    std::vector<std::vector<float>> state = tensors.all();
    for (int run = 0; run < runs; ++run) {
      run_tasks(work, settings.repeats);
      const std::vector<std::vector<float>> expected = tensors.all();
      tensors.restore(state);
      program(run);
      const std::vector<std::vector<float>> given = tensors.all();
      for (std::size_t i = 0; i < given.size(); ++i)
        for (std::size_t j = 0; j < given[i].size() && !is_input(i); ++j) {
          const float a = given[i][j];
          const float b = expected[i][j];
          if (std::isnan(a) && std::isnan(b)) continue;
          ASSERT_TRUE(a == b || std::fabs(a - b) <= tolerance * (1 + std::fabs(b)))
              << "tensor " << i << ", element " << j << ": " << a << ", not " << b << "; run " << run << "\n"
              << source;
        }
      // The next run begins with what this one has left, a little apart.
      for (std::vector<float>& values : state = given)
        for (float& value : values) value = std::isfinite(value) ? std::clamp(value, -4.0F, 4.0F) : 0.5F;
      tensors.restore(state);
    }
  }

  std::vector<Slices> slices_;

 protected:
  RandomTensors tensors{11};
};
DWELL_ON_EVERY_DEVICE(GangProgramsTest);

TEST_P(GangProgramsTest, AChainOfElementwiseOperations) {
  const TensorView x = tensor({1000});
  const TensorView y = tensor({1000});
  const TensorView z = tensor({10, 100});
  check([&](Batch& batch) {
    batch.assign(y, ops::tanh(x) * 2.0 + y);
    batch.assign(z, Expression(y.reshape({10, 100})) - x.reshape({10, 100}));
    batch.assign(z.transpose(0, 1), ops::exp(z.transpose(0, 1)));
  });
}

TEST_P(GangProgramsTest, AMultilayerPerceptron) {
  const TensorView x = tensor({1, 64});
  const TensorView w1 = tensor({256, 64}, 0.2F);
  const TensorView w2 = tensor({256, 256}, 0.1F);
  const TensorView w3 = tensor({8, 256}, 0.1F);
  const TensorView b1 = tensor({256});
  const TensorView b2 = tensor({256});
  const TensorView b3 = tensor({8});
  const TensorView h1 = tensor({1, 256});
  const TensorView h2 = tensor({1, 256});
  const TensorView y = tensor({1, 8});
  const Work work = [&](Batch& batch) {
    batch.addmm(h1, b1, x, w1.transpose(0, 1));
    batch.assign(h1, ops::tanh(h1));
    batch.addmm(h2, b2, h1, w2.transpose(0, 1));
    batch.assign(h2, ops::tanh(h2));
    batch.addmm(y, b3, h2, w3.transpose(0, 1));
  };
  for (const std::uint32_t members : {0U, 1U, 2U, 7U, 32U, 64U}) check(work, {.members = members});
}

TEST_P(GangProgramsTest, ACellThatPassesItsStateOn) {
  constexpr std::int64_t kHidden = 128;
  const TensorView w = tensor({4 * kHidden, 64}, 0.2F);
  const TensorView u = tensor({4 * kHidden, kHidden}, 0.1F);
  const TensorView x = tensor({5, 64});
  const TensorView h = tensor({1, kHidden});
  const TensorView c = tensor({1, kHidden});
  const TensorView a = tensor({1, 4 * kHidden});
  const TensorView b = tensor({1, 4 * kHidden});
  const Work work = [&](Batch& batch) {
    for (std::int64_t step = 0; step < 5; ++step) {
      batch.mm(a, x.slice(0, step, 1), w.transpose(0, 1));
      batch.mm(b, h, u.transpose(0, 1));
      const auto gate = [&](std::int64_t i) { return Expression(a.slice(1, i * kHidden, kHidden)) + b.slice(1, i * kHidden, kHidden); };
      batch.assign(c, ops::sigmoid(gate(1)) * c + ops::sigmoid(gate(0)) * ops::tanh(gate(2)));
      batch.assign(h, ops::sigmoid(gate(3)) * ops::tanh(c));
    }
  };
  for (const std::uint32_t members : {0U, 1U, 16U, 48U}) check(work, {.members = members}, 20);
}

TEST_P(GangProgramsTest, SmallMatricesAndReductions) {
  const TensorView a = tensor({8, 8});
  const TensorView b = tensor({8, 8});
  const TensorView c = tensor({8, 8});
  const TensorView trace = tensor({1});
  const TensorView soft = tensor({8, 128});
  const TensorView norm = tensor({8, 128});
  const TensorView weight = tensor({128});
  const TensorView bias = tensor({128});
  const TensorView batches = tensor({4, 8, 16});
  const TensorView products = tensor({4, 8, 8});
  check([&](Batch& batch) {
    batch.mm(c, a, b.transpose(0, 1));
    batch.addmm(a, c, c, b, 0.5, -0.25);
    batch.sum(trace, TensorView(a.address(), ElementType::f32, {8}, {9}));
    batch.assign(c, Expression(c) / (ops::abs(Expression(trace)) + 1.0));
    batch.softmax(soft, norm, 1);
    batch.log_softmax(norm, soft, 0);
    batch.layer_norm(norm, soft, {128}, weight, bias);
    batch.rms_norm(soft, norm, {128}, weight);
    batch.amax(trace, soft.slice(0, 1, 1), {1});
    batch.mean(bias, soft, {0});
    batch.bmm(products, batches, batches.transpose(1, 2));
    batch.logsumexp(weight.slice(0, 0, 32), products.reshape({32, 8}), {1});
    batch.var(weight.slice(0, 40, 8), norm, {1}, 1);
    batch.var(weight.slice(0, 50, 20), norm.slice(1, 3, 20), {0}, 0);
    batch.norm(weight.slice(0, 80, 7), soft.slice(0, 1, 7), 2, {1});
  });
}

// Weights that are too large for each member, which a step reads and replaces.
TEST_P(GangProgramsTest, AStepOfTraining) {
  const TensorView x = tensor({1, 64});
  const TensorView target = tensor({1, 8});
  const TensorView w1 = tensor({256, 64}, 0.2F);
  const TensorView w2 = tensor({256, 256}, 0.1F);
  const TensorView w3 = tensor({8, 256}, 0.1F);
  const TensorView h1 = tensor({1, 256});
  const TensorView h2 = tensor({1, 256});
  const TensorView y = tensor({1, 8});
  const TensorView g1 = tensor({1, 256});
  const TensorView g2 = tensor({1, 256});
  const TensorView d1 = tensor({256, 64});
  const TensorView d2 = tensor({256, 256});
  const TensorView d3 = tensor({8, 256});
  const Work work = [&](Batch& batch) {
    for (int step = 0; step < 2; ++step) {
      batch.mm(h1, x, w1.transpose(0, 1));
      batch.assign(h1, ops::relu(h1));
      batch.mm(h2, h1, w2.transpose(0, 1));
      batch.assign(h2, ops::relu(h2));
      batch.mm(y, h2, w3.transpose(0, 1));
      batch.assign(y, (Expression(y) - target) * 0.25);
      batch.mm(d3, y.transpose(0, 1), h2);
      batch.mm(g2, y, w3);
      batch.assign(g2, Expression(g2) * Expression::of(TensorOp::gt, h2, Number(0)));
      batch.mm(d2, g2.transpose(0, 1), h1);
      batch.mm(g1, g2, w2);
      batch.assign(g1, Expression(g1) * Expression::of(TensorOp::gt, h1, Number(0)));
      batch.mm(d1, g1.transpose(0, 1), x);
      batch.assign(w3, Expression(w3) - Expression(d3) * 0.05);
      batch.assign(w2, Expression(w2) - Expression(d2) * 0.05);
      batch.assign(w1, Expression(w1) - Expression(d1) * 0.05);
    }
  };
  for (const std::uint32_t members : {0U, 8U, 100U}) check(work, {.members = members}, 4);
  check(work, {.members = 16, .repeats = 3}, 2);
}

TEST_P(GangProgramsTest, ALargeBatchOfRows) {
  const TensorView x = tensor({64, 256});
  const TensorView y = tensor({64, 256});
  const TensorView w = tensor({256, 256}, 0.1F);
  const TensorView b = tensor({256});
  const TensorView norm = tensor({64, 256});
  const Work step = [&](Batch& batch) {
    batch.addmm(y, b, x, w.transpose(0, 1));
    batch.layer_norm(norm, y, {256}, b, b);
    batch.softmax(y, norm, 1);
    batch.assign(x, ops::tanh(y) + norm);
    batch.sum(b, x, {0});
    batch.assign(b, ops::tanh(b));
  };
  const Work work = [&](Batch& batch) {
    for (int i = 0; i < 3; ++i) step(batch);
  };
  for (const std::uint32_t members : {0U, 5U, 64U}) check(work, {.members = members});
  check(step, {.members = 9, .repeats = 2}, 2);
  check(step, {.members = 3, .repeats = 2}, 1);
}

TEST_P(GangProgramsTest, ResultsWhereOperandsLie) {
  const TensorView x = tensor({16, 16});
  const TensorView w = tensor({16, 16}, 0.2F);
  check([&](Batch& batch) {
    batch.mm(x, x, w);
    batch.assign(x, Expression(x.transpose(0, 1)) + w);
  });
}

// Sizes that no vector divides, and all orders of the elements.
TEST_P(GangProgramsTest, ProductsOfAllLayouts) {
  const std::int64_t shapes[][3] = {{1, 64, 33},  {1, 7, 8},  {8, 8, 8},    {3, 5, 7}, {5, 9, 2},
                                    {33, 1, 100}, {12, 1, 3}, {17, 13, 40}, {2, 70, 1}};
  // Each shape is compiled, which takes long under sanitizers.
  for (const auto& shape : std::span(shapes).first(kSanitized ? 2 : std::size(shapes))) {
    const std::int64_t m = shape[0];
    const std::int64_t n = shape[1];
    const std::int64_t k = shape[2];
    const TensorView a = tensor({2, m, k});
    const TensorView a_turned = tensor({2, k, m});
    const TensorView b = tensor({2, k, n});
    const TensorView b_turned = tensor({2, n, k});
    const TensorView row = tensor({n});
    const TensorView sums = tensor({m, n});
    std::vector<TensorView> results;
    for (int i = 0; i < 8; ++i) results.push_back(i % 2 == 0 ? tensor({2, m, n}) : tensor({2, n, m}).transpose(1, 2));
    check(
        [&](Batch& batch) {
          for (std::size_t i = 0; i < results.size(); ++i)
            batch.bmm(results[i], i < 4 ? a : a_turned.transpose(1, 2), i % 4 < 2 ? b : b_turned.transpose(1, 2));
          const TensorView left = a.slice(0, 1, 1).reshape({m, k});
          const TensorView right = b_turned.slice(0, 1, 1).reshape({n, k}).transpose(0, 1);
          batch.addmm(sums, row, left, right, -0.5, 2);
          batch.addmm(sums, sums, left, right);
        },
        {.members = 1}, 2);
    if (HasFatalFailure()) return;
  }
}

TEST_P(GangProgramsTest, OtherTypes) {
  const TensorView x = tensor({300});
  const Buffer<double> doubles = runtime().allocate<double>(300);
  const Buffer<std::int32_t> integers = runtime().allocate<std::int32_t>(300);
  const Buffer<bool> conditions = runtime().allocate<bool>(300);
  check([&](Batch& batch) {
    batch.assign(doubles, Expression(x) * 3.0);
    batch.assign(integers, Expression(doubles) * 2.0);
    batch.assign(conditions, Expression::of(TensorOp::gt, integers, Number(1)));
    batch.assign(x, Expression::of(TensorOp::where, x, Expression(integers).as(ElementType::f32), conditions));
  });
}

TEST_P(GangProgramsTest, EveryBitPatternPassesAnExchange) {
  const TensorView x = tensor({1, 64});
  const TensorView w = tensor({256, 64});
  const TensorView y = tensor({1, 256});
  const TensorView z = tensor({1, 256});
  const float special[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf(""), -0.0F,
                           std::numeric_limits<float>::denorm_min()};
  for (const float value : special) {
    Buffer<float> scale = runtime().allocate<float>(1);
    scale.write(std::vector<float>{value});
    check(
        [&](Batch& batch) {
          batch.assign(x, Expression(x) * scale);
          batch.mm(y, x, w.transpose(0, 1));
          batch.assign(z, y);
        },
        {.members = 32}, 2);
  }
}

TEST_P(GangProgramsTest, ResultsThatNobodyReadsAreNotStored) {
  const TensorView x = tensor({64});
  const TensorView between = tensor({64});
  const TensorView y = tensor({64});
  const std::vector<std::vector<float>> before = tensors.all();
  OperationList list;
  Batch batch(runtime());
  batch.note_in(list);
  batch.assign(between, Expression(x) + 1.0);
  batch.softmax(between, between, 0);
  batch.assign(y, Expression(between) * 2.0);
  batch.flush().wait();
  const std::vector<std::vector<float>> expected = tensors.all();
  tensors.restore(before);
  const GangProgram program(runtime(), list, [&](const TensorView::Extent& memory) { return memory.first != between.address(); });
  program.launch().wait();
  const std::vector<std::vector<float>> given = tensors.all();
  EXPECT_EQ(given[1], before[1]);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(given[2][i], expected[2][i], 1e-6F);
}

// The state passes from run to run: c by the members that own it, h as a whole.
TEST_P(GangProgramsTest, ACellRepeats) {
  constexpr std::int64_t kHidden = 64;
  const TensorView x = tensor({1, 32});
  const TensorView w = tensor({4 * kHidden, 32}, 0.2F);
  const TensorView u = tensor({4 * kHidden, kHidden}, 0.2F);
  const TensorView h = tensor({1, kHidden});
  const TensorView c = tensor({1, kHidden});
  const TensorView a = tensor({1, 4 * kHidden});
  const TensorView b = tensor({1, 4 * kHidden});
  const TensorView y = tensor({1, 32});
  const Work work = [&](Batch& batch) {
    batch.mm(a, x, w.transpose(0, 1));
    batch.mm(b, h, u.transpose(0, 1));
    const auto gate = [&](std::int64_t i) { return Expression(a.slice(1, i * kHidden, kHidden)) + b.slice(1, i * kHidden, kHidden); };
    batch.assign(c, ops::sigmoid(gate(1)) * c + ops::sigmoid(gate(0)) * ops::tanh(gate(2)));
    batch.assign(h, ops::sigmoid(gate(3)) * ops::tanh(c));
    batch.assign(y, ops::tanh(y) * 0.5 + h.slice(1, 8, 32));
    batch.assign(x, Expression(x) * 0.9 + Expression(y) * 0.1);
  };
  for (const std::uint32_t members : {0U, 1U, 16U, 48U}) check(work, {.members = members, .repeats = 20}, 4);
  check(work, {.members = 16, .repeats = 2});
  check(work, {.members = 4, .repeats = 3}, 2);
}

// A step that needs all elements of a state keeps members from beginning with their own.
TEST_P(GangProgramsTest, AStateThatAllMembersReadRepeats) {
  const TensorView h = tensor({1, 256});
  const TensorView w = tensor({256, 256}, 0.1F);
  const TensorView z = tensor({1, 256});
  const TensorView total = tensor({1, 1});
  check(
      [&](Batch& batch) {
        batch.sum(total, z, {});
        batch.mm(h, h, w);
        batch.assign(z, ops::tanh(h) + Expression(z) * 0.5);
        batch.assign(h, Expression(z) + total);
      },
      {.members = 32, .repeats = 6});
}

TEST_P(GangProgramsTest, SmallMatricesRepeat) {
  const TensorView p = tensor({8, 8}, 0.3F);
  const TensorView f = tensor({8, 8}, 0.3F);
  const TensorView between = tensor({8, 8});
  const TensorView trace = tensor({1});
  for (const std::uint32_t members : {0U, 4U})
    check(
        [&](Batch& batch) {
          batch.mm(between, f, p);
          batch.addmm(p, p, between, f.transpose(0, 1), 0.5, 0.5);
          batch.sum(trace, TensorView(p.address(), ElementType::f32, {8}, {9}));
          batch.assign(p.slice(0, 2, 3), Expression(p.slice(0, 2, 3)) / (ops::abs(Expression(trace)) + 1.0));
        },
        {.members = members, .repeats = 7});
}

// Inputs that do not fit a member's memory for all runs are read where they lie.
TEST_P(GangProgramsTest, InputsBeyondAMembersMemoryRepeat) {
  std::vector<TensorView> inputs;
  for (int i = 0; i < 12; ++i) inputs.push_back(tensor({8192}));
  const TensorView sum = tensor({8192});
  check(
      [&](Batch& batch) {
        for (const TensorView& input : inputs) batch.assign(sum, Expression(sum) * 0.75 + input);
      },
      {.members = 1, .repeats = 3});
}

// A sequence through a recurrent cell: inputs and outputs of each step are slices.
TEST_P(GangProgramsTest, EachRunHasItsSlices) {
  constexpr std::int64_t kHidden = 64;
  constexpr std::int64_t kSteps = 9;
  const TensorView xs = tensor({kSteps, 2, 33});
  const TensorView pairs = tensor({kSteps, 3});
  const TensorView hs = tensor({kSteps, kHidden});
  const TensorView states = tensor({kSteps, 8});
  const TensorView x = tensor({2, 33});
  const TensorView pair = tensor({3});
  const TensorView w = tensor({kHidden, 33}, 0.2F);
  const TensorView u = tensor({kHidden, kHidden}, 0.2F);
  const TensorView h = tensor({1, kHidden});
  const TensorView c = tensor({1, kHidden});
  const TensorView a = tensor({1, kHidden});
  input(x, xs);
  input(pair, pairs);
  output(h, hs);
  output(c.slice(1, 5, 8), states);
  const Work work = [&](Batch& batch) {
    batch.mm(a, x.slice(0, 1, 1), w.transpose(0, 1));
    batch.mm(h, h, u.transpose(0, 1));
    batch.assign(c, ops::tanh(Expression(a) + h) * pair.slice(0, 0, 1) + c);
    batch.assign(h, ops::tanh(Expression(c) + pair.slice(0, 2, 1)));
  };
  for (const std::uint32_t members : {0U, 1U, 16U}) check(work, {.members = members, .repeats = kSteps});
  check(work, {.members = 8, .repeats = 1}, 1);
  check(work, {.members = 2, .repeats = kSteps}, 2);
}

TEST_P(GangProgramsTest, SlicesThatDoNotFitAreRefused) {
  const TensorView x = tensor({2, 8});
  const TensorView y = tensor({8});
  const TensorView other = tensor({2, 8});
  OperationList list;
  Batch batch(runtime());
  batch.note_in(list);
  batch.assign(y, Expression(x.slice(0, 0, 1).reshape({8})) + 1.0);
  batch.flush().wait();
  const auto refused = [&](const std::string& words, const GangSlices& slices) {
    expect_error(errc::invalid_argument, HasSubstr(words),
                 [&] { const GangProgram program(runtime(), list, needed, {.repeats = 2, .slices = {slices}}); });
  };
  refused("multiples of 4", {.memory = x.slice(0, 0, 1).extent(), .first = other.address(), .stride = 30});
  refused("memory of the whole tensor", {.memory = x.slice(0, 0, 1).extent(), .first = x.address(), .stride = 32});
  refused("memory around the slice", {.memory = x.slice(1, 0, 2).slice(0, 0, 1).extent(), .first = other.address(), .stride = 32});
  refused("no operation writes",
          {.memory = other.slice(0, 0, 1).extent(), .first = other.slice(0, 1, 1).address(), .stride = 0, .output = true});
}

TEST_P(GangProgramsTest, AProgramWithoutRunsIsRefused) {
  const TensorView x = tensor({8});
  OperationList list;
  Batch batch(runtime());
  batch.note_in(list);
  batch.assign(x, Expression(x) + 1.0);
  batch.flush().wait();
  expect_error(errc::invalid_argument, HasSubstr("GangSettings::repeats"),
               [&] { const GangProgram program(runtime(), list, needed, {.repeats = 0}); });
}

TEST_P(GangProgramsTest, OnlyACpuRunsAProgramInTheCallersThread) {
  const TensorView x = tensor({8});
  OperationList list;
  Batch batch(runtime());
  batch.note_in(list);
  batch.assign(x, Expression(x) * 0.0 + 3.0);
  batch.flush().wait();
  const GangProgram program(runtime(), list, needed);
  tensors.restore({std::vector<float>(8, 1)});
  if (!on_cpu()) return expect_error(errc::unsupported, HasSubstr("launch it"), [&] { program.run(); });
  program.run();
  EXPECT_EQ(tensors.all().front(), std::vector<float>(8, 3));
  expect_error(errc::unsupported, HasSubstr("launch it"), [&] { program.enqueue(nullptr); });
  runtime().close();
  EXPECT_THROW(program.run(), Error) << "its code is gone with the runtime";
}

TEST_P(GangProgramsTest, OperationsWithoutAFormAreRefusedByName) {
  const TensorView x = tensor({8, 8});
  const TensorView y = tensor({8, 8});
  const Buffer<std::int64_t> index = runtime().allocate<std::int64_t>(8);
  OperationList list;
  Batch batch(runtime());
  batch.note_in(list);
  batch.index_select(y, x, 0, index);
  batch.flush().wait();
  expect_error(errc::unsupported, HasSubstr("elements that an index chooses"), [&] { const GangProgram program(runtime(), list, needed); });
}

// Random programs on few tensors, which are views of each other's memory, read and replaced in turn.
TEST_P(GangProgramsTest, RandomPrograms) {
  const int programs = on_cpu() ? 6 : 12;
  for (int program = 0; program < programs; ++program) {
    std::vector<TensorView> matrices;
    std::vector<TensorView> vectors;
    for (int i = 0; i < 6; ++i) matrices.push_back(tensor({16, 16}));
    for (int i = 0; i < 6; ++i) vectors.push_back(tensor({1, 256}));
    const TensorView weights = tensor({256, 256}, 0.1F);
    std::vector<Work> steps;
    const auto one_of = [&](const std::vector<TensorView>& of) {
      return of[static_cast<std::size_t>(below(static_cast<std::int64_t>(of.size())))];
    };
    const std::int64_t operations = 20 + below(60);
    for (std::int64_t i = 0; i < operations; ++i) {
      const TensorView a = one_of(matrices);
      const TensorView b = below(2) == 0 ? one_of(matrices) : one_of(matrices).transpose(0, 1);
      const TensorView to = one_of(matrices);
      const TensorView u = one_of(vectors);
      const TensorView v = one_of(vectors);
      const TensorView w = one_of(vectors);
      if (to.address() == a.address() || to.address() == b.address() || u.address() == v.address() || u.address() == w.address()) continue;
      switch (below(9)) {
        case 0:
          steps.emplace_back([=](Batch& batch) {
            batch.mm(to, a, b);
            batch.assign(to, ops::tanh(to));
          });
          break;
        case 1: steps.emplace_back([=](Batch& batch) { batch.addmm(to, a, a, b, 0.5, 0.1); }); break;
        case 2: steps.emplace_back([=](Batch& batch) { batch.assign(to, ops::sin(a) + Expression(b) * 0.5); }); break;
        case 3: steps.emplace_back([=](Batch& batch) { batch.softmax(to, a, 1); }); break;
        case 4: steps.emplace_back([=](Batch& batch) { batch.mm(u, v, weights.transpose(0, 1)); }); break;
        case 5:
          steps.emplace_back([=](Batch& batch) {
            batch.addmm(u, w, v, weights, 0.25, 0.25);
            batch.assign(u, ops::tanh(u));
          });
          break;
        case 6: steps.emplace_back([=](Batch& batch) { batch.assign(u, ops::maximum(v, w) * 0.9); }); break;
        case 7: steps.emplace_back([=](Batch& batch) { batch.assign(u.reshape({16, 16}), ops::cos(a) * v.reshape({16, 16})); }); break;
        default:
          steps.emplace_back([=](Batch& batch) { batch.assign(to.slice(0, 2, 5), ops::tanh(a.slice(1, 3, 5).transpose(0, 1))); });
          break;
      }
    }
    if (steps.empty()) continue;
    const auto members = static_cast<std::uint32_t>(below(3) == 0 ? 0 : 1 + below(64));
    check(
        [&](Batch& batch) {
          for (const Work& step : steps) step(batch);
        },
        {.members = members}, 3, 2e-3);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace dwell::test
