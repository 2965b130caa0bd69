#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <iostream>
#include <mutex>
#include <thread>

#include "bench/benchmarks.hpp"
#include "bench/cuda_peer.hpp"
#include "bench/operators.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

// A call that takes longer counts as one that waits for the load to end.
constexpr std::chrono::seconds kPatience{5};

struct Outcome {
  std::vector<double> times;
  std::string problem;  // empty: it returned each time, with the right effect
};

// Submits adds until stopped, from its own thread.
class Load {
 public:
  explicit Load(Adds& adds) : adds_(adds), thread_([this] { produce(); }) {}
  ~Load() { stop(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  std::size_t tasks() const { return tasks_.load(std::memory_order_relaxed); }
  void stop() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
  }
  // Call after stop.
  void rethrow() const {
    if (problem_) std::rethrow_exception(problem_);
  }

 private:
  static constexpr std::size_t kBatch = 1024;

  void produce() {
    try {
      while (!stop_.load(std::memory_order_relaxed)) {
        const std::size_t from = tasks_.load(std::memory_order_relaxed);
        adds_.submit_many(from, kBatch);
        tasks_.store(from + kBatch, std::memory_order_relaxed);
      }
    } catch (...) {
      problem_ = std::current_exception();
    }
  }

  Adds& adds_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> tasks_{0};
  std::exception_ptr problem_;
  std::thread thread_;
};

// Makes every call `times` times from its own thread. Ends the process if a call does not return even after `give_way` has ended the load:
// its thread cannot be stopped otherwise.
std::vector<Outcome> make_calls(CudaPeer& peer, const std::vector<CudaCall>& calls, std::size_t times,
                                const std::function<void()>& give_way) {
  std::vector<Outcome> outcomes(calls.size());
  std::atomic<std::size_t> at{0};      // index of the call
  std::atomic<std::int64_t> since{0};  // its start; 0 between calls
  std::atomic<bool> over{false};
  std::atomic<bool> gave_way{false};
  const auto now = [] { return Clock::now().time_since_epoch().count(); };
  std::thread caller([&] {
    Random random;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      at.store(i);
      try {
        peer.enter();
        for (std::size_t repeat = 0; repeat < times && !gave_way.load(); ++repeat) {
          std::this_thread::sleep_for(std::chrono::microseconds(random.below(1'500)));
          since.store(now());
          calls[i].prepare();
          since.store(now());
          const Clock::time_point start = Clock::now();
          calls[i].call();
          const double time = nanoseconds_since(start);
          since.store(now());
          calls[i].undo();
          since.store(0);
          if (!gave_way.load()) outcomes[i].times.push_back(time);
        }
      } catch (const std::exception& problem) {
        since.store(0);
        outcomes[i].problem = problem.what();
      }
    }
    over.store(true);
  });
  while (!over.load()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::int64_t begun = since.load();
    if (begun == 0 || Clock::duration(now() - begun) < kPatience) continue;
    if (gave_way.load()) {
      std::cerr << "dwell: error: " << calls[at.load()].name << " does not return although nothing runs\n";
      _exit(1);
    }
    gave_way.store(true);
    outcomes[at.load()].problem = "it did not return within " + std::to_string(kPatience.count()) + " s, or what went before or after it";
    give_way();
    since.store(now());
  }
  caller.join();
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (outcomes[i].times.empty() && outcomes[i].problem.empty()) outcomes[i].problem = "not tried: a call before it did not return";
  return outcomes;
}

void run(const Context& context, Report& report) {
  if (!context.cuda) {
    report.note("skipped: this is about CUDA devices");
    return;
  }
  std::string why;
  const auto peer = open_cuda_peer(context.ordinal, &why);
  if (!peer) {
    report.note("skipped: " + why);
    return;
  }
  const auto times = context.pick<std::size_t>(30, 5);
  const std::vector<CudaCall> calls = peer->calls();
  const std::vector<Outcome> alone = make_calls(*peer, calls, times, [] {});

  Runtime runtime(context.options());
  const auto add = runtime.define<void(Span<const float>, Span<const float>, Span<float>)>("add", kAdd);
  Adds adds(runtime, add, std::size_t{1} << 21U);
  Load load(adds);
  const auto rate_over = [&](auto body) {
    const std::size_t tasks = load.tasks();
    const Clock::time_point start = Clock::now();
    body();
    return static_cast<double>(load.tasks() - tasks) / nanoseconds_since(start) * 1e9;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double quiet = rate_over([] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
  std::vector<Outcome> beside;
  const double disturbed = rate_over([&] { beside = make_calls(*peer, calls, times, [&] { load.stop(); }); });
  load.stop();
  load.rethrow();
  runtime.wait_all();

  // A fifth more than the default lease on CUDA. The acceptable value is halfway from there to back-to-back leases.
  constexpr double kBound = 1.2e6;
  constexpr double kLeast = 1.57e6;
  double longest = 0;
  for (const Outcome& outcome : beside) longest = std::max(longest, spread_of(outcome.times).most);
  report.add(Goal{"longest of all calls", "ns", longest, kBound, kLeast});
  std::size_t returned = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string name = calls[i].name + (calls[i].waits ? " *" : "");
    const Spread spread = spread_of(beside[i].times);
    report.add({name, "beside full load", true, "ns", spread});
    report.add({name, "alone", false, "ns", spread_of(alone[i].times)});
    report.add(Goal{calls[i].name + ", longest", "ns", spread.most, kBound, kLeast});
    if (!alone[i].problem.empty()) report.check(calls[i].name + " alone: " + alone[i].problem, false);
    if (!beside[i].problem.empty()) report.check(calls[i].name + " beside full load: " + beside[i].problem, false);
    returned += beside[i].problem.empty() && beside[i].times.size() == times ? 1U : 0U;
  }
  report.check(std::to_string(returned) + " calls returned each time and did their work, of " + std::to_string(calls.size()),
               returned == calls.size());
  report.check_none("wrong sums of the load", adds.wrong());
  report.note("* waits for all kernels on the device to end: beside a kernel without lease it never returns");
  report.note("the load did " + text_of(quiet / 1e6, "million tasks a second") + " without, and " + text_of(disturbed / 1e6, "million") +
              " beside the calls");
}

const Registration kRegistration{
    {140, "coexist", "CUDA calls of another thread that wait for the device, alone and beside full load", 120, run}};

}  // namespace

}  // namespace dwell::bench
