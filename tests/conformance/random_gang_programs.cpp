// Long random programs of a gang, compared with the batch's tasks, and with the same operations in float64 on the host.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/gang_program.hpp>

#include "tensor/gang/noted.hpp"
#include "tensor/gang/plan.hpp"
#include "tests/conformance/emulated_gang.hpp"
#include "tests/conformance/gang_in_threads.hpp"
#include "tests/conformance/random_tensors.hpp"
#include "tests/conformance/tensor_test.hpp"
#include "tests/unit/sanitized.hpp"

namespace dwell::test {
namespace {

// The memory of a device's tensors as float64.
class HostMemory {
 public:
  void add(std::uint64_t address, std::span<const float> values) { parts_.push_back({address, {values.begin(), values.end()}}); }
  const std::vector<double>& part(std::size_t i) const { return parts_[i].values; }

  // A view's elements, the last dimension innermost.
  std::vector<double*> elements(const TensorView& view) {
    const auto part = std::ranges::find_if(parts_, [&](const Part& each) {
      return view.address() >= each.address && view.address() < each.address + each.values.size() * sizeof(float);
    });
    double* const first = part->values.data() + (view.address() - part->address) / sizeof(float);
    std::vector<double*> all;
    all.reserve(static_cast<std::size_t>(view.elements()));
    for (std::int64_t i = 0; i < view.elements(); ++i) {
      std::int64_t offset = 0;
      std::int64_t rest = i;
      for (std::size_t dim = view.dims(); dim-- != 0; rest /= view.shape()[dim]) offset += rest % view.shape()[dim] * view.strides()[dim];
      all.push_back(first + offset);
    }
    return all;
  }
  std::vector<double> values(const TensorView& view) {
    std::vector<double> all;
    for (const double* const element : elements(view)) all.push_back(*element);
    return all;
  }
  void store(const TensorView& to, const std::vector<double>& values) {
    const std::vector<double*> all = elements(to);
    for (std::size_t i = 0; i < all.size(); ++i) *all[i] = values[i];
  }

  void map(const TensorView& to, const TensorView& a, const TensorView& b, double (*f)(double, double)) {
    std::vector<double> x = values(a);
    const std::vector<double> y = values(b);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = f(x[i], y[i]);
    store(to, x);
  }
  // to = alpha a b + beta bias.
  void addmm(const TensorView& to, const TensorView& bias, const TensorView& a, const TensorView& b, double beta, double alpha) {
    const std::vector<double> x = values(a);
    const std::vector<double> y = values(b);
    std::vector<double> sums = values(bias.expand(to.shape()));
    const auto n = static_cast<std::size_t>(to.shape()[1]);
    const auto k = static_cast<std::size_t>(a.shape()[1]);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      double sum = 0;
      for (std::size_t d = 0; d < k; ++d) sum += x[i / n * k + d] * y[d * n + i % n];
      sums[i] = alpha * sum + beta * sums[i];
    }
    store(to, sums);
  }
  // Replaces each row.
  void rows(const TensorView& to, const TensorView& from, const std::function<void(std::span<double>)>& replace) {
    std::vector<double> all = values(from);
    const auto columns = static_cast<std::size_t>(from.shape()[from.dims() - 1]);
    for (std::size_t first = 0; first < all.size(); first += columns) replace(std::span(all).subspan(first, columns));
    store(to, all);
  }
  // Reduces each row to a number.
  void reduce(const TensorView& to, const TensorView& from, const std::function<double(std::span<const double>)>& number) {
    const std::vector<double> all = values(from);
    const auto columns = static_cast<std::size_t>(from.shape()[from.dims() - 1]);
    std::vector<double> numbers;
    for (std::size_t first = 0; first < all.size(); first += columns) numbers.push_back(number(std::span(all).subspan(first, columns)));
    store(to, numbers);
  }

 private:
  struct Part {
    std::uint64_t address;
    std::vector<double> values;
  };
  std::vector<Part> parts_;
};

double sum_of(std::span<const double> row) {
  double sum = 0;
  for (const double x : row) sum += x;
  return sum;
}

struct Settings {
  std::uint32_t seed = 0;
  int operations = 0;
  std::vector<std::uint32_t> members;
  bool large = true;     // with products that are too large for one member
  bool special = false;  // with infinities, NaN, denormals and -0
  bool apart = false;    // no operations fused, so that many share a form
  bool on_host = false;  // compared with float64 too
  bool emulated = false;
};

class RandomGangProgramsTest : public TensorTest {
 protected:
  struct Step {
    std::function<void(Batch&)> on_device;
    std::function<void(HostMemory&)> on_host;
  };

