// Tasks that crash the device, or never end.
#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <vector>

#include "live/flight.hpp"
#include "tests/gpu/fault_test.hpp"

namespace dwell::test {
namespace {

constexpr const char* kWildRead = R"(
DWELL_OPERATOR(wild_read)(dwell::Group g, dwell::u32* address) {
  if (address != nullptr && *const_cast<const volatile dwell::u32*>(address) == 7) g.fail(1);
})";
constexpr const char* kTrap = R"(
DWELL_OPERATOR(trap)(dwell::Group g, dwell::u32* address) {
  if (address != nullptr && g.rank() == 100) __trap();
})";
constexpr const char* kAssert = R"(
DWELL_OPERATOR(assert_null)(dwell::Group g, dwell::u32* address) {
  assert(address == nullptr);
})";
// Runs for `ns` first, so that other threads can start to wait.
constexpr const char* kDelayedWrite = R"(
DWELL_OPERATOR(delayed_write)(dwell::Group g, dwell::Span<dwell::u32> words, dwell::u64 ns) {
  const dwell::u64 start = dwell::device::now_ns();
  while (dwell::device::now_ns() - start < ns) {}
  if (g.rank() == 0) *reinterpret_cast<volatile dwell::u32*>(words.size()) = 1;
})";
using DelayedWrite = void(Span<u32>, u64);

// Runs one task that ends the runtime, and checks the errors of all others.
void expect_end(const std::string& name, const char* source, const Options& options, errc code, int status, const std::string& why) {
  std::vector<Ticket> tickets;
  Ticket done;
  Buffer<u32> buffer;
  {
    Runtime runtime(options);
    auto deadly = runtime.define<Deadly>(name, source);
    auto nothing = runtime.define("nothing", kNothing);
    buffer = filled<u32>(runtime, 100, 1);
    u32* const harmless = nullptr;
    runtime.submit(deadly, harmless).wait();
    done = runtime.submit(nothing);
    done.wait();
    const auto start = Clock::now();
    tickets.push_back(runtime.submit(deadly, bad_address()));
    for (int i = 0; i < 20; ++i) tickets.push_back(runtime.submit(nothing, drain));
    const auto message = AllOf(HasSubstr(why), HasSubstr("it was running " + name + " (version 1)"),
                               HasSubstr("ticket " + std::to_string(tickets[0].position()) + ","), HasSubstr("on worker "));
    for (const Ticket& ticket : tickets) {
      DWELL_EXPECT_ERROR(ticket.wait(), code, message);
      DWELL_EXPECT_ERROR(static_cast<void>(ticket.wait_for(1s)), code, message);
      EXPECT_TRUE(ticket.done());
      EXPECT_EQ(ticket.status(), status);
    }
    EXPECT_LT(Clock::now() - start, code == errc::task_timeout ? options.task_timeout + 2s : 2s);
    EXPECT_EQ(done.status(), status::ok) << "a task that had ended well";
    DWELL_EXPECT_ERROR(runtime.submit(nothing), code, message);
    DWELL_EXPECT_ERROR(runtime.try_submit(nothing), code, message);
    DWELL_EXPECT_ERROR(runtime.wait_all(), code, message);
    DWELL_EXPECT_ERROR(runtime.park(), code, message);
    DWELL_EXPECT_ERROR(runtime.allocate<u32>(1), code, message);
    DWELL_EXPECT_ERROR(runtime.define("other", "DWELL_OPERATOR(other)(dwell::Group) {}"), code, message);
    const auto closing = Clock::now();
    DWELL_EXPECT_ERROR(runtime.close(), code, message);
    EXPECT_LT(Clock::now() - closing, 2s);
  }
  for (const Ticket& ticket : tickets) {
    EXPECT_EQ(ticket.status(), status);
    DWELL_EXPECT_ERROR(ticket.wait(), code, HasSubstr(name + " (version 1)"));
  }
  EXPECT_NO_THROW(done.wait());
  buffer = {};
}

TEST_F(FaultTest, AWriteToABadAddressLosesTheDevice) {
  in_a_child([] { expect_end("wild_write", kWildWrite, options(), errc::device_lost, status::lost, "CUDA_ERROR_"); });
}

TEST_F(FaultTest, AReadFromABadAddressLosesTheDevice) {
  in_a_child([] { expect_end("wild_read", kWildRead, options(), errc::device_lost, status::lost, "CUDA_ERROR_"); });
}

TEST_F(FaultTest, ATrapLosesTheDevice) {
  in_a_child([] { expect_end("trap", kTrap, options(), errc::device_lost, status::lost, "CUDA_ERROR_"); });
}

