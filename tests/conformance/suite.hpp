// Shared by the conformance, stress and GPU tests: the devices under test, and operators for all of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <dwell/device/status.hpp>
#include <dwell/dwell.hpp>

#include "tests/unit/expect_error.hpp"
#include "tests/unit/sanitized.hpp"

namespace dwell::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

inline std::string environment(const char* name, const std::string& otherwise = "") {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : otherwise;
}

// The devices under test: $DWELL_TEST_DEVICE alone, else the CPU and the first CUDA device.
inline std::vector<std::string> devices() {
  const std::string chosen = environment("DWELL_TEST_DEVICE");
  return chosen.empty() ? std::vector<std::string>{"cpu", "cuda:0"} : std::vector<std::string>{chosen};
}

// Returns why a device cannot be opened; empty if it can. Cached, because opening takes a while.
inline const std::string& missing(const std::string& device) {
  static std::map<std::string, std::string> known;
  const auto [at, fresh] = known.try_emplace(device);
  if (fresh) {
    try {
      Options options;
      options.device = device;
      options.workers = 1;
      const Runtime runtime(options);
    } catch (const Error& error) {
      at->second = error.what();
    }
  }
  return at->second;
}

// Aborts the program when a test hangs, so that the test fails under its own name.
class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds limit) : thread_([this, limit] { watch(limit); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit, [this] { return over_; })) return;
    const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "%s.%s hangs: no end after %lld s\n", test != nullptr ? test->test_suite_name() : "?",
                 test != nullptr ? test->name() : "?", static_cast<long long>(limit.count()));
    std::fflush(nullptr);
    std::abort();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

// A test on one device.
class DeviceTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string& why = missing(GetParam());
    if (!why.empty()) {
      // A device that was named must be tested.
      ASSERT_EQ(environment("DWELL_TEST_DEVICE"), "") << why;
      GTEST_SKIP() << why;
    }
    watchdog_ = std::make_unique<Watchdog>(limit());
  }
  void TearDown() override { watchdog_.reset(); }

  virtual std::chrono::seconds limit() const { return kSanitized ? 240s : 60s; }

  bool on_cpu() const { return GetParam() == "cpu"; }
  // A small ring that is often full and wraps often; more than one worker on the CPU.
  Options options() const {
    Options options;
    options.device = GetParam();
    options.workers = on_cpu() ? 2 : 0;
    options.ring_slots = 1024;
    options.task_timeout = 0ns;  // no timeout: a busy machine may be slow
    options.parts = parts_asked();
    return options;
  }
  // For tests in which a part is first used while a task waits for the test.
  Options with_all_parts() const {
    Options given = options();
    given.parts = Parts::all;
    return given;
  }
  // Options of a second runtime.
  Options little() const {
    Options little = options();
    little.workers = 1;
    little.ring_slots = 128;
    return little;
  }

 private:
  // Reads DWELL_TEST_PARTS: `all`, or a `random` set that is the same for each run of a test. Default: the parts that the test uses.
  static Parts parts_asked() {
    const std::string& asked = environment("DWELL_TEST_PARTS");
    if (asked == "all") return Parts::all;
    Parts parts;
    if (asked != "random") return parts;
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    // One of 16 sets only, because the loop of each must be compiled.
    const std::size_t number = std::hash<std::string>()(std::string(test.test_suite_name()) + "." + test.name()) % 16;
    std::mt19937 random(static_cast<std::mt19937::result_type>(number));
    for (std::size_t i = 0; i < kPartNames.size(); ++i)
      if ((random() & 1U) != 0) parts.add(static_cast<Part>(i));
    return parts;
  }

  std::unique_ptr<Watchdog> watchdog_;
};

inline std::string device_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (c == ':') c = '_';
  return name;
}

#define DWELL_ON_EVERY_DEVICE(Suite) \
  INSTANTIATE_TEST_SUITE_P(On, Suite, testing::ValuesIn(dwell::test::devices()), dwell::test::device_name)

// ---- Operators -------------------------------------------------------------------------------------------------------------------

inline constexpr const char* kNothing = "DWELL_OPERATOR(nothing)(dwell::Group) {}\n";

// Adds to one cell; safe beside other tasks.
inline constexpr const char* kAdd = R"(
DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, dwell::u32 value) {
  if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], value);
})";
using Add = void(Span<u32>, u32, u32);

// The same; the value is the last of so many words that the task takes several slots.
struct Padded {
  explicit Padded(u32 value) : word{} { word[39] = value; }
  u32 word[40];
};
inline constexpr const char* kAddPadded = R"(
struct Padded { dwell::u32 word[40]; };
DWELL_OPERATOR(add_padded)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, Padded value) {
  if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], value.word[39]);
})";

// Runs for some nanoseconds.
inline constexpr const char* kSpin = R"(
DWELL_OPERATOR(spin)(dwell::Group g, dwell::u64 ns) {
  const dwell::u64 start = dwell::device::now_ns();
  for (dwell::u32 round = 0; dwell::device::now_ns() - start < ns; ++round) dwell::device::relax(round);
  g.sync();
})";
using Spin = void(u64);

