#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iostream>
#include <mutex>
#include <thread>

#include "bench/benchmarks.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

// Each cell belongs to one task, which adds its version's stamp. 0: the task was lost; not a single stamp: it ran twice.
constexpr std::array<std::uint32_t, 2> kStamps{1, 16};

constexpr std::size_t kOperators = 32;  // in the image; versions count once

std::string source_of(std::size_t version) {
  return R"(
#include <dwell/device.hpp>
DWELL_OPERATOR(stamp)(dwell::Group g, dwell::Span<unsigned> cells, unsigned index) {
  if (g.rank() == 0) cells[index] += )" +
         std::to_string(kStamps[version % 2]) + R"(;
}
)";
}

using Stamp = Operator<void(Span<unsigned>, unsigned)>;

// The versions that tasks from cell `first` on may run: from the last for which redefine had returned before their submission, to the last
// for which it had been called after it.
struct Demand {
  std::size_t first;
  std::size_t least;
  std::size_t most;
};

struct Round {
  Buffer<unsigned> cells;
  std::vector<Demand> demands;
  Ticket last;
};

// Passes rounds from one thread to another.
class Rounds {
 public:
  void put(Round* round) {
    {
      const std::lock_guard lock(mutex_);
      list_.push_back(round);
    }
    changed_.notify_one();
  }
  // Returns null once closed and empty.
  Round* take(bool* waited = nullptr) {
    std::unique_lock lock(mutex_);
    if (waited != nullptr) *waited = list_.empty();
    changed_.wait(lock, [this] { return closed_ || !list_.empty(); });
    if (list_.empty()) return nullptr;
    Round* const round = list_.front();
    list_.pop_front();
    return round;
  }
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Round*> list_;
  bool closed_ = false;
};

struct Gap {
  Clock::time_point from;
  Clock::time_point to;
};

// Watches completions in its own thread: the producer passes it a ticket now and then, and it records long gaps without a completion.
class Monitor {
 public:
  Monitor() : thread_([this] { watch(); }) {}
  ~Monitor() {
    stop_.store(true, std::memory_order_release);
    thread_.join();
  }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Call from one thread. Skipped if the monitor is behind.
  void show(const Ticket& ticket) {
    const std::size_t put = put_.load(std::memory_order_relaxed);
    if (put - taken_.load(std::memory_order_acquire) == kPlaces) return;
    tickets_[put % kPlaces] = ticket;
    put_.store(put + 1, std::memory_order_release);
  }
  std::vector<Gap> gaps() {
    const std::lock_guard lock(mutex_);
    return gaps_;
  }

 private:
  static constexpr std::size_t kPlaces = 8192;
  static constexpr std::chrono::microseconds kShortest{5};

  void watch() {
    Clock::time_point last = Clock::now();
    std::uint32_t rounds = 0;
    while (!stop_.load(std::memory_order_acquire)) {
      const std::size_t taken = taken_.load(std::memory_order_relaxed);
      if (put_.load(std::memory_order_acquire) == taken || !tickets_[taken % kPlaces].done()) {
        relax();
        if (++rounds % 64 == 0) std::this_thread::yield();
        continue;
      }
      taken_.store(taken + 1, std::memory_order_release);
      const Clock::time_point now = Clock::now();
      if (now - last > kShortest) {
        const std::lock_guard lock(mutex_);
        gaps_.push_back({last, now});
      }
      last = now;
    }
  }

  std::vector<Ticket> tickets_ = std::vector<Ticket>(kPlaces);
  alignas(128) std::atomic<std::size_t> put_{0};
  alignas(128) std::atomic<std::size_t> taken_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<Gap> gaps_;
  std::thread thread_;
};