TEST_F(FaultTest, AFailedAssertionLosesTheDevice) {
  in_a_child([] { expect_end("assert_null", kAssert, options(), errc::device_lost, status::lost, "CUDA_ERROR_ASSERT"); });
}

TEST_F(FaultTest, FlightFileNamesTheWriterOfABadAddress) {
  in_a_child([] {
    Runtime runtime(options());
    const auto nothing = runtime.define("nothing", kNothing);
    const auto delayed_write = runtime.define<DelayedWrite>("delayed_write", kDelayedWrite);
    const auto words = filled<u32>(runtime, 16, 0);
    Graph graph("step");
    for (const char* const name : {"left", "right", "middle"}) graph.add(name, nothing);
    const Ticket launch = runtime.launch(runtime.instantiate(graph));
    launch.wait();
    const Ticket ticket = runtime.submit(delayed_write, words, u64{1000});
    const Error error = error_of([&] { ticket.wait(); });
    EXPECT_EQ(error.kind(), errc::device_lost) << error.what();
    const std::string before = "dwell post-mortem ";
    ASSERT_THAT(error.message(), HasSubstr(before));
    const std::filesystem::path path = error.message().substr(error.message().find(before) + before.size());
    const live::Flight flight = live::read_flight(path);
    std::filesystem::remove(path);
    const std::string text = to_string(flight);
    EXPECT_THAT(flight.failure, AllOf(HasSubstr("delayed_write (version 1)"), HasSubstr("ticket " + std::to_string(ticket.position()))));
    EXPECT_THAT(text, testing::ContainsRegex("  delayed_write \\(version 1\\) \\(0x[0-9a-f]+\\[16\\], 1000\\), ticket " +
                                             std::to_string(ticket.position()) + ", lease "));
    EXPECT_THAT(text, HasSubstr("  graph 'step', ticket " + std::to_string(launch.position()) + ", lease "));
    EXPECT_THAT(text, testing::ContainsRegex("  (left|right|middle): nothing \\(version 1\\) \\(\\), node at 0x"));
  });
}

TEST_F(FaultTest, EarlierLogLinesAreDelivered) {
  in_a_child([] {
    Options logging = options();
    std::mutex mutex;
    std::vector<std::string> lines;
    std::promise<void> first;
    std::once_flag once;
    logging.log.sink = [&](const LogRecord& record) {
      std::call_once(once, [&] { first.set_value(); });
      const std::lock_guard lock(mutex);
      lines.push_back(record.text);
    };
    constexpr u32 kTasks = 100;
    {
      Runtime runtime(logging);
      const auto say = runtime.define<void(u32, u32*)>("say", R"(
DWELL_OPERATOR(say)(dwell::Group g, dwell::u32 number, dwell::u32* address) {
  if (g.rank() != 0) return;
  dwell::log(g, dwell::level::warning, "line {}", number);
  if (address != nullptr) *const_cast<volatile dwell::u32*>(address) = 1;
})");
      u32* const harmless = nullptr;
      for (u32 i = 0; i < kTasks; ++i) runtime.submit(say, i, harmless);
      runtime.wait_all();
      first.get_future().wait();         // the format has been read; a lost device cannot supply it
      std::this_thread::sleep_for(1ms);  // a line may arrive some microseconds after its task ends
      const Ticket ticket = runtime.submit(say, kTasks, bad_address());
      DWELL_EXPECT_ERROR(ticket.wait(), errc::device_lost, HasSubstr("say (version 1)"));
      DWELL_EXPECT_ERROR(runtime.close(), errc::device_lost, HasSubstr("say (version 1)"));
    }
    const std::lock_guard lock(mutex);
    for (u32 i = 0; i < kTasks; ++i) EXPECT_EQ(std::ranges::count(lines, "line " + std::to_string(i)), 1) << i;
    EXPECT_LE(lines.size(), kTasks + 1) << "that of the deadly task may be there";
  });
}

// The child ends, though its task does not.
TEST_F(FaultTest, EndlessTaskTimesOut) {
  in_a_child([] {
    Options strict = options();
    strict.task_timeout = 200ms;
    expect_end("endless", kEndless, strict, errc::task_timeout, status::timed_out, "200 ms");
  });
}

TEST_F(FaultTest, AllRunningTasksAreNamed) {
  in_a_child([] {
    Runtime runtime(options());
    auto spin = runtime.define<Spin>("spin", kSpin);
    auto delayed_write = runtime.define<DelayedWrite>("delayed_write", kDelayedWrite);
    auto words = filled<u32>(runtime, 16, 0);
    const Ticket first = runtime.submit(spin, u64{400'000'000});
    const Ticket second = runtime.submit(delayed_write, words, u64{50'000'000});
    DWELL_EXPECT_ERROR(second.wait(), errc::device_lost,
                       AllOf(HasSubstr("one of the tasks that were running is to blame"),
                             HasSubstr("spin (version 1), ticket " + std::to_string(first.position())),
                             HasSubstr("delayed_write (version 1), ticket " + std::to_string(second.position()))));
  });
}

