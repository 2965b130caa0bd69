// Calls that a callback of the runtime may make: close is refused in each, the last owner may release the runtime, and nothing ends or
// hangs the process.
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>

#include <dwell/orchestrator.hpp>

#include "tests/conformance/suite.hpp"
#include "tests/unit/child.hpp"

namespace dwell::test {
namespace {

// A runtime, and the action of its callbacks at their first call.
struct World {
  std::shared_ptr<Runtime> runtime;
  std::function<void()> act;
  std::atomic<bool> called{false};
  Operator<> nothing;
  Operator<> log_now;
  std::optional<Buffer<u32>> cells;
  std::optional<Watch> watch;
  std::optional<Orchestrator> jobs;

  void call() {
    if (!called.exchange(true) && act) act();
  }
  void open(Options options) {
    options.log.sink = [this](const LogRecord& line) {
      if (line.text == "now") call();
    };
    options.warn = [this](std::string_view line) {
      if (line.find("so that it warns") != std::string_view::npos) call();
    };
    runtime = std::make_shared<Runtime>(std::move(options));
    nothing = runtime->define("nothing", kNothing);
    log_now = runtime->define(
        "log_now", R"(DWELL_OPERATOR(log_now)(dwell::Group g) { if (g.rank() == 0) dwell::log(g, dwell::level::error, "now"); })");
    cells.emplace(runtime->allocate<u32>(1));
  }
};

struct Writer final : TraceWriter {
  explicit Writer(World& of) : world(of) {}
  void write(const Trace&) override { world.call(); }
  void finish() override {}
  World& world;
};

// A way to call the program's code.
struct Kind {
  const char* name;
  bool own_thread;  // called on a thread of the runtime
  void (*provoke)(World&);
};

std::shared_ptr<void> calls_when_dropped(World& world) {
  return {static_cast<void*>(&world), [](void* at) { static_cast<World*>(at)->call(); }};
}

const Kind kKinds[] = {
    {"Then", true, [](World& w) { w.runtime->submit(w.nothing).then([&w](const Ticket&) { w.call(); }); }},
    {"WhatThenHolds", true, [](World& w) { w.runtime->submit(w.nothing).then([held = calls_when_dropped(w)](const Ticket&) {}); }},
    {"HostNode", true,
     [](World& w) {
       Graph graph;
       graph.add_host("calls", [&w] { w.call(); });
       w.runtime->launch(w.runtime->instantiate(graph));
     }},
    {"Definition", true,
     [](World& w) {
       w.runtime->define_async("other", "DWELL_OPERATOR(other)(dwell::Group) {}", {}, {.done = [&w](const auto&) { w.call(); }});
     }},
    {"DefinitionThatIsThere", true,
     [](World& w) { w.runtime->define_async("nothing", kNothing, {}, {.done = [&w](const auto&) { w.call(); }}); }},
    {"Log", true, [](World& w) { w.runtime->submit(w.log_now); }},
    {"Warning", true,
     [](World& w) { w.runtime->submit(w.nothing).then([](const Ticket&) { throw std::runtime_error("so that it warns"); }); }},
    {"Watch", true, [](World& w) { w.watch.emplace(w.runtime->watch("queue", 1ms, [&w](const Inspection&) { w.call(); })); }},
    {"TraceWriter", true, [](World& w) { w.runtime->start_trace(std::make_shared<Writer>(w)); }},
    {"EndOfABuffer", false,
     [](World& w) {
       Buffer<u32> other = w.runtime->allocate<u32>(1, Memory::host);
       static_cast<void>(w.runtime->wrap(other.host().data(), 1, calls_when_dropped(w)));
     }},
    {"Job", true,
     [](World& w) {
       Graph graph;
       graph.add(w.nothing);
       w.jobs.emplace(*w.runtime);
       const JobType type = w.jobs->define("nothing", std::move(graph));
       const std::shared_ptr<Runtime> runtime = w.runtime;
       runtime->park();
       w.jobs->submit(type).then([&w](const Job&) { w.call(); });
       runtime->resume();
     }},
    {"JobThatIsCancelled", false,
     [](World& w) {
       Graph graph;
       graph.add(w.nothing);
       w.jobs.emplace(*w.runtime);
       const JobType type = w.jobs->define("nothing", std::move(graph), {.limits = {.at_once = 1}});
       w.runtime->park();
       w.jobs->submit(type);
       const Job waits = w.jobs->submit(type);
       waits.then([&w](const Job&) { w.call(); });
       waits.cancel();
       if (w.runtime != nullptr) w.runtime->resume();
     }},
};

class CallbackTest : public DeviceTest {
 protected:
  // Calls `act` in a callback of each kind, then `then` with the runtime, which is still open.
  void for_each(const std::function<void(World&)>& act, const std::function<void(World&)>& then, bool own_threads = false) {
    for (const Kind& kind : kKinds) {
      SCOPED_TRACE(kind.name);
      if (own_threads && !kind.own_thread) continue;
      World world;
      std::atomic<bool> done{false};
      world.open(options());
      world.act = [&] {
        const struct Done {
          std::atomic<bool>& at;
          ~Done() { at = true; }
        } says{done};
        act(world);
      };
      const std::shared_ptr<Runtime> here = world.runtime;
      kind.provoke(world);
      ASSERT_TRUE(eventually([&] { return done.load(); })) << "it was not called";
      then(world);
      world.watch.reset();
      world.jobs.reset();
      here->close();
    }
  }
};
DWELL_ON_EVERY_DEVICE(CallbackTest);

TEST_P(CallbackTest, ClosingIsRefusedInEach) {
  std::string why;
  for_each(
      [&](World& world) {
        for (const bool rebuild : {false, true}) {
          try {
            if (rebuild)
              world.runtime->rebuild();
            else
              world.runtime->close();
            why = "closed";
          } catch (const Error& error) {
            why = error.kind() == errc::invalid_argument ? error.message() : error.what();
          }
          if (why.find("for which it would wait") == std::string::npos) return;
        }
        if (world.jobs) {
          try {
            world.jobs->close();
            why = "the orchestrator was closed";
          } catch (const Error& error) {
            why = error.message();
          }
        }
      },
      [&](World& world) {
        EXPECT_THAT(why, HasSubstr("for which it would wait"));
        world.runtime->submit(world.nothing).wait();
      });
}

TEST_P(CallbackTest, TasksMayBeSubmittedInEach) {
  Ticket ticket;
  for_each([&](World& world) { ticket = world.runtime->submit(world.nothing); }, [&](World&) { ticket.wait(); });
}

TEST_P(CallbackTest, ExceptionsOfEachAreCaught) {
  for (const Kind& kind : kKinds) {
    // Nothing can catch an exception of a deleter.
    const std::string_view name = kind.name;
    if (name.starts_with("What") || name == "EndOfABuffer") continue;
    SCOPED_TRACE(kind.name);
    World world;
    world.open(options());
    std::atomic<bool> thrown{false};
    world.act = [&] {
      thrown = true;
      throw std::runtime_error("thrown by a callback");
    };
    kind.provoke(world);
    ASSERT_TRUE(eventually([&] { return thrown.load(); }));
    world.runtime->submit(world.nothing).wait();
    world.watch.reset();
    world.jobs.reset();
    try {
      world.runtime->stop_trace();
    } catch (const std::runtime_error&) {
      // The writer's exception.
    }
    world.runtime->close();
  }
}

TEST_P(CallbackTest, LastOwnerMayReleaseTheRuntimeInEach) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    World world;
    world.open(options());
    std::atomic<bool> gone{false};
    Ticket last;
    std::promise<void> provoked;
    std::shared_future<void> is_provoked = provoked.get_future().share();
    world.act = [&] {
      if (kind.own_thread) is_provoked.wait();  // until this is the last owner
      last = world.runtime->submit(world.nothing);
      world.jobs.reset();
      world.runtime.reset();
      gone = true;
    };
    const Operator<> op = world.nothing;
    kind.provoke(world);
    provoked.set_value();
    ASSERT_TRUE(eventually([&] { return gone.load(); }));
    ASSERT_TRUE(eventually([&] {
      try {
        static_cast<void>(op.lowered_name("nothing"));
        return false;
      } catch (const Error& error) {
        return error.kind() == errc::stale_handle;
      }
    })) << "the runtime was not closed";
    last.wait();
  }
}

