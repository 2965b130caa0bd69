#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

struct Message {
  u32 producer;
  u32 number;
  u64 check;
  u32 more[12];
};
static_assert(sizeof(Message) == 64);

constexpr u64 check_of(u32 producer, u32 number) { return (u64{producer} << 32U | number) * 0x9E3779B97F4A7C15U; }

constexpr const char* kMessage = R"(
struct Message {
  dwell::u32 producer;
  dwell::u32 number;
  dwell::u64 check;
  dwell::u32 more[12];
};
DWELL_DEVICE dwell::u64 check_of(dwell::u32 producer, dwell::u32 number) {
  return (static_cast<dwell::u64>(producer) << 32 | number) * 0x9E3779B97F4A7C15u;
}
// Pushes `each` messages of each thread, and adds up what was pushed.
DWELL_DEVICE dwell::u64 produce(const dwell::Group& g, dwell::Ring<Message> ring, dwell::u32 producer, dwell::u32 each) {
  dwell::u64 sum = 0;
  for (dwell::u32 number = 0; !dwell::device::all_lanes(number >= each);) {
    const dwell::u64 check = check_of(producer, number);
    const Message message{producer, number, check, {producer, number, 2, 3, 4, 5, 6, 7, 8, 9, 10, static_cast<dwell::u32>(check)}};
    if (!ring.push_each(g, number < each, message)) continue;
    sum += check;
    ++number;
  }
  return sum;
}
)";

// A gang whose first groups are consumers. sums: what was pushed and taken, how many were taken, how many were wrong, how many groups are
// done.
constexpr const char* kExchange = R"(
DWELL_OPERATOR(exchange)(dwell::Group g, dwell::Ring<Message> ring, dwell::u32 consumers, dwell::u32 each, dwell::Span<dwell::u64> sums) {
  if (g.index() >= consumers) {
    const dwell::u64 sum = g.sum(produce(g, ring, (g.index() - consumers) * g.size() + g.rank(), each));
    if (g.rank() == 0) {
      sums.atomic_add(0, sum);
      if (sums.atomic_add(4, 1, dwell::order::acq_rel) + 1 == g.count() - consumers) ring.close();
    }
    return;
  }
  dwell::u64 sum = 0;
  dwell::u64 taken = 0;
  dwell::u64 wrong = 0;
  for (dwell::u32 round = 0; !ring.finished(g);) {
    const dwell::u32 count = ring.take(g, [&](const Message& m, dwell::u64) {
      sum += m.check;
      ++taken;
      if (m.check != check_of(m.producer, m.number) || m.more[0] != m.producer || m.more[11] != static_cast<dwell::u32>(m.check)) ++wrong;
    });
    if (count == 0) dwell::device::relax(round++);
  }
  sums.atomic_add(1, sum);
  sums.atomic_add(2, taken);
  sums.atomic_add(3, wrong);
})";
using Exchange = void(Ring<Message>, u32, u32, Span<u64>);

constexpr const char* kProduce = R"(
DWELL_OPERATOR(produce_all)(dwell::Group g, dwell::Ring<Message> ring, dwell::u32 each, dwell::Span<dwell::u64> sums) {
  const dwell::u64 sum = g.sum(produce(g, ring, g.index() * g.size() + g.rank(), each));
  if (g.rank() != 0) return;
  sums.atomic_add(0, sum);
  if (sums.atomic_add(4, 1, dwell::order::acq_rel) + 1 == g.count()) ring.close();
})";
using Produce = void(Ring<Message>, u32, Span<u64>);

constexpr const char* kCount = R"(
DWELL_OPERATOR(count)(dwell::Group g, dwell::u32 each, dwell::Span<dwell::u64> sums) {
  dwell::u64 last = 0;
  for (dwell::u32 i = 0; i < each; ++i)
    if (g.rank() % dwell::kLanes == 0) last = sums.atomic_add(0, dwell::kLanes);
  if (last == ~dwell::u64{0}) sums[1] = last;
})";
using Count = void(u32, Span<u64>);

constexpr double kMillion = 1e6;

class Rings {
 public:
  Rings(const Context& context, Report& report) : context_(context), report_(report), runtime_(options(context)) {
    const std::string message = kMessage;
    exchange_ = runtime_.define<Exchange>("exchange", message + kExchange);
    produce_ = runtime_.define<Produce>("produce_all", message + kProduce);
    count_ = runtime_.define<Count>("count", kCount);
    workers_ = runtime_.info().workers;
    sums_ = runtime_.allocate<u64>(5);
  }