// Keeps the ring full and checks every task.
class Load {
 public:
  Load(Runtime& runtime, const Stamp& stamp, std::size_t cells) : runtime_(runtime), stamp_(stamp), zeros_(cells) {
    for (Round& round : all_) {
      round.cells = runtime.allocate<unsigned>(cells);
      round.cells.write(zeros_);
      clean_.put(&round);
    }
    producer_ = std::thread([this] { guard([this] { produce(); }); });
    judge_ = std::thread([this] { guard([this] { judge(); }); });
  }
  ~Load() { finish(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  // Call around each redefine, from one thread.
  void begin() { begun_.fetch_add(1); }
  void end() { returned_.fetch_add(1); }

  // Ends the load and waits until all tasks are checked.
  void finish() {
    stop_.store(true);
    clean_.close();
    if (producer_.joinable()) producer_.join();
    full_.close();
    if (judge_.joinable()) judge_.join();
  }
  void rethrow() const {
    if (problem_) std::rethrow_exception(problem_);
  }

  std::vector<Gap> gaps() { return monitor_.gaps(); }
  // Call after finish.
  std::size_t tasks() const { return tasks_; }
  std::size_t lost() const { return lost_; }
  std::size_t wrong() const { return wrong_; }
  std::size_t twice() const { return twice_; }
  std::size_t either() const { return either_; }
  std::size_t waits() const { return waits_; }

 private:
  static constexpr std::size_t kBatch = 64;
  static constexpr std::chrono::seconds kPatience{20};

  template <class Body>
  void guard(Body body) {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(problem_mutex_);
      problem_ = std::current_exception();
      stop_.store(true);
      clean_.close();
    }
  }

  void produce() {
    while (!stop_.load(std::memory_order_relaxed)) {
      bool waited = false;
      Round* const round = clean_.take(&waited);
      if (round == nullptr) return;
      waits_ += waited ? 1U : 0U;
      round->demands.clear();
      for (std::size_t at = 0; at < zeros_.size(); at += kBatch) {
        const std::size_t least = returned_.load();
        round->last =
            runtime_.submit_many(stamp_, kBatch, [&](std::size_t i, auto&& put) { put(round->cells, static_cast<unsigned>(at + i)); });
        const std::size_t most = begun_.load();
        if (round->demands.empty() || round->demands.back().least != least || round->demands.back().most != most)
          round->demands.push_back({at, least, most});
        monitor_.show(round->last);
      }
      full_.put(round);
    }
  }

  void judge() {
    std::vector<unsigned> cells(zeros_.size());
    while (Round* const round = full_.take()) {
      wait_for(round->last);
      round->cells.read(cells);
      judge(cells, round->demands);
      round->cells.write(zeros_);
      tasks_ += cells.size();
      clean_.put(round);
    }
  }

  // Wait before reading the buffer: the read would poll the queue, and slow down the producer.
  static void wait_for(const Ticket& ticket) {
    const Clock::time_point end = Clock::now() + kPatience;
    while (!ticket.done()) {
      if (Clock::now() > end) {
        // The producer may wait for this task too, and so would closing the runtime.
        std::cerr << "dwell: error: swap: the task at position " << ticket.position() << " is not complete after " << kPatience.count()
                  << " s: it is lost, or one before it\n";
        _exit(1);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  void judge(const std::vector<unsigned>& cells, const std::vector<Demand>& demands) {
    for (std::size_t i = 0; i < demands.size(); ++i) {
      const std::size_t end = i + 1 < demands.size() ? demands[i + 1].first : cells.size();
      std::size_t version = demands[i].least;
      for (std::size_t at = demands[i].first; at < end; ++at) {
        const unsigned cell = cells[at];
        if (cell == kStamps[version % 2]) continue;
        if (cell == 0) {
          ++lost_;
        } else if (cell != kStamps[0] && cell != kStamps[1]) {
          ++twice_;
        } else if (version < demands[i].most) {
          // Ring places are assigned in this order, so the version only increases.
          ++version;
          ++either_;
        } else {
          ++wrong_;
        }
      }
    }
  }

  Runtime& runtime_;
  Stamp stamp_;
  const std::vector<unsigned> zeros_;
  std::array<Round, 4> all_;
  Rounds clean_;
  Rounds full_;
  Monitor monitor_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> begun_{0};
  std::atomic<std::size_t> returned_{0};
  std::mutex problem_mutex_;
  std::exception_ptr problem_;
  std::size_t waits_ = 0;  // for a clean round: the ring ran empty
  std::size_t tasks_ = 0;
  std::size_t lost_ = 0;
  std::size_t wrong_ = 0;
  std::size_t twice_ = 0;
  std::size_t either_ = 0;  // changes of version seen in tasks submitted during redefine
  std::thread producer_;
  std::thread judge_;
};

// Returns the longest gap that overlaps [from, to], in nanoseconds.
double longest(const std::vector<Gap>& gaps, Clock::time_point from, Clock::time_point to) {
  double most = 0;
  for (const Gap& gap : gaps)
    if (gap.to >= from && gap.from <= to) most = std::max(most, nanoseconds(gap.to - gap.from));
  return most;
}

// Measures the first task that needs parts which the loop lacks, under full load: they come with the next image.
void first_uses(const Context& context, Report& report) {
  if (!context.cuda) return;  // on a CPU the loop has all parts
  const auto runs = context.pick<std::size_t>(10, 2);
  std::vector<double> pauses;
  std::vector<double> times;
  std::size_t wrong = 0;
  for (std::size_t run = 0; run <= runs; ++run) {
    Runtime runtime(context.options());
    const Stamp stamp = runtime.define<void(Span<unsigned>, unsigned)>("stamp", source_of(0));
    Buffer<unsigned> mine = runtime.allocate<unsigned>(1);
    mine.write(std::vector<unsigned>(1));
    Load load(runtime, stamp, context.pick<std::size_t>(1U << 22U, 1U << 20U));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // by then the loop with these parts is compiled
    const Clock::time_point start = Clock::now();
    const Ticket first = runtime.submit(stamp, mine, 0U, link);
    const Clock::time_point end = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::vector<Gap> gaps = load.gaps();
    load.finish();
    load.rethrow();
    first.wait();
    std::vector<unsigned> cell(1);
    mine.read(cell);
    wrong += load.lost() + load.twice() + load.wrong() + (cell[0] != kStamps[0] ? 1 : 0);
    if (run == 0) continue;  // its images were not in the cache
    pauses.push_back(longest(gaps, start, end));
    times.push_back(nanoseconds(end - start));
  }
  const Spread pause = spread_of(pauses);
  report.add({"longest time without a completion", "dwell, around a part's first use", true, "ns", pause});
  report.add({"first use of a part called to returned", "dwell", true, "ns", spread_of(times)});
  report.add(Goal{"longest time without a completion around a part's first use, p50", "ns", pause.p50, 60e3, 200e3});
  report.check_none("tasks lost, twice or wrong beside a first use", wrong);
}

void run(const Context& context, Report& report) {
  const auto swaps = context.pick<std::size_t>(100, 10);
  Runtime runtime(context.options());
  for (std::size_t i = 1; i < kOperators; ++i) {
    const std::string name = "other" + std::to_string(i);
    runtime.define(name, "#include <dwell/device.hpp>\nDWELL_OPERATOR(" + name +
                             ")(dwell::Group g, dwell::Span<float> x, float a) {\n  for (auto i : g.range(x.size())) x[i] = x[i] * a + " +
                             std::to_string(i) + ";\n}\n");
  }
  Stamp stamp = runtime.define<void(Span<unsigned>, unsigned)>("stamp", source_of(0));
  // Fill the cache with both operators, and with the images that contain both.
  for (const std::size_t version : {1U, 0U, 1U, 0U}) stamp.redefine(source_of(version));

  std::vector<Gap> calls;
  std::vector<double> told;
  std::vector<double> times;
  Load load(runtime, stamp,
            context.cuda ? context.pick<std::size_t>(1U << 22U, 1U << 20U) : context.pick<std::size_t>(1U << 18U, 1U << 16U));
  Random random;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (std::size_t i = 1; i <= swaps; ++i) {
    const std::string source = source_of(i);
    load.begin();
    const Clock::time_point start = Clock::now();
    stamp.redefine(source);
    const Clock::time_point end = Clock::now();
    load.end();
    calls.push_back({start, end});
    times.push_back(nanoseconds(end - start));
    told.push_back(static_cast<double>(runtime.metrics().last_hand_over_ns));
    std::this_thread::sleep_for(std::chrono::microseconds(5'000 + random.below(10'000)));
  }
  const std::vector<Gap> gaps = load.gaps();
  load.finish();
  load.rethrow();
  runtime.wait_all();

  // Count only gaps that began before redefine returned: the end of a lease right after it is no part of the swap.
  std::vector<double> pauses;
  for (const Gap& call : calls) pauses.push_back(longest(gaps, call.from, call.to));
  std::vector<double> between;
  for (std::size_t i = 0; i + 1 < calls.size(); ++i)
    between.push_back(longest(gaps, calls[i].to + std::chrono::milliseconds(2), calls[i + 1].from - std::chrono::milliseconds(2)));

  const Spread pause = spread_of(pauses);
  report.add({"longest time without a completion", "dwell, around a swap", true, "ns", pause});
  const Spread undisturbed = spread_of(between);
  report.add({"longest time without a completion", "dwell, between swaps", true, "ns", undisturbed});
  report.add({"pause as the runtime tells it", "dwell", true, "ns", spread_of(told)});
  report.add({"redefine called to returned", "dwell", true, "ns", spread_of(times)});
  if (context.cuda) {
    report.add(Goal{"longest time without a completion around a swap, p50", "ns", pause.p50, 50e3, 500e3});
    report.add(Goal{"longest time without a completion around a swap, p99", "ns", pause.p99, 300e3, 1.9e6});
    report.add(Goal{"longest time without a completion between swaps, p50", "ns", undisturbed.p50, 30e3, 190e3});
  }
  report.check(
      text_of_count(load.tasks()) + " tasks beside " + std::to_string(swaps) + " swaps, " + std::to_string(stamp.versions()) + " versions",
      load.tasks() > 0 && stamp.versions() == swaps + 5);
  report.check_none("tasks lost", load.lost());
  report.check_none("tasks that ran twice", load.twice());
  report.check_none("tasks that ran a version that their ticket did not demand", load.wrong());
  report.note(std::to_string(load.either()) + " swaps were seen to take effect among tasks submitted while redefine ran");
  first_uses(context, report);
  if (load.waits() != 0)
    report.note("the ring ran empty " + std::to_string(load.waits()) + " times, because results were not judged fast enough");
}

const Registration kRegistration{{110, "swap", "an operator redefined again and again under full load, from cache", 60, run}};

}  // namespace

}  // namespace dwell::bench