  TensorView tensor(const Dims& shape, float scale = 1) { return tensors_.make(runtime(), shape, scale); }
  std::int64_t below(std::int64_t n) { return tensors_.below(n); }
  TensorView one_of(const std::vector<TensorView>& of) { return of[static_cast<std::size_t>(below(static_cast<std::int64_t>(of.size())))]; }

  void make_tensors(const Settings& settings) {
    tensors_.restart(settings.seed);
    rows_.clear(), pairs_.clear(), matrices_.clear(), blocks_.clear(), states_.clear(), numbers_.clear();
    for (int i = 0; i < 5; ++i) rows_.push_back(tensor({1, 256}));
    for (int i = 0; i < 2; ++i) pairs_.push_back(tensor({2, 256}));
    for (int i = 0; i < 4; ++i) matrices_.push_back(tensor({16, 16}));
    for (int i = 0; i < 3; ++i) blocks_.push_back(tensor({8, 128}));
    for (int i = 0; i < 3; ++i) states_.push_back(tensor({64, 256}));  // more than a member has in its own memory
    for (int i = 0; i < 2; ++i) numbers_.push_back(tensor({64}));
    constexpr float kContracts = 0.05F;  // errors do not grow from step to step
    weights_ = {tensor({256, 256}, kContracts), tensor({256, 256}, kContracts)};
    bias_ = tensor({256});
    scale_ = tensor({128});
    if (!settings.special) return;
    const float values[] = {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::nanf("7"),
                            -0.0F,
                            std::numeric_limits<float>::denorm_min(),
                            -1e-40F};
    std::vector<std::vector<float>> state = tensors_.all();
    // In few tensors: a product takes a NaN to a whole row.
    for (const std::size_t of : {0U, 2U, 5U, 9U, 12U})
      for (const float value : values)
        if (std::isfinite(value) || below(3) == 0)
          state[of][static_cast<std::size_t>(below(static_cast<std::int64_t>(state[of].size())))] = value;
    tensors_.restore(state);
  }

  // A row of 256: of a vector, a pair, or one of the large tensors.
  TensorView row() {
    switch (below(6)) {
      case 0:
      case 1: return one_of(states_).slice(0, below(64), 1);
      case 2: return one_of(pairs_).slice(0, below(2), 1);
      default: return one_of(rows_);
    }
  }
  TensorView turned(const TensorView& view) { return below(2) == 0 ? view : view.transpose(0, 1); }

  Step map(const TensorView& to, const TensorView& a, const TensorView& b, int which) {
    switch (which) {
      case 0:
        return {[=](Batch& batch) { batch.assign(to, ops::sin(a) * 0.5 + Expression(b) * 0.5); },
                [=](HostMemory& host) { host.map(to, a, b, [](double x, double y) { return std::sin(x) * 0.5 + y * 0.5; }); }};
      case 1:
        return {[=](Batch& batch) { batch.assign(to, ops::tanh(Expression(a) - b)); },
                [=](HostMemory& host) { host.map(to, a, b, [](double x, double y) { return std::tanh(x - y); }); }};
      case 2:
        return {[=](Batch& batch) { batch.assign(to, ops::maximum(a, b) * 0.9); },
                [=](HostMemory& host) { host.map(to, a, b, [](double x, double y) { return std::max(x, y) * 0.9; }); }};
      default:
        return {[=](Batch& batch) { batch.assign(to, Expression(to) * 0.75 + (ops::relu(a) - ops::abs(b)) * 0.125); },
                [=](HostMemory& host) {
                  const std::vector<double> was = host.values(to);
                  const std::vector<double> x = host.values(a);
                  const std::vector<double> y = host.values(b);
                  std::vector<double> next;
                  for (std::size_t i = 0; i < was.size(); ++i)
                    next.push_back(was[i] * 0.75 + (std::max(x[i], 0.0) - std::abs(y[i])) * 0.125);
                  host.store(to, next);
                }};
    }
  }
  static Step product(const TensorView& to, const TensorView& bias, const TensorView& a, const TensorView& b, double beta, double alpha) {
    return {[=](Batch& batch) { batch.addmm(to, bias, a, b, beta, alpha); },
            [=](HostMemory& host) { host.addmm(to, bias, a, b, beta, alpha); }};
  }
  static Step softmax(const TensorView& to, const TensorView& from, std::size_t axis) {
    const TensorView to_rows = axis == 1 ? to : to.transpose(0, 1);
    const TensorView rows = axis == 1 ? from : from.transpose(0, 1);
    return {[=](Batch& batch) { batch.softmax(to, from, static_cast<std::int64_t>(axis)); },
            [=](HostMemory& host) {
              host.rows(to_rows, rows, [](std::span<double> row) {
                const double most = *std::ranges::max_element(row);
                for (double& x : row) x = std::exp(x - most);
                const double sum = sum_of(row);
                for (double& x : row) x /= sum;
              });
            }};
  }
  Step layer_norm(const TensorView& to, const TensorView& from) const {
    const TensorView scale = scale_;
    constexpr double kEpsilon = 1;  // else it makes errors larger where a row hardly varies
    return {[=](Batch& batch) { batch.layer_norm(to, from, {128}, scale, {}, kEpsilon); },
            [=](HostMemory& host) {
              const std::vector<double> factors = host.values(scale);
              host.rows(to, from, [&](std::span<double> row) {
                const double mean = sum_of(row) / static_cast<double>(row.size());
                double squares = 0;
                for (const double x : row) squares += (x - mean) * (x - mean);
                const double factor = 1 / std::sqrt(squares / static_cast<double>(row.size()) + kEpsilon);
                for (std::size_t i = 0; i < row.size(); ++i) row[i] = (row[i] - mean) * factor * factors[i];
              });
            }};
  }
  static Step reduction(const TensorView& to, const TensorView& from, int which) {
    switch (which) {
      case 0:
        return {[=](Batch& batch) { batch.mean(to, from, {1}); },
                [=](HostMemory& host) {
                  host.reduce(to, from, [](std::span<const double> row) { return sum_of(row) / static_cast<double>(row.size()); });
                }};
      case 1:
        return {
            [=](Batch& batch) { batch.amax(to, from, {1}); },
            [=](HostMemory& host) { host.reduce(to, from, [](std::span<const double> row) { return *std::ranges::max_element(row); }); }};
      default:
        return {[=](Batch& batch) { batch.logsumexp(to, from, {1}); },
                [=](HostMemory& host) {
                  host.reduce(to, from, [](std::span<const double> row) {
                    double sum = 0;
                    for (const double x : row) sum += std::exp(x);
                    return std::log(sum);
                  });
                }};
    }
  }

