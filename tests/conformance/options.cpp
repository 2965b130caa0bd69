// Options: refusals, defaults and extremes.
#include <dwell/detail/open_at.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class OptionsTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(OptionsTest);

TEST_P(OptionsTest, InvalidOptionsAreRefusedByName) {
  const auto refused = [this](const std::function<void(Options&)>& change, const std::string& name, u64 value = 0, u64 limit = 0) {
    Options bad = options();
    change(bad);
    DWELL_EXPECT_ERROR_FIELDS(Runtime{bad}, errc::invalid_argument, "option", "Options::" + name, value, limit);
  };
  for (const unsigned slots : {0U, 1U, 64U, 100U, 129U, 65535U, 1U << 25U, ~0U})
    refused([&](Options& o) { o.ring_slots = slots; }, "ring_slots", slots, 1U << 24U);
  for (const unsigned workers : {8193U, ~0U}) refused([&](Options& o) { o.workers = workers; }, "workers", workers, 8192);
  for (const std::uint64_t first : {1ULL, 63ULL, 65ULL, 1ULL << 56U, ~0ULL})
    DWELL_EXPECT_ERROR(detail::open_at(first, options()), errc::invalid_argument, HasSubstr("first position"));
  refused([](Options& o) { o.lease = -1ns; }, "lease");
  refused([](Options& o) { o.idle = -1ms; }, "idle");
  refused([](Options& o) { o.task_timeout = -1s; }, "task_timeout");
  refused([](Options& o) { o.stall_timeout = -1s; }, "stall_timeout");
  refused([](Options& o) { o.spawned_tasks = (1U << 26U) + 1; }, "spawned_tasks", (1U << 26U) + 1, 1U << 26U);
  refused([](Options& o) { o.scratch_bytes = (1U << 24U) + 1; }, "scratch_bytes", (1U << 24U) + 1, 1U << 24U);
  refused([](Options& o) { o.scratch_bytes = ~0U; }, "scratch_bytes", ~0U, 1U << 24U);
}

TEST_P(OptionsTest, InliningIsRefusedIfUnsupported) {
  Options inlined = options();
  inlined.tier = Tier::lto;
  if (on_cpu())
    DWELL_EXPECT_ERROR(Runtime{inlined}, errc::unsupported, HasSubstr("relocatable only"))
  else
    EXPECT_NO_THROW(Runtime{inlined});
}

TEST_P(OptionsTest, UnreachedLimitsChangeNothing) {
  Options limited = options();
  limited.limits = {
      .registers = 255, .stack_bytes = 4096, .shared_bytes = 40960, .constant_bytes = 32768, .barriers = 16, .min_workers = 1};
  Runtime runtime(limited);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1, 0);
  runtime.submit(add, cells, 0U, 1U).wait();
  EXPECT_EQ(read(cells)[0], 1U);
}

TEST_P(OptionsTest, OperatorBeyondALimitIsRefusedIfTheFigureIsKnown) {
  Options limited = options();
  limited.limits = {.registers = 1, .stack_bytes = 1, .shared_bytes = 1, .constant_bytes = 1, .barriers = 1};
  Runtime runtime(limited);
  if (on_cpu()) {
    EXPECT_NO_THROW(runtime.define("add", kAdd));
  } else {
    DWELL_EXPECT_ERROR(runtime.define("add", kAdd), errc::resource_limit, HasSubstr("the option limits.registers is 1"));
  }
}

TEST_P(OptionsTest, MinWorkersAboveWorkersIsRefused) {
  Options bad = options();
  bad.workers = 2;
  bad.limits.min_workers = 3;
  DWELL_EXPECT_ERROR_FIELDS(Runtime{bad}, errc::invalid_argument, "option", "Options::limits.min_workers", 3, 2);
  bad.limits.min_workers = 2;
  Runtime runtime(bad);
  runtime.define("add", kAdd);
  EXPECT_EQ(runtime.info().workers, 2U);
}