TEST_F(FaultTest, WaitersGetTheError) {
  in_a_child([] {
    Options small = options();
    small.ring_slots = 128;
    Runtime runtime(small);
    auto nothing = runtime.define("nothing", kNothing);
    auto delayed_write = runtime.define<DelayedWrite>("delayed_write", kDelayedWrite);
    auto words = filled<u32>(runtime, 16, 0);
    const Ticket ticket = runtime.submit(delayed_write, words, u64{300'000'000});
    const Ticket behind = runtime.submit(nothing, drain);
    const std::vector<std::pair<const char*, std::function<void()>>> waits = {
        {"submit to a full ring",
         [&] {
           for (;;) runtime.submit(nothing);
         }},
        {"wait_all", [&] { runtime.wait_all(); }},
        {"Ticket::wait", [&] { ticket.wait(); }},
        {"Ticket::wait behind it", [&] { behind.wait(); }},
        {"Ticket::wait_for", [&] { static_cast<void>(behind.wait_for(30s)); }},
        {"Buffer::read", [&] { read(words); }},
        {"park", [&] { runtime.park(); }},
        {"define", [&] { runtime.define("other", "DWELL_OPERATOR(other)(dwell::Group) {}"); }},
    };
    std::vector<std::optional<Error>> told(waits.size());
    std::vector<std::atomic<bool>> over(waits.size());
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < waits.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          waits[i].second();
        } catch (const Error& error) {
          told[i] = error;
        }
        over[i] = true;
      });
    }
    for (std::size_t i = 0; i < waits.size(); ++i)
      EXPECT_TRUE(eventually([&] { return over[i].load(); })) << waits[i].first << " does not return";
    threads.clear();
    for (std::size_t i = 0; i < waits.size(); ++i) {
      SCOPED_TRACE(waits[i].first);
      ASSERT_TRUE(told[i].has_value()) << "nothing was thrown";
      EXPECT_EQ(told[i]->kind(), errc::device_lost);
      EXPECT_THAT(told[i]->message(), HasSubstr("delayed_write (version 1)"));
    }
  });
}

// A store may complete after its task ends, if no argument of the task leads to memory. That task then succeeds, and only the last tasks
// can be named.
TEST_F(FaultTest, StoreThroughANumberNamesTheLastTasks) {
  in_a_child([] {
    Runtime runtime(options());
    auto store_to_number = runtime.define<void(u64)>("store_to_number", R"(
      DWELL_OPERATOR(store_to_number)(dwell::Group g, dwell::u64 address) {
        if (g.rank() == 0) *reinterpret_cast<volatile dwell::u32*>(address) = 1;
      })");
    EXPECT_TRUE(eventually([&] {
      try {
        runtime.submit(store_to_number, u64{16}).wait();
        return false;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), errc::device_lost);
        EXPECT_THAT(error.message(), AllOf(HasSubstr("CUDA_ERROR_"), HasSubstr("store_to_number (version 1)"), HasSubstr("on worker ")));
        return true;
      }
    }));
  });
}

// The context belongs to the process: all other runtimes in it are lost too and report it. Nothing hangs.
TEST_F(FaultTest, TheOtherRuntimesOfTheProcessAreLostToo) {
  in_a_child([] {
    Runtime other(options());
    auto add = other.define<Add>("add", kAdd);
    auto cells = filled<u32>(other, 1, 0);
    other.submit(add, cells, 0U, 1U).wait();
    {
      Runtime runtime(options());
      auto wild = runtime.define<Deadly>("wild_write", kWildWrite);
      DWELL_EXPECT_ERROR(runtime.submit(wild, bad_address()).wait(), errc::device_lost, HasSubstr("wild_write"));
    }
    const auto start = Clock::now();
    try {
      for (;;) other.submit(add, cells, 0U, 1U).wait();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::device_lost) << error.what();
    }
    DWELL_EXPECT_ERROR(other.close(), errc::device_lost, HasSubstr("CUDA_ERROR_"));
    // CUDA may refuse the process a new context; but nothing may hang.
    try {
      Runtime again(options());
      again.submit(again.define("nothing", kNothing)).wait();
      std::cout << "a new runtime works\n";
    } catch (const Error& error) {
      std::cout << "a new runtime: " << error.what() << '\n';
    }
    EXPECT_LT(Clock::now() - start, 10s);
  });
}

}  // namespace
}  // namespace dwell::test