  Step step(bool large) {
    switch (below(13)) {
      case 0: return map(row(), row(), row(), static_cast<int>(below(4)));
      case 1: return map(one_of(rows_), one_of(rows_), one_of(rows_), static_cast<int>(below(4)));
      case 2: return map(one_of(matrices_), turned(one_of(matrices_)), one_of(rows_).reshape({16, 16}), static_cast<int>(below(3)));
      case 3: return map(one_of(blocks_), one_of(blocks_), one_of(states_).slice(0, 4, 8).slice(1, below(2) * 128, 128), 1);
      case 4: return map(one_of(states_), one_of(states_), one_of(states_), static_cast<int>(below(3)));
      case 5: return product(one_of(rows_), bias_, row(), turned(one_of(weights_)), 0.25, 1);
      case 6: {
        const TensorView to = one_of(rows_);
        return product(to, one_of(rows_), one_of(rows_), turned(one_of(weights_)), 0.5, 0.5);
      }
      case 7: return product(one_of(matrices_), one_of(matrices_), turned(one_of(matrices_)), one_of(matrices_), 0.25, 0.04);
      case 8: {
        // Some rows of a large tensor, by parts or by tiles.
        const std::int64_t count = large && below(3) == 0 ? 64 : 2;
        const std::int64_t first = count == 64 ? 0 : below(62);
        return product(one_of(states_).slice(0, first, count), bias_, one_of(states_).slice(0, 0, count), turned(one_of(weights_)), 0.25,
                       1);
      }
      case 9: return product(one_of(pairs_), bias_, one_of(pairs_), turned(one_of(weights_)), 0.25, 1);
      case 10: {
        if (below(2) == 0) return layer_norm(one_of(blocks_), one_of(blocks_));
        const std::size_t axis = static_cast<std::size_t>(below(2));
        return softmax(one_of(blocks_), one_of(blocks_), axis);
      }
      case 11: {
        if (below(2) == 0) return reduction(one_of(numbers_), one_of(states_), static_cast<int>(below(3)));
        return reduction(one_of(numbers_).slice(0, below(48), 16), turned(one_of(matrices_)), static_cast<int>(below(3)));
      }
      default: {
        const TensorView numbers = one_of(numbers_).slice(0, below(32), 16).reshape({16, 1}).expand({16, 16});
        return map(one_of(matrices_), one_of(matrices_), numbers, static_cast<int>(below(2)));
      }
    }
  }

