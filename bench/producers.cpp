#include <atomic>
#include <exception>
#include <thread>

#include "bench/benchmarks.hpp"
#include "bench/operators.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr std::size_t kThreads = 4;

// Calls body(thread) on `threads` threads that start together, then wait(). Returns the time from the start to the end. Rethrows the first
// exception of a thread.
template <class Body, class Wait>
double time_threads(std::size_t threads, Body body, Wait wait) {
  std::atomic<std::size_t> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::exception_ptr> problems(threads);
  std::vector<std::thread> list;
  for (std::size_t i = 0; i < threads; ++i) {
    list.emplace_back([&, i] {
      ready.fetch_add(1);
      while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
      try {
        body(i);
      } catch (...) {
        problems[i] = std::current_exception();
      }
    });
  }
  while (ready.load() != threads) std::this_thread::yield();
  const Clock::time_point start = Clock::now();
  go.store(true, std::memory_order_release);
  for (std::thread& thread : list) thread.join();
  wait();
  const double time = nanoseconds_since(start);
  for (const std::exception_ptr& problem : problems)
    if (problem) std::rethrow_exception(problem);
  return time;
}

void run(const Context& context, Report& report) {
  const std::size_t count = context.pick<std::size_t>(1'000'000, 20'000) / kThreads * kThreads;
  Runtime runtime(context.options());
  const auto empty = runtime.define<void()>("empty", kEmpty);
  const auto add = runtime.define<void(Span<const float>, Span<const float>, Span<float>)>("add", kAdd);
  Adds adds(runtime, add, std::size_t{1} << (context.cuda ? 21U : 15U));
  std::uint64_t expected = runtime.metrics().submitted;
  std::size_t wrong = 0;

  // Alternate, so that changes of the machine affect both.
  const auto compare = [&](const std::string& what, bool has_sums, auto body) {
    std::vector<double> alone;
    std::vector<double> together;
    for (int repeat = 0; repeat < context.pick(8, 4); ++repeat) {
      for (const std::size_t threads : {std::size_t{1}, kThreads}) {
        const std::size_t share = count / threads;
        const auto submit = [&](std::size_t thread) { body(thread * share, share); };
        const double time = time_threads(threads, submit, [&] { runtime.wait_all(); });
        expected += count;
        if (repeat != 0) (threads == 1 ? alone : together).push_back(time / static_cast<double>(count));
      }
    }
    const auto row = [&](const char* by, std::vector<double> times) {
      const Spread spread = spread_of(std::move(times));
      report.add({what, by, true, "ns", spread, has_sums ? std::optional(Adds::kBytes / spread.p50) : std::nullopt});
      return spread.p50;
    };
    const double one_thread = row("dwell, 1 thread", std::move(alone));
    const double four_threads = row("dwell, 4 threads", std::move(together));
    if (context.cuda) report.add(Goal{what + ": tasks a second, 4 threads against 1", "x", one_thread / four_threads, 0.9, 0.65, true});
    if (!has_sums) return;
    wrong += adds.wrong();
    adds.poison();
  };
  compare("adds, submit_many", true, [&](std::size_t from, std::size_t size) { adds.submit_many(from, size); });
  compare("adds, submit", true, [&](std::size_t from, std::size_t size) { adds.submit(from, size); });
  compare("empty tasks, submit_many", false,
          [&](std::size_t, std::size_t size) { runtime.submit_many(empty, size, [](std::size_t, auto&& put) { put(); }); });
  compare("empty tasks, submit", false, [&](std::size_t, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) runtime.submit(empty);
  });

  report.check_none("wrong sums", wrong);
  const std::uint64_t submitted = runtime.metrics().submitted;
  report.check(text_of_count(submitted) + " tasks submitted and complete, of " + text_of_count(expected), submitted == expected);
}

const Registration kRegistration{{80, "producers", "the same from four host threads at once", 60, run}};

}  // namespace

}  // namespace dwell::bench
