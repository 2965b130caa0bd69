#include <algorithm>
#include <atomic>
#include <thread>

#include "bench/benchmarks.hpp"
#include "bench/cpu_pool.hpp"
#include "bench/cuda_peer.hpp"
#include "bench/operators.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr const char* kToIdle = "park called to device idle";
constexpr const char* kResumed = "parked by park(): resume called to first result";
constexpr const char* kWoken = "parked because idle: submitted to first result";

// Long enough for a runtime with default options to park, and for a peer's thread to sleep.
constexpr std::chrono::milliseconds kRest{4};

void run(const Context& context, Report& report) {
  const auto times = context.pick<std::size_t>(500, 30);
  Spread to_idle;
  Spread woken;
  {
    Runtime runtime(context.options());
    const auto count = runtime.define<void(Span<unsigned>, unsigned)>("count", kCount);
    Buffer<unsigned> cells = runtime.allocate<unsigned>(1);
    cells.write(std::vector<unsigned>{0});
    std::size_t tasks = 0;
    const auto submit = [&] {
      ++tasks;
      return runtime.submit(count, cells, 0U);
    };
    std::vector<double> idle_times;
    std::vector<double> resume_times;
    std::size_t early = 0;
    Random random;
    for (std::size_t i = 0; i < times; ++i) {
      submit().wait();  // starts the loop
      spin_for(std::chrono::microseconds(5 + random.below(20)));
      Clock::time_point start = Clock::now();
      runtime.park();
      idle_times.push_back(nanoseconds_since(start));
      const Ticket ticket = submit();
      early += ticket.done() ? 1U : 0U;
      start = Clock::now();
      runtime.resume();
      ticket.wait();
      resume_times.push_back(nanoseconds_since(start));
    }
    std::vector<double> wake_times;
    const std::uint64_t parks = runtime.metrics().parks;
    for (std::size_t i = 0; i < times; ++i) {
      std::this_thread::sleep_for(kRest);
      const Clock::time_point start = Clock::now();
      submit().wait();
      wake_times.push_back(nanoseconds_since(start));
    }
    const std::size_t awake = times - std::min<std::size_t>(times, runtime.metrics().parks - parks);
    to_idle = spread_of(idle_times);
    woken = spread_of(wake_times);
    report.add({kToIdle, "dwell", true, "ns", to_idle});
    report.add({kResumed, "dwell", true, "ns", spread_of(resume_times)});
    report.add({kWoken, "dwell", true, "ns", woken});
    std::vector<unsigned> counted(1);
    cells.read(counted);
    report.check(text_of_count(counted[0]) + " tasks ran, of " + text_of_count(tasks), counted[0] == tasks);
    report.check_none("tasks ran while parked", early);
    report.check_none("tasks that found the loop awake", awake);
  }
  if (context.cuda) {
    std::string why;
    if (const auto peer = open_cuda_peer(context.ordinal, &why)) {
      std::vector<double> rested;
      for (std::size_t i = 0; i < times; ++i) {
        std::this_thread::sleep_for(kRest);
        const Clock::time_point start = Clock::now();
        peer->launch_and_synchronise();
        rested.push_back(nanoseconds_since(start));
      }
      report.add({kWoken, "launch + synchronise, after the same rest", false, "ns", spread_of(rested)});
      report.add({kWoken, "launch + synchronise, one after the other", false, "ns",
                  spread_of(time_at_random(times, [&](std::size_t) { peer->launch_and_synchronise(); }))});
    } else {
      report.note("no CUDA peers: " + why);
    }
    report.add(Goal{"park called to device idle, p50", "ns", to_idle.p50, 10e3, 15e3});
    report.add(Goal{"parked because idle to first result, p50", "ns", woken.p50, 20e3, 30e3});
  } else {
    CpuPool pool(context.info.workers);
    std::size_t ran = 0;
    std::vector<double> rested;
    for (std::size_t i = 0; i < times; ++i) {
      std::this_thread::sleep_for(kRest);
      const Clock::time_point start = Clock::now();
      pool.run([&] { ++ran; });
      pool.wait();
      rested.push_back(nanoseconds_since(start));
    }
    report.add({kWoken, "thread pool, condition variables", false, "ns", spread_of(rested)});
    report.check(text_of_count(ran) + " tasks of the thread pool ran, of " + text_of_count(times), ran == times);
  }
}

const Registration kRegistration{{130, "park", "the loop taken off the device, and brought back by work", 60, run}};

}  // namespace

}  // namespace dwell::bench
