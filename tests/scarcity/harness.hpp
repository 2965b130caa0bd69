// Repeats a test, each time with other failing allocations.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <dwell/device/status.hpp>
#include <dwell/dwell.hpp>

#include "jit/cache/caching_compiler.hpp"
#include "runtime/generations.hpp"
#include "tests/conformance/suite.hpp"
#include "tests/scarcity/scarce_memory.hpp"
#include "tests/unit/breakable_backend.hpp"

namespace dwell::test {

// The CPU's compiler, shared by all runtimes, so that each source is compiled once.
class SharedCompiler final : public jit::Compiler {
 public:
  jit::Object compile(const jit::Unit& unit) override {
    {
      // Compilers are slow processes: the first compilation of a source gets memory, and its object is kept.
      const ScarceMemory::Spared spared;
      static_cast<void>(shared().compile(unit));
    }
    return shared().compile(unit);
  }
  std::string fingerprint(const jit::Unit& unit) override { return shared().fingerprint(unit); }
  jit::Image link(std::span<const jit::Opcode> table, Tier tier, std::uint32_t parts) override { return shared().link(table, tier, parts); }
  jit::ModuleObject compile_module(const jit::Unit& unit) override { return shared().compile_module(unit); }
  std::string identity() const override { return shared().identity(); }

 private:
  static jit::CachingCompiler& shared() {
    static jit::CachingCompiler compiler(std::make_unique<KernelCompiler>());
    return compiler;
  }
};

// Adds k to each cell; safe beside other tasks of the operator.
inline std::string adds(const std::string& name, u32 k) {
  return "DWELL_OPERATOR(" + name + ")(dwell::Group g, dwell::Span<dwell::u32> x, dwell::u32 code) {\n" +
         "  for (auto i : g.range(x.size())) x.atomic_add(i, " + std::to_string(k) +
         "U);\n  if (g.rank() == 0 && code != 0) g.fail(code);\n}";
}

// A runtime with two versions of an operator, a buffer, a kernel, and tickets of a successful and a failed task.
struct World {
  explicit World(std::shared_ptr<BreakableDevice> on = std::make_shared<BreakableDevice>()) : device(std::move(on)) {}
  void open(Options options) {
    options.workers = 2;
    options.ring_slots = 128;
    options.compile_threads = 1;
    runtime.emplace(detail::runtime_on(options, [device = device](const Options&) {
      return runtime::OpenedDevice{std::make_unique<BreakableBackend>(device), std::make_unique<SharedCompiler>()};
    }));
  }
  void open() { open(Options()); }
  void fill() {
    op = runtime->define("op", adds("op", 1));
    op.redefine(adds("op", 2));
    cells = runtime->allocate<u32>(16);
    kernel = runtime->compile("spin").kernel("spin");
    tickets.push_back(runtime->submit(op, cells, 0U));
    tickets.push_back(runtime->submit(op, cells, 3U));
    runtime->wait_all();
  }
  // How often `op` has run on the cells, all of which have the same value.
  u32 runs() const {
    std::vector<u32> values(cells.size());
    cells.read(values);
    for (const u32 value : values) EXPECT_EQ(value, values[0]) << "a task has run in part";
    return values[0] / 2;
  }

  std::shared_ptr<BreakableDevice> device;
  std::optional<Runtime> runtime;
  Operator<> op;
  Kernel<> kernel;
  Buffer<u32> cells;
  std::vector<Ticket> tickets;
};

// Aborts the program when a run hangs, and reports the run and its failed allocations.
class Deadline {
 public:
  explicit Deadline(std::chrono::seconds limit) : thread_([this, limit] { watch(limit); }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  void watch(std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit, [this] { return over_; })) return;
    const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "%s hangs: ", test != nullptr ? test->name() : "?");
    ScarceMemory::tell();
    std::fflush(nullptr);
    std::abort();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

class ScarceMemoryTest : public testing::Test {
 protected:
  using Step = std::function<void(World&)>;

  // One allocation, and as many as a machine under memory pressure refuses in a row.
  static constexpr long kOne = 1;
  static constexpr long kPressure = 50;

  // Returns whether `step` throws. Only Error and std::bad_alloc are allowed.
  static bool throws(const std::function<void()>& step) {
    try {
      step();
      return false;
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    } catch (const std::exception& other) {
      ADD_FAILURE() << "it throws neither Error nor std::bad_alloc: " << other.what();
    }
    return true;
  }
  // Calls a required step: if it throws, repeats it with memory.
  static void insist(const std::function<void()>& step) {
    if (!throws(step)) return;
    ScarceMemory::relent();
    step();
  }

  // Runs `step` in a new world for each allocation that it makes, with `many` allocations failing from that one on. DWELL_SCARCITY=all
  // tries all; otherwise all of the first ones, and a sample of the others, chosen by DWELL_SCARCITY_SEED.
  void at_every_allocation(const Step& before, const Step& step, long many = kOne);
  void at_every_allocation(const Step& step, long many = kOne) { at_every_allocation(filled, step, many); }

  static void filled(World& world) {
    world.open();
    world.fill();
  }

 private:
  // Checks that every call returns.
  static void look_after(World& world);
};

}  // namespace dwell::test
