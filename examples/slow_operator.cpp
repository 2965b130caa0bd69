// Which operator of a pipeline takes the time: metrics with times tell. It is replaced by a better version while the pipeline goes on, and
// metrics tell what that has brought.
//
//   slow_operator [SECONDS [TRACE [WORKERS]]]
//
// Works for so many seconds before the replacement and behind it, so that `dwell top` can look at it; writes a timeline of the replacement.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include <dwell/dwell.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using Levels = std::vector<unsigned>;

constexpr unsigned kSamples = 1024;  // of a frame
constexpr unsigned kFrames = 64;     // at once
constexpr unsigned kWindow = 256;

constexpr const char* kCalibrate = R"(
  DWELL_OPERATOR(calibrate)(dwell::Group g, dwell::Span<const unsigned> raw, dwell::Span<unsigned> to, unsigned gain) {
    for (auto i : g.range(raw.size())) to[i] = raw[i] * gain;
  })";

// Of each sample and the `window` - 1 before it, which it adds up anew for each.
constexpr const char* kSmooth = R"(
  DWELL_OPERATOR(smooth)(dwell::Group g, dwell::Span<const unsigned> from, dwell::Span<unsigned> to, unsigned window) {
    for (auto i : g.range(from.size())) {
      unsigned sum = 0;
      for (unsigned k = i + 1 < window ? 0 : i + 1 - window; k <= i; ++k) sum += from[k];
      to[i] = sum / window;
    }
  })";

// The same by running sums: two reads a sample, whatever the window.
constexpr const char* kSmoothByScan = R"(
  DWELL_OPERATOR(smooth)(dwell::Group g, dwell::Span<const unsigned> from, dwell::Span<unsigned> to, unsigned window) {
    const auto sums = g.shared<unsigned>(from.size());
    g.inclusive_scan(sums, from, 0U, [](unsigned a, unsigned b) { return a + b; });
    g.sync();
    for (auto i : g.range(from.size())) to[i] = (sums[i] - (i < window ? 0 : sums[i - window])) / window;
  })";

constexpr const char* kPeak = R"(
  DWELL_OPERATOR(peak)(dwell::Group g, dwell::Span<const unsigned> from, dwell::Span<unsigned> levels) {
    const unsigned most = g.reduce(from, 0U, [](unsigned a, unsigned b) { return a < b ? b : a; });
    if (g.rank() == 0) levels[0] = most;
  })";

constexpr const char* kMean = R"(
  DWELL_OPERATOR(mean)(dwell::Group g, dwell::Span<const unsigned> from, dwell::Span<unsigned> levels) {
    const unsigned all = g.reduce(from, 0U, [](unsigned a, unsigned b) { return a + b; });
    if (g.rank() == 0) levels[1] = all / from.size();
  })";

unsigned sample(unsigned frame, unsigned i) { return (i * 37 + frame * 101) % 256; }

// What the pipeline must find in a frame.
Levels expected_levels(unsigned frame) {
  unsigned sum = 0;
  unsigned most = 0;
  unsigned all = 0;
  for (unsigned i = 0; i < kSamples; ++i) {
    sum += 3 * sample(frame, i);
    if (i >= kWindow) sum -= 3 * sample(frame, i - kWindow);
    most = std::max(most, sum / kWindow);
    all += sum / kWindow;
  }
  return {most, all / kSamples};
}

class Pipeline {
 public:
  explicit Pipeline(dwell::Runtime& runtime)
      : smooth(runtime.define<Filter>("smooth", kSmooth)),
        runtime_(runtime),
        calibrate_(runtime.define<Filter>("calibrate", kCalibrate)),
        peak_(runtime.define<Look>("peak", kPeak)),
        mean_(runtime.define<Look>("mean", kMean)),
        raw_(runtime.allocate<unsigned>(kFrames * kSamples)),
        calibrated_(runtime.allocate<unsigned>(kFrames * kSamples)),
        smoothed_(runtime.allocate<unsigned>(kFrames * kSamples)),
        levels_(runtime.allocate<unsigned>(kFrames * 2)) {
    std::vector<unsigned> samples;
    for (unsigned frame = 0; frame < kFrames; ++frame) {
      for (unsigned i = 0; i < kSamples; ++i) samples.push_back(sample(frame, i));
      const Levels levels = expected_levels(frame);
      expected_.insert(expected_.end(), levels.begin(), levels.end());
    }
    raw_.write(samples);
  }