  void between_operators(bool checksum, double goal, double at_least) {
    const std::string what = std::string("operators to operators, 64 B") + (checksum ? ", CRC32C" : "");
    double best = 0;
    std::vector<u32> shares = {workers_ / 2, workers_ / 8, 1};
    std::erase(shares, 0U);
    shares.erase(std::unique(shares.begin(), shares.end()), shares.end());
    for (const u32 consumers : shares) {
      const u32 producers = workers_ - consumers;
      std::vector<double> times;
      for (int round = 0; round < context_.pick(3, 1); ++round) {
        const u32 each = std::max<u32>(1, static_cast<u32>(total_ / (u64{producers} * threads_)));
        auto ring = runtime_.ring<Message>(slots_, {.checksum = checksum});
        sums_.write(std::vector<u64>(5, 0));
        const Clock::time_point start = Clock::now();
        runtime_.submit(exchange_, ring, consumers, each, sums_, gang(workers_)).wait();
        const double count = static_cast<double>(each) * producers * threads_;
        times.push_back(nanoseconds_since(start) / count);
        const std::vector<u64> sums = read();
        right_ = right_ && sums[0] == sums[1] && static_cast<double>(sums[2]) == count && sums[3] == 0;
      }
      const Spread spread = spread_of(times);
      report_.add({what, std::to_string(producers) + " producers, " + std::to_string(consumers) + " consumers", true, "ns", spread});
      best = std::max(best, 1e9 / spread.p50 / kMillion);
    }
    if (context_.cuda) report_.add(Goal{what, "M/s", best, goal, at_least, true});
  }

  void to_the_host(bool checksum, double goal, double at_least) {
    const std::string what = std::string("operators to a thread of the host, 64 B") + (checksum ? ", CRC32C" : "");
    std::vector<double> times;
    for (int round = 0; round < context_.pick(3, 1); ++round) {
      const u32 each = std::max<u32>(1, static_cast<u32>(total_ / 4 / (u64{workers_} * threads_)));
      auto ring = runtime_.ring<Message>(slots_, {.consumers = Side::host, .checksum = checksum});
      sums_.write(std::vector<u64>(5, 0));
      const Ticket ticket = runtime_.submit(produce_, ring, each, sums_, groups(workers_));
      u64 sum = 0;
      u64 taken = 0;
      u64 wrong = 0;
      std::vector<u32> next(std::size_t{workers_} * threads_);
      const Clock::time_point start = Clock::now();
      for (u32 polls = 0; !ring.finished(); ++polls) {
        const std::size_t count = ring.take(4096, [&](const Message& m, u64) {
          sum += m.check;
          ++taken;
          if (m.check != check_of(m.producer, m.number) || m.more[11] != static_cast<u32>(m.check) || m.producer >= next.size() ||
              next[m.producer]++ != m.number)
            ++wrong;
        });
        if (count == 0 && polls % 64 == 0) std::this_thread::yield();
      }
      times.push_back(nanoseconds_since(start) / static_cast<double>(taken));
      ticket.wait();
      right_ = right_ && sum == read()[0] && taken == u64{each} * workers_ * threads_ && wrong == 0;
    }
    const Spread spread = spread_of(times);
    report_.add({what, std::to_string(workers_) + " producers", true, "ns", spread});
    if (context_.cuda) report_.add(Goal{what, "M/s", 1e9 / spread.p50 / kMillion, goal, at_least, true});
  }

  void bare_counter() {
    std::vector<double> times;
    for (int round = 0; round < context_.pick(3, 1); ++round) {
      const u32 each = std::max<u32>(1, static_cast<u32>(total_ * 4 / (u64{workers_} * threads_)));
      sums_.write(std::vector<u64>(5, 0));
      const Clock::time_point start = Clock::now();
      runtime_.submit(count_, each, sums_, groups(workers_)).wait();
      const double count = static_cast<double>(each) * workers_ * threads_;
      times.push_back(nanoseconds_since(start) / count);
      right_ = right_ && static_cast<double>(read()[0]) == count;
    }
    report_.add({"positions from one counter, an addition a warp", "a bare counter", false, "ns", spread_of(times)});
  }

  void check() { report_.check("each message came once, whole, and to the host in the order of its producer", right_); }

 private:
  static Options options(const Context& context) {
    Options options = context.options();
    if (!context.cuda) options.workers = std::max(options.workers, 2U);
    return options;
  }
  std::vector<u64> read() const {
    std::vector<u64> sums(5);
    sums_.read(sums);
    return sums;
  }

  const Context& context_;
  Report& report_;
  Runtime runtime_;
  Operator<Exchange> exchange_;
  Operator<Produce> produce_;
  Operator<Count> count_;
  Buffer<u64> sums_;
  std::uint32_t workers_ = 0;
  const u32 threads_ = context_.cuda ? 128 : 1;
  const std::size_t slots_ = 65536;
  const u64 total_ = context_.pick<u64>(context_.cuda ? 16'000'000 : 2'000'000, 20'000);
  bool right_ = true;
};

void run(const Context& context, Report& report) {
  Rings rings(context, report);
  rings.between_operators(false, 250, 150);
  rings.between_operators(true, 150, 70);
  rings.to_the_host(false, 50, 30);
  rings.to_the_host(true, 40, 25);
  rings.bare_counter();
  rings.check();
}

const Registration kRegistration{{85, "rings", "messages in rings, each verified: a message, unless it says otherwise", 60, run}};

}  // namespace

}  // namespace dwell::bench