// Runs in a child, since the process ends. CUDA does not work in one.
TEST_P(CallbackTest, ExitInEachEndsTheProcess) {
  if (kSanitized) GTEST_SKIP() << "a search for leaks as the process ends finds what its threads still have";
  if (!on_cpu()) GTEST_SKIP() << "CUDA does not work in a forked child";
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    const pid_t child = start_child([&] {
      alarm(30);
      static World world;  // destroyed at the end of the process
      world.open(options());
      world.act = [] { std::exit(5); };
      kind.provoke(world);
      for (;;) pause();
      return 0;
    });
    const int end = end_of(child);
    EXPECT_TRUE(WIFEXITED(end) && WEXITSTATUS(end) == 5) << end;
  }
}

TEST_P(CallbackTest, ForkInEachEndsTheReturningChild) {
  // ThreadSanitizer also refuses to start threads in a forked child of a process that has threads.
  if (kSanitized) GTEST_SKIP() << "another thread may hold a lock of the sanitizer's allocator at the fork";
  if (!on_cpu()) GTEST_SKIP() << "CUDA does not work in a forked child";
  for (const Kind& kind : kKinds) {
    if (!kind.own_thread || std::string_view(kind.name).starts_with("What")) continue;
    SCOPED_TRACE(kind.name);
    const int end = run_child([&] {
      alarm(30);
      World world;
      world.open(options());
      std::atomic<pid_t> forked{0};
      world.act = [&forked] {
        const pid_t its = fork();
        if (its == 0)
          alarm(10);
        else
          forked = its;
      };
      kind.provoke(world);
      while (forked == 0) std::this_thread::sleep_for(100us);
      int status = -1;
      if (waitpid(forked, &status, 0) != forked || !WIFEXITED(status)) return 1;
      world.runtime->submit(world.nothing).wait();
      world.watch.reset();
      world.jobs.reset();
      world.runtime->close();
      return 0;
    });
    EXPECT_TRUE(ended_well(end)) << end;
  }
}

}  // namespace
}  // namespace dwell::test