TEST_P(OptionsTest, ExtremesWork) {
  const auto works = [this](const std::function<void(Options&)>& change) {
    Options unusual = options();
    change(unusual);
    Runtime runtime(unusual);
    auto add = runtime.define<Add>("add", kAdd);
    auto cells = filled<u32>(runtime, 1, 0);
    for (int i = 0; i < 10; ++i) runtime.submit(add, cells, 0U, 1U, groups(2));
    runtime.submit(add, cells, 0U, 1U).wait();
    runtime.park();
    runtime.resume();
    EXPECT_EQ(read(cells)[0], 21U);
  };
  works([](Options& o) { o.ring_slots = 128; });
  works([](Options& o) { o.ring_slots = 1U << 18U; });
  works([](Options& o) { o.lease = 1ns; });
  works([](Options& o) { o.idle = 1ns; });
  works([](Options& o) { o.lease = o.idle = 1ns; });
  works([](Options& o) { o.scratch_bytes = 1; });
  if (on_cpu()) {
    works([](Options& o) { o.workers = 64; });
    works([](Options& o) { o.scratch_bytes = 1U << 24U; });
  } else {
    works([](Options& o) { o.workers = 8192; });  // reduced to as many as fit
  }
}

TEST_P(OptionsTest, LongestTimesMeanForEver) {
  Options calm = options();
  calm.lease = calm.idle = calm.task_timeout = std::chrono::nanoseconds::max();
  Runtime runtime(calm);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1, 0);
  for (u32 i = 1; i < 20; ++i) {
    runtime.submit(add, cells, 0U, 1U).wait();
    std::this_thread::sleep_for(1ms);
  }
  // The only lease keeps waiting.
  EXPECT_LE(runtime.metrics().leases, 2U);
  runtime.park();
  runtime.resume();
  runtime.submit(add, cells, 0U, 1U).wait();
  EXPECT_EQ(read(cells)[0], 20U);
}

TEST_P(OptionsTest, UnusableCacheIsOnlyAWarning) {
  const std::string before = environment("DWELL_CACHE_DIR");
  setenv("DWELL_CACHE_DIR", "/dev/null/cache", 1);
  std::mutex mutex;
  std::vector<std::string> lines;
  Options some = options();
  some.warn = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  };
  {
    Runtime runtime(some);
    auto nothing = runtime.define("nothing", kNothing);
    runtime.submit(nothing).wait();
    nothing.redefine(std::string(kNothing) + " ");
    runtime.submit(nothing).wait();
  }
  if (before.empty())
    unsetenv("DWELL_CACHE_DIR");
  else
    setenv("DWELL_CACHE_DIR", before.c_str(), 1);
  const std::lock_guard lock(mutex);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("/dev/null/cache"), testing::Not(HasSubstr("\n"))));
}

TEST_P(OptionsTest, InfoHasTheWorkersBeforeTheFirstDefinition) {
  Options few = options();
  few.workers = 1;
  Runtime runtime(few);
  EXPECT_EQ(runtime.info().workers, 1U);
  EXPECT_EQ(runtime.info().crew, 0U);
  runtime.define("nothing", kNothing);
  EXPECT_EQ(runtime.info().workers, 1U);
  EXPECT_EQ(runtime.info().crew, 1U);
  few.workers = 0;
  EXPECT_GT(Runtime(few).info().workers, 0U);
}

TEST_P(OptionsTest, ZeroWorkersIsTheBackendsChoice) {
  Options none;
  none.device = GetParam();
  Runtime runtime(none);
  auto nothing = runtime.define("nothing", kNothing);
  runtime.submit(nothing).wait();
  EXPECT_GT(runtime.info().workers, 0U);
}

Options on(const std::string& device) {
  Options options;
  options.device = device;
  return options;
}

TEST(OptionsOfNoDevice, UnknownDevicesAreRefused) {
  for (const char* device : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cuda:1:2", "CPU", "cpu:0", "cuda:99999999999999"})
    DWELL_EXPECT_ERROR(Runtime(on(device)), errc::invalid_argument, HasSubstr("no device '" + std::string(device) + "'"));
  try {
    const Runtime runtime(on("cuda:999"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == errc::device_unavailable || error.kind() == errc::compiler_unavailable) << error.what();
  }
}

TEST(OptionsOfNoDevice, AutoAlwaysFindsADevice) {
  Runtime runtime(on("auto"));
  auto nothing = runtime.define("nothing", kNothing);
  runtime.submit(nothing).wait();
  EXPECT_THAT(runtime.info().device, testing::AnyOf("cpu", "cuda:0"));
}

}  // namespace
}  // namespace dwell::test
