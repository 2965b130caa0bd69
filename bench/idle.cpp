#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/cuda_peer.hpp"
#include "bench/nvml.hpp"
#include "bench/operators.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

// Returns options without one-time background work, which would disturb the measurement.
dwell::Options resting(const Context& context) {
  dwell::Options options = context.options();
  options.tier = Tier::relocatable;
  return options;
}

// Returns the processor time of all threads of this process.
double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Returns the processor time while this thread sleeps, in per cent of one processor.
double processor_share(std::chrono::milliseconds time) {
  const double used = processor_seconds();
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(time);
  return (processor_seconds() - used) / (nanoseconds_since(start) / 1e9) * 100;
}

// Samples of the device over some time.
struct Watched {
  std::vector<double> watts;
  std::vector<double> utilisation;  // per cent
};

// Samples for `time`, after waiting `fade` for the effects of earlier load.
void watch(const Nvml& device, std::chrono::milliseconds fade, std::chrono::milliseconds time, Watched* to) {
  std::this_thread::sleep_for(fade);
  for (const Clock::time_point end = Clock::now() + time; Clock::now() < end;) {
    if (const auto watts = device.watts()) to->watts.push_back(*watts);
    if (const auto share = device.utilisation()) to->utilisation.push_back(*share);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

void watch_device(const Context& context, Report& report) {
  std::string why;
  const auto peer = open_cuda_peer(context.ordinal, &why);
  const auto device = peer ? Nvml::open(peer->bus()) : std::nullopt;
  if (!device || !device->watts()) {
    report.note("power is not measured: " + (peer ? "NVML cannot be opened, or does not tell" : why));
    return;
  }
  const std::chrono::milliseconds fade = context.pick(std::chrono::milliseconds(1500), std::chrono::milliseconds(200));
  const std::chrono::milliseconds time = context.pick(std::chrono::milliseconds(2500), std::chrono::milliseconds(300));
  Watched nothing;
  Watched parked;
  Watched polling;
  // Measure in turn: a card that has just worked draws more power for a while. The context stays open throughout.
  peer->warm_up();
  for (int round = 0; round < context.pick(3, 1); ++round) {
    watch(*device, fade, time, &nothing);
    Runtime runtime(resting(context));
    runtime.submit(runtime.define<void()>("empty", kEmpty)).wait();
    watch(*device, fade, time, &parked);
  }
  {
    // Measure what parking saves: a loop that stays and polls.
    dwell::Options options = resting(context);
    options.idle = std::chrono::minutes(1);
    Runtime runtime(std::move(options));
    runtime.submit(runtime.define<void()>("empty", kEmpty)).wait();
    watch(*device, fade, time, &polling);
  }
  const auto add = [&](const char* by, bool ours, const Watched& watched) {
    report.add({"power", by, ours, "W", spread_of(watched.watts)});
    report.add({"utilisation", by, ours, "%", spread_of(watched.utilisation)});
  };
  add("dwell, parked", true, parked);
  add("nothing running, context open", false, nothing);
  add("dwell, Options::idle of a minute: polling", true, polling);

  const double least = mean(nothing.watts);
  // Count as equal: within the variation of the idle device, or within 2 %.
  const Spread spread = spread_of(nothing.watts);
  const double slack = std::max(spread.most - spread.least, least * 0.02);
  report.add(Goal{"power parked, above nothing running (means)", "W", mean(parked.watts) - least, slack, slack});
  report.add(Goal{"utilisation parked, above nothing running (means)", "%", mean(parked.utilisation) - mean(nothing.utilisation), 1, 1});
}

void run(const Context& context, Report& report) {
  const std::chrono::milliseconds time = context.pick(std::chrono::milliseconds(2000), std::chrono::milliseconds(500));
  if (context.cuda) watch_device(context, report);
  Runtime runtime(resting(context));
  const auto count = runtime.define<void(Span<unsigned>, unsigned)>("count", kCount);
  Buffer<unsigned> cells = runtime.allocate<unsigned>(1);
  cells.write(std::vector<unsigned>{0});
  for (int i = 0; i < 1000; ++i) runtime.submit(count, cells, 0U).wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::uint64_t leases = runtime.metrics().leases;
  const double share = processor_share(time);
  report.add({"processor time of this process, of one core", "dwell, idle", true, "%", one(share)});
  report.add(Goal{"processor time of an idle runtime, of one core", "%", share, 1, 1});
  const std::uint64_t started = runtime.metrics().leases - leases;
  report.check(std::to_string(started) + " leases were started while idle", started == 0);
  runtime.submit(count, cells, 0U).wait();
  std::vector<unsigned> counted(1);
  cells.read(counted);
  report.check(text_of_count(counted[0]) + " tasks ran before and after, of 1,001", counted[0] == 1001);
}

const Registration kRegistration{{170, "idle", "what a runtime costs that has nothing to do", 90, run}};

}  // namespace

}  // namespace dwell::bench