  // Sends all frames through it, each a chain of tasks, and says whether the levels are right.
  bool run() {
    levels_.write(Levels(expected_.size(), 0));
    for (unsigned frame = 0; frame < kFrames; ++frame) {
      const auto of = [&](const dwell::Buffer<unsigned>& frames) { return frames.slice(std::size_t{frame} * kSamples, kSamples); };
      const auto levels = levels_.slice(std::size_t{frame} * 2, 2);
      runtime_.submit(calibrate_, of(raw_), of(calibrated_), 3U);
      runtime_.submit(smooth, of(calibrated_), of(smoothed_), kWindow, dwell::link);
      runtime_.submit(peak_, of(smoothed_), levels, dwell::link);
      runtime_.submit(mean_, of(smoothed_), levels, dwell::link);
    }
    Levels found(expected_.size());
    levels_.read(found);  // waits for the tasks that name the buffer
    return found == expected_;
  }

  using Filter = void(dwell::Span<const unsigned>, dwell::Span<unsigned>, unsigned);
  using Look = void(dwell::Span<const unsigned>, dwell::Span<unsigned>);
  dwell::Operator<Filter> smooth;

 private:
  dwell::Runtime& runtime_;
  dwell::Operator<Filter> calibrate_;
  dwell::Operator<Look> peak_;
  dwell::Operator<Look> mean_;
  dwell::Buffer<unsigned> raw_;
  dwell::Buffer<unsigned> calibrated_;
  dwell::Buffer<unsigned> smoothed_;
  dwell::Buffer<unsigned> levels_;
  Levels expected_;
};

// Prints the operators that have worked, those first that took most of the time; returns the first.
dwell::OperatorMetrics show(const char* when, const dwell::Metrics& did) {
  std::vector<dwell::OperatorMetrics> operators;
  double all_ns = 0;
  for (const dwell::OperatorMetrics& one : did.operators) {
    if (one.timed != 0) operators.push_back(one);
    all_ns += static_cast<double>(one.total_ns);
  }
  std::sort(operators.begin(), operators.end(), [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  std::printf("%-12s version   tasks    share       p50       p99\n", when);
  for (const dwell::OperatorMetrics& one : operators)
    std::printf("%-12s %7u %7llu %6.1f %% %6.2f us %6.2f us\n", one.name.c_str(), one.version, static_cast<unsigned long long>(one.tasks),
                100 * static_cast<double>(one.total_ns) / all_ns, one.times.quantile(0.5) / 1000, one.times.quantile(0.99) / 1000);
  std::puts("");
  std::fflush(stdout);
  return operators.empty() ? dwell::OperatorMetrics() : operators.front();
}

double number(const char* name, const char* text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end != text && *end == 0 && value >= 0 && value < 1e6) return value;
  std::fprintf(stderr, "slow_operator: %s is '%s', and must be a number from 0 to 999999\n", name, text);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace std::chrono_literals;
  const std::chrono::duration<double> seconds(argc > 1 ? number("SECONDS", argv[1]) : 0);
  dwell::Options options;
  options.metrics = dwell::Metering::times;
  if (argc > 3) options.workers = static_cast<unsigned>(number("WORKERS", argv[3]));
  dwell::Runtime runtime(options);
  Pipeline pipeline(runtime);

  bool right = true;
  const auto work = [&] {
    const dwell::Metrics before = runtime.metrics();
    const auto begun = Clock::now();
    for (int i = 0; i < 10 || Clock::now() - begun < seconds; ++i) right = pipeline.run() && right;
    return difference(runtime.metrics(), before);
  };
  const dwell::OperatorMetrics slow = show("before", work());

  if (argc > 2) runtime.start_trace(dwell::trace_file(argv[2]));
  const std::shared_future<void> replaced = pipeline.smooth.redefine_async(kSmoothByScan);
  do right = pipeline.run() && right;
  while (replaced.wait_for(0s) != std::future_status::ready);
  replaced.get();
  right = pipeline.run() && right;
  runtime.stop_trace();

  const dwell::Metrics after = work();
  show("after", after);
  if (!right) {
    std::puts("slow_operator: levels of a frame are wrong");
    return 1;
  }
  for (const dwell::OperatorMetrics& one : after.operators) {
    if (one.name != slow.name || one.timed == 0) continue;
    const double gain = slow.times.quantile(0.5) / one.times.quantile(0.5);
    std::printf("slow operator: %s; its version %u takes 1/%.1f of the time\n", one.name.c_str(), one.version, gain);
    return one.name == "smooth" && one.version == 2 && gain > 1.5 ? 0 : 1;
  }
  return 1;
}