  void check(const Settings& settings) {
    SCOPED_TRACE("seed " + std::to_string(settings.seed) + ", " + std::to_string(settings.operations) + " operations");
    make_tensors(settings);
    std::vector<Step> steps;
    for (int i = 0; i < settings.operations; ++i) steps.push_back(step(settings.large));
    const auto work = [&](Batch& batch) {
      for (const Step& step : steps) {
        step.on_device(batch);
        if (settings.apart) batch.flush();
      }
      batch.flush().wait();
    };
    const std::vector<std::vector<float>> start = tensors_.all();
    OperationList list;
    {
      Batch batch(runtime());
      batch.note_in(list);
      work(batch);
    }
    // The results of tasks, by run.
    std::vector<std::vector<std::vector<float>>> expected{tensors_.all()};
    constexpr std::size_t kRuns = 2;
    while (expected.size() < kRuns) {
      Batch batch(runtime());
      work(batch);
      expected.push_back(tensors_.all());
    }
    if (settings.on_host) {
      HostMemory host;
      for (std::size_t i = 0; i < start.size(); ++i) host.add(tensors_.address(i), start[i]);
      for (const Step& step : steps) step.on_host(host);
      for (std::size_t i = 0; i < start.size(); ++i) compare("tasks", i, expected.front()[i], host.part(i), 2e-4);
    }
    for (const std::uint32_t members : settings.members) {
      SCOPED_TRACE(std::to_string(members) + " members");
      tensors_.restore(start);
      const auto compare_runs = [&](const std::function<void()>& run) {
        for (std::size_t i = 0; i < kRuns && !HasFailure(); ++i) {
          run();
          const std::vector<std::vector<float>> given = tensors_.all();
          for (std::size_t k = 0; k < given.size(); ++k) compare("run " + std::to_string(i), k, given[k], expected[i][k], 5e-4);
        }
      };
      if (settings.emulated) {
        const tensor::gang::Plan plan = tensor::gang::plan_of(tensor::noted_in(list), needed, limits_of_gpu(members));
        ASSERT_EQ(plan.members, members);
        EmulatedGang gang(runtime(), plan, settings.seed);
        compare_runs([&] { gang.run(); });
      } else {
        const GangProgram program(runtime(), list, needed, {.members = members});
        EXPECT_LE(program.members(), members);
        compare_runs([&] { program.launch().wait(); });
        if (on_cpu()) return;  // it has always one member
      }
      if (HasFailure()) return;
    }
  }
  static bool needed(const TensorView::Extent&) { return true; }

  template <class T>
  static void compare(const std::string& what, std::size_t tensor, const std::vector<float>& given, const std::vector<T>& expected,
                      double tolerance) {
    for (std::size_t i = 0; i < given.size(); ++i) {
      const double a = given[i];
      const double b = static_cast<double>(expected[i]);
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= tolerance * (1 + std::fabs(b))) continue;
      ADD_FAILURE() << what << ": tensor " << tensor << ", element " << i << " is " << a << ", not " << b;
      return;
    }
  }

 private:
  RandomTensors tensors_{0};
  std::vector<TensorView> rows_, pairs_, matrices_, blocks_, states_, numbers_, weights_;
  TensorView bias_, scale_;
};
DWELL_ON_EVERY_DEVICE(RandomGangProgramsTest);

TEST_P(RandomGangProgramsTest, OfAHundredOperationsAsInFloat64) {
  for (std::uint32_t seed = 1; seed <= (kSanitized ? 1U : on_cpu() ? 2U : 4U); ++seed) {
    check({.seed = seed, .operations = 100, .members = {3, 8, 32}, .on_host = true});
    if (HasFailure()) return;
  }
}

TEST_P(RandomGangProgramsTest, OfOneMember) { check({.seed = 11, .operations = 100, .members = {1, 5}, .large = false, .on_host = true}); }

TEST_P(RandomGangProgramsTest, OfAThousandOperations) {
  check({.seed = 21, .operations = kSanitized ? 300U : 1000U, .members = {8, 32}, .apart = true});
}

TEST_P(RandomGangProgramsTest, OfAThousandOperationsAndAnyMembers) {
  if (on_cpu()) GTEST_SKIP() << "a program has one member on a CPU";
  check({.seed = 22, .operations = 1000, .members = {1, 3, 132}, .large = false, .apart = true});
}

TEST_P(RandomGangProgramsTest, OfFourHundredOperations) {
  if (on_cpu()) GTEST_SKIP() << "its compiler takes long";
  check({.seed = 23, .operations = 400, .members = {16, 64}});
}

TEST_P(RandomGangProgramsTest, OfSpecialNumbers) {
  for (std::uint32_t seed = 31; seed <= (on_cpu() ? 31U : 34U); ++seed) {
    check({.seed = seed, .operations = 40, .members = {3, 8, 32}, .special = true});
    if (HasFailure()) return;
  }
}

// Exchanges between members, without a GPU.
TEST_P(RandomGangProgramsTest, OfEmulatedMembers) {
  if (!on_cpu()) GTEST_SKIP() << "members of a GPU are emulated on a CPU";
  if (kSanitized) GTEST_SKIP() << "threads that take turns are no threads of the sanitizers'";
  for (const std::uint32_t members : {2U, 3U, 4U, 6U}) {
    check({.seed = 40 + members, .operations = 60, .members = {members}, .special = members == 3, .emulated = true});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace dwell::test
