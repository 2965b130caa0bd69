// Each allocation of a call fails once. The call throws, or succeeds without it; then the runtime works, or every call reports why not.
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "live/directory.hpp"
#include "tests/scarcity/harness.hpp"

namespace dwell::test {
namespace {

TEST_F(ScarceMemoryTest, Opening) {
  at_every_allocation([](World&) {}, [](World& world) { world.open(); });
  // A leftover file would be read by each later opening.
  const std::string own = std::to_string(getpid()) + ".";
  for (const auto& file : std::filesystem::directory_iterator(live::Directory::make().path()))
    EXPECT_FALSE(file.path().filename().string().starts_with(own)) << file.path();
}

TEST_F(ScarceMemoryTest, Defining) {
  at_every_allocation([](World& world) { world.runtime->define("other", adds("other", 5)); });
  at_every_allocation([](World& world) { world.runtime->define("other", adds("other", 5)); }, 3);
}

TEST_F(ScarceMemoryTest, Redefining) {
  at_every_allocation([](World& world) {
    world.op.redefine(adds("op", 1));
    world.op.redefine(adds("op", 2));
  });
}

TEST_F(ScarceMemoryTest, RollingBack) {
  at_every_allocation(
      [](World& world) {
        world.open();
        world.fill();
        for (u32 k = 0; k < 4; ++k) world.op.redefine(adds("op", 1 + k % 2));
      },
      [](World& world) {
        for (int i = 0; i < 4; ++i) world.op.rollback();
      });
}

TEST_F(ScarceMemoryTest, DefiningInTheBackground) {
  for (const long many : {1, 3}) {
    at_every_allocation(
        [](World& world) {
          std::vector<std::shared_future<Operator<>>> futures;
          std::vector<std::shared_future<void>> versions;
          std::stop_source stop;
          std::atomic<int> called{0};
          futures.reserve(3);
          versions.reserve(3);
          try {
            for (u32 i = 0; i < 3; ++i) {
              const std::string name = "later" + std::to_string(i);
              const auto done = [&](const auto&) { ++called; };
              futures.push_back(world.runtime->define_async(name, adds(name, 5), {}, {.done = done, .stop = stop.get_token()}));
              versions.push_back(world.op.redefine_async(adds("op", 1 + i % 2)));
            }
          } catch (const std::exception&) {}
          stop.request_stop();
          for (const auto& future : futures) future.wait();
          for (const auto& future : versions) future.wait();
          world.runtime->close();
          EXPECT_EQ(called, static_cast<int>(futures.size()));
          for (const auto& future : futures) static_cast<void>(future.get());
        },
        many);
  }
}

TEST_F(ScarceMemoryTest, SubmittingAndWaiting) {
  at_every_allocation([](World& world) {
    for (u32 i = 0; i < 300; ++i) world.tickets.push_back(world.runtime->submit(world.op, world.cells, i % 50 == 0 ? i : 0U));
    for (const Ticket& ticket : world.tickets) {
      try {
        ticket.wait();
      } catch (const Error& error) {
        if (error.kind() != errc::task_failed) throw;
      }
    }
    Arguments arguments;
    arguments.add(world.cells).add(7U);
    EXPECT_EQ(world.runtime->submit(world.op, arguments).status(), 7);
  });
}

TEST_F(ScarceMemoryTest, Buffers) {
  at_every_allocation([](World& world) {
    std::vector<u32> values(16, 3);
    for (const Memory memory : {Memory::device, Memory::host}) {
      Buffer<u32> buffer = world.runtime->allocate<u32>(16, memory);
      buffer.write(values);
      world.runtime->submit(world.op, buffer, 0U);
      buffer.read(values);
    }
  });
}

// A launch with a ticket adds to each cell the expected number of times, or not at all.
TEST_F(ScarceMemoryTest, Graphs) {
  for (const long many : {1, 3}) {
    at_every_allocation(
        [](World& world) {
          Graph graph;
          Node before;
          for (u32 i = 0; i < 20; ++i) {
            Node node = graph.add(world.op, world.cells, 0U).name("node " + std::to_string(i));
            if (i % 3 != 0) node.after(before);
            before = node;
          }
          Graph inner;
          inner.add(world.op, world.cells, 0U);
          graph.add("inner", inner).after(before);
          graph.add_if("if", world.cells, inner);
          GraphExec exec = world.runtime->instantiate(graph);
          for (u32 i = 0; i < 3; ++i) world.tickets.push_back(world.runtime->launch(exec));
          exec.set(before, 1, 5U);
          world.tickets.push_back(world.runtime->launch(exec, after(world.tickets.back(), world.tickets.front())));
          EXPECT_EQ(world.tickets.back().status(), 5);
          exec.update(graph);
          exec.measure();
          EXPECT_EQ(world.runtime->launch(exec).status(), status::ok);
          static_cast<void>(exec.time(before));
          static_cast<void>(exec.dot());
        },
        many);
  }
}

TEST_F(ScarceMemoryTest, Capturing) {
  at_every_allocation([](World& world) {
    const Graph graph = world.runtime->capture([&] {
      for (u32 i = 0; i < 20; ++i) world.runtime->submit(world.op, world.cells, 0U);
    });
    EXPECT_EQ(world.runtime->launch(world.runtime->instantiate(graph)).status(), status::ok);
  });
}

TEST_F(ScarceMemoryTest, HostNodes) {
  at_every_allocation([](World& world) {
    std::atomic<u32> calls{0};
    Graph graph;
    const Node first = graph.add_host("first", [&] { ++calls; });
    graph.add(world.op, world.cells, 0U).after(first);
    GraphExec exec = world.runtime->instantiate(graph);
    std::vector<Ticket> tickets;
    tickets.reserve(3);
    const bool threw = throws([&] {
      for (u32 i = 0; i < 3; ++i) tickets.push_back(world.runtime->launch(exec));
    });
    ScarceMemory::relent();  // the callbacks refer to locals
    for (const Ticket& ticket : tickets) EXPECT_EQ(ticket.status(), status::ok);
    EXPECT_EQ(calls, tickets.size());
    EXPECT_TRUE(threw || tickets.size() == 3);
  });
}

TEST_F(ScarceMemoryTest, Cancelling) {
  at_every_allocation([](World& world) {
    world.runtime->park();
    static_cast<void>(throws([&] {
      for (u32 i = 0; i < 10; ++i) world.tickets.push_back(world.runtime->submit(world.op, world.cells, 0U));
      for (const Ticket& ticket : world.tickets) static_cast<void>(world.runtime->cancel(ticket));
    }));
    world.runtime->resume();
    world.runtime->wait_all();
  });
}

TEST_F(ScarceMemoryTest, ParkingAndInquiring) {
  at_every_allocation([](World& world) {
    world.runtime->park();
    const bool threw = throws([&] {
      world.tickets.push_back(world.runtime->submit(world.op, world.cells, 0U));
      static_cast<void>(world.runtime->info());
      static_cast<void>(world.runtime->image());
    });
    world.runtime->resume();
    if (threw) return;
    world.runtime->wait_all();
  });
}

TEST_F(ScarceMemoryTest, Kernels) {
  at_every_allocation([](World& world) {
    const Module module = world.runtime->compile("spin");
    world.tickets.push_back(module.kernel("spin").launch({}));
    world.tickets.back().wait();
    world.tickets.push_back(world.kernel.launch({}));
  });
}

TEST_F(ScarceMemoryTest, Closing) {
  for (const Close how : {Close::when_done, Close::now}) {
    at_every_allocation(
        [](World& world) {
          world.open();
          world.fill();
          world.runtime->park();
          for (u32 i = 0; i < 40; ++i) world.tickets.push_back(world.runtime->submit(world.op, world.cells, i % 3));
          world.tickets.push_back(world.kernel.launch({}));
          for (const char* const name : {"a", "b", "c"}) world.runtime->define_async(name, adds(name, 6));
        },
        [how](World& world) {
          world.runtime->close(how);
          // A ticket reports the outcome of its task, or that it is unknown.
          for (std::size_t i = 2; i + 1 < world.tickets.size(); ++i) {
            const int status = world.tickets[i].status();
            const int own = static_cast<int>((i - 2) % 3);
            EXPECT_TRUE(status == own || status == status::cancelled || status == status::interrupted || status == status::lost)
                << status << " of task " << i;
          }
        });
  }
}

TEST_F(ScarceMemoryTest, Rebuilding) {
  at_every_allocation(
      [](World& world) {
        world.open();
        world.fill();
        world.runtime->park();
        for (u32 i = 0; i < 10; ++i) world.tickets.push_back(world.runtime->submit(world.op, world.cells, 0U));
        world.device->break_now();
      },
      [](World& world) {
        const auto rebuild = [&] { world.runtime->rebuild(); };
        if (throws(rebuild)) {
          ScarceMemory::relent();
          rebuild();
        }
        world.op = {};
        world.cells = {};
        world.kernel = {};
      });
}

}  // namespace
}  // namespace dwell::test
