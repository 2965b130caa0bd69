#include <array>
#include <chrono>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/gang_program.hpp>
#include <dwell/step.hpp>

#include "bench/benchmarks.hpp"
#include "bench/cuda_peer.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr const char* kStep = "control step, 32 numbers to an MLP 32-128-128-8 to 8 numbers";
constexpr const char* kRare = "the same 1,000 times a second";
constexpr std::array<std::size_t, 4> kUnits{32, 128, 128, 8};
constexpr std::size_t kLayers = kUnits.size() - 1;

// A network of tanh layers, the last one linear, on the host.
class Network {
 public:
  Network() {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      const float scale = 1 / std::sqrt(static_cast<float>(kUnits[layer]));
      weights_[layer].resize(kUnits[layer] * kUnits[layer + 1]);
      for (float& weight : weights_[layer]) weight = scale * uniform(random);
    }
  }
  std::span<const float> weights(std::size_t layer) const { return weights_[layer]; }
  void run(std::span<const float> x, std::span<float> y) {
    std::vector<float>* from = &values_[0];
    from->assign(x.begin(), x.end());
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      std::vector<float>& to = values_[layer + 1];
      to.resize(kUnits[layer + 1]);
      for (std::size_t i = 0; i < to.size(); ++i) {
        const float* const row = weights_[layer].data() + i * kUnits[layer];
        float sum = 0;
        for (std::size_t j = 0; j < kUnits[layer]; ++j) sum += row[j] * (*from)[j];
        to[i] = layer + 1 < kLayers ? std::tanh(sum) : sum;
      }
      from = &to;
    }
    std::ranges::copy(*from, y.begin());
  }

 private:
  std::array<std::vector<float>, kLayers> weights_;
  std::array<std::vector<float>, kLayers + 1> values_;
};

// The same as recorded operations. `memory`: of the numbers that come and go.
class Recorded {
 public:
  Recorded(Runtime& runtime, const Network& network, Memory memory)
      : x(runtime.allocate<float>(kUnits.front(), memory)), y(runtime.allocate<float>(kUnits.back(), memory)) {
    const auto view = [&](Buffer<float>& buffer, std::int64_t rows, std::int64_t columns) {
      return TensorView(reinterpret_cast<std::uint64_t>(buffer.data()), ElementType::f32, {rows, columns});
    };
    Batch batch(runtime);
    batch.note_in(operations);
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      weights_.push_back(runtime.allocate<float>(network.weights(layer).size()));
      weights_.back().write(network.weights(layer));
      const bool last = layer + 1 == kLayers;
      if (!last) values_.push_back(runtime.allocate<float>(kUnits[layer + 1]));
      const auto in = static_cast<std::int64_t>(kUnits[layer]);
      const auto out = static_cast<std::int64_t>(kUnits[layer + 1]);
      const TensorView from = view(layer == 0 ? x : values_[last ? layer - 1 : values_.size() - 2], 1, in);
      const TensorView to = view(last ? y : values_.back(), 1, out);
      batch.mm(to, from, view(weights_.back(), out, in).transpose(0, 1));
      if (!last) batch.assign(to, ops::tanh(to));
    }
    batch.flush().wait();
  }
  static TensorView::Extent memory_of(const Buffer<float>& buffer) {
    const auto first = reinterpret_cast<std::uint64_t>(buffer.data());
    return {first, first + buffer.size() * sizeof(float)};
  }
  bool is_result(const TensorView::Extent& memory) const { return memory_of(y).overlaps(memory); }

  Buffer<float> x;
  Buffer<float> y;
  OperationList operations;

 private:
  std::vector<Buffer<float>> weights_;
  std::vector<Buffer<float>> values_;
};