// Reports its start, and runs until the host releases it (Latch). Fails with code 99 after twenty seconds.
inline constexpr const char* kHold = R"(
DWELL_OPERATOR(hold)(dwell::Group g, dwell::Span<dwell::u32> latch) {
  using namespace dwell::device;
  if (g.rank() == 0) {
    const dwell::u64 start = now_ns();
    store<Order::release, Scope::system>(&latch[0], 1u);
    for (dwell::u32 round = 0; load<Order::acquire, Scope::system>(&latch[1]) == 0; ++round) {
      if (now_ns() - start > 20000000000ull) {
        g.fail(99);
        break;
      }
      relax(round);
    }
  }
  g.sync();
})";
using Hold = void(Span<u32>);

// Continues when two groups have arrived at cell `at`. Fails with code 98 after twenty seconds.
inline constexpr const char* kMeet = R"(
DWELL_OPERATOR(meet)(dwell::Group g, dwell::Span<dwell::u32> arrived, dwell::u32 at) {
  using namespace dwell::device;
  if (g.rank() == 0) {
    fetch_add<Order::relaxed>(&arrived[at], 1u);
    const dwell::u64 start = now_ns();
    for (dwell::u32 round = 0; load<Order::relaxed, Scope::device>(&arrived[at]) < 2; ++round) {
      if (now_ns() - start > 20000000000ull) {
        g.fail(98);
        break;
      }
      relax(round);
    }
  }
  g.sync();
})";
using Meet = void(Span<u32>, u32);

// Takes a number from a common clock at its begin and at its end, `ns` later; each group of a wide task separately.
inline constexpr const char* kStamp = R"(
DWELL_OPERATOR(stamp)(dwell::Group g, dwell::Span<dwell::u32> clock, dwell::Span<dwell::u32> began, dwell::Span<dwell::u32> ended,
                      dwell::u32 at, dwell::u64 ns) {
  using namespace dwell::device;
  if (g.rank() == 0) {
    began[at + g.index()] = fetch_add<Order::acq_rel>(&clock[0], 1u);
    const dwell::u64 start = now_ns();
    while (now_ns() - start < ns) {}
    ended[at + g.index()] = fetch_add<Order::acq_rel>(&clock[0], 1u);
  }
  g.sync();
})";
using Stamp = void(Span<u32>, Span<u32>, Span<u32>, u32, u64);

// Appends to a number: only the right order gives the right result (`appended`).
inline constexpr const char* kAppend = R"(
DWELL_OPERATOR(append)(dwell::Group g, dwell::Span<dwell::u32> number, dwell::u32 digit) {
  if (g.rank() == 0) number[0] = number[0] * 31 + digit;
  g.sync();
})";
using Append = void(Span<u32>, u32);

// Fails with a code.
inline constexpr const char* kFail = R"(
DWELL_OPERATOR(fail)(dwell::Group g, dwell::i32 code) {
  if (g.rank() == 0) g.fail(code);
})";
using Fail = void(i32);

// Writes `value` to its own cell: values identify versions.
inline std::string mark_with(u32 value) {
  return "DWELL_OPERATOR(mark)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at) {\n"
         "  if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], " +
         std::to_string(value) + "u);\n}\n";
}
using Mark = void(Span<u32>, u32);

// Holds a task until the host releases it.
class Latch {
 public:
  explicit Latch(Runtime& runtime) : words_(runtime.allocate<u32>(2, Memory::host)) { reset(); }

  const Buffer<u32>& words() const { return words_; }
  void reset() {
    word(0).store(0);
    word(1).store(0);
  }
  // Waits until the task runs.
  void await() const {
    const auto start = Clock::now();
    while (word(0).load() == 0) {
      ASSERT_LT(Clock::now() - start, 20s) << "the task does not start";
      std::this_thread::sleep_for(20us);
    }
  }
  bool entered() const { return word(0).load() != 0; }
  // Lets the task end.
  void release() { word(1).store(1); }

 private:
  std::atomic_ref<u32> word(std::size_t i) const { return std::atomic_ref<u32>(words_.host()[i]); }
  Buffer<u32> words_;
};

template <class T>
std::vector<T> read(const Buffer<T>& buffer) {
  std::vector<T> to(buffer.size());
  buffer.read(to);
  return to;
}

template <class T>
Buffer<T> filled(Runtime& runtime, std::size_t count, T value) {
  Buffer<T> buffer = runtime.allocate<T>(count);
  buffer.write(std::vector<T>(count, value));
  return buffer;
}

// The result of `append` for the numbers 0 to count - 1.
inline u32 appended(u32 count) {
  u32 number = 0;
  for (u32 i = 0; i < count; ++i) number = number * 31 + i;
  return number;
}

// Random numbers that are the same in every run.
class Random {
 public:
  explicit Random(u32 seed) : engine_(seed) {}
  u32 operator()() { return static_cast<u32>(engine_()); }

 private:
  std::mt19937 engine_;
};

// Waits up to `limit` until `condition` holds. Returns whether it does.
inline bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit = 10s) {
  const auto start = Clock::now();
  while (!condition()) {
    if (Clock::now() - start > limit) return condition();
    std::this_thread::sleep_for(100us);
  }
  return true;
}

}  // namespace dwell::test