// Calls with other numbers each time, whose results are checked.
class Calls {
 public:
  explicit Calls(Network& network) : network_(network) {}
  template <class Run>
  void once(Run run) {
    for (float& value : x_) value = value < 1 ? value + 0.125F : -1;
    run(std::span<const float>(x_), std::span(y_));
  }
  void check() {
    std::array<float, kUnits.back()> expected{};
    network_.run(x_, expected);
    for (std::size_t i = 0; i < expected.size(); ++i) wrong_ += std::abs(y_[i] - expected[i]) < 1e-4F ? 0U : 1U;
  }
  std::size_t wrong() const { return wrong_; }

 private:
  Network& network_;
  std::array<float, kUnits.front()> x_{};
  std::array<float, kUnits.back()> y_{};
  std::size_t wrong_ = 0;
};

template <class Run>
Spread time_calls(Calls& calls, std::size_t count, Run run) {
  return spread_of(time_at_random(
      count, [&](std::size_t) { calls.once(run); }, [&](std::size_t) { calls.check(); }));
}

void run(const Context& context, Report& report) {
  const auto count = context.pick<std::size_t>(20'000, 500);
  Network network;
  Calls calls(network);
  Runtime runtime(context.options());
  Spread ours;
  {
    Recorded recorded(runtime, network, Memory::device);
    Step step(runtime, recorded.operations, {},
              {.inputs = {Recorded::memory_of(recorded.x)}, .outputs = {Recorded::memory_of(recorded.y)}});
    const auto call = [&](std::span<const float> x, std::span<float> y) { step(x, y); };
    calls.once(call);
    ours = time_calls(calls, count, call);
    report.add({kStep, "dwell, step", true, "ns", ours});
    const std::size_t seconds = context.pick<std::size_t>(2, 1);
    std::vector<double> rare;
    Clock::time_point next = Clock::now();
    for (std::size_t i = 0; i < seconds * context.pick<std::size_t>(1000, 20); ++i) {
      std::this_thread::sleep_until(next += std::chrono::milliseconds(1));
      const Clock::time_point start = Clock::now();
      calls.once(call);
      rare.push_back(nanoseconds_since(start));
      calls.check();
    }
    report.add({kRare, "dwell, step", true, "ns", spread_of(rare)});
    report.note("the step is a gang of " + std::to_string(step.members()) + ", launched " + std::to_string(step.launches()) + " times");
  }
  {
    Recorded recorded(runtime, network, Memory::host);
    const GangProgram program(runtime, recorded.operations, [&](const TensorView::Extent& memory) { return recorded.is_result(memory); });
    report.add({kStep, "dwell, a program in a stream, numbers in host memory", true, "ns",
                time_calls(calls, count / 4, [&](std::span<const float> x, std::span<float> y) {
                  std::ranges::copy(x, recorded.x.host().begin());
                  program.launch().wait();
                  std::ranges::copy(recorded.y.host(), y.begin());
                })});
  }
  report.check_none("wrong results", calls.wrong());
  if (!context.cuda) {
    report.add({kStep, "loops of C++, one thread", false, "ns",
                time_calls(calls, count, [&](std::span<const float> x, std::span<float> y) { network.run(x, y); })});
    return;
  }
  report.add(Goal{"control step, host to host, p50", "ns", ours.p50, 5500, 8000});
  report.add(Goal{"control step, host to host, p99", "ns", ours.p99, 8000, 14000});
  std::string why;
  const auto peer = open_cuda_peer(context.ordinal, &why);
  if (!peer) return report.note("no CUDA peers: " + why);
  report.add({kStep, "launch + synchronise of an empty kernel", false, "ns",
              spread_of(time_at_random(count, [&](std::size_t) { peer->launch_and_synchronise(); }))});
  const auto flag = peer->ping_pong();
  report.add(
      {kStep, "bare flag, host to device to host", false, "ns", spread_of(time_at_random(count, [&](std::size_t) { flag->round(); }))});
}

const Registration kRegistration{{35, "control", "a control loop's network, numbers of the host in and out", 60, run}};

}  // namespace

}  // namespace dwell::bench
