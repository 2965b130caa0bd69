// Observation of a runtime without memory: events are delivered, or their loss is reported; the runtime keeps working.
#include <dwell/inspect.hpp>
#include <dwell/log.hpp>
#include <dwell/metrics.hpp>
#include <dwell/trace.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "live/client.hpp"
#include "tests/scarcity/harness.hpp"

namespace dwell::test {
namespace {

class ScarceObservationTest : public ScarceMemoryTest {
 protected:
  ScarceObservationTest() {
    std::string path = std::filesystem::temp_directory_path() / "dwell-scarcity-XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
    setenv("DWELL_LIVE_DIR", folder_.c_str(), 1);
  }
  ~ScarceObservationTest() override {
    unsetenv("DWELL_LIVE_DIR");
    std::filesystem::remove_all(folder_);
  }

  // Counts events of a trace without throwing.
  class Counting : public TraceWriter {
   public:
    void write(const Trace& piece) override {
      const ScarceMemory::Spared spared;
      for (const TraceEvent& event : piece.events) {
        if (event.kind == TraceEvent::Kind::mark) ++marks;
        if (event.kind == TraceEvent::Kind::node) ++nodes;
        EXPECT_TRUE(event.name == TraceEvent::kNoName || event.name < piece.names.size());
      }
      dropped += piece.dropped;
    }
    void finish() override { finished = true; }

    u32 marks = 0;
    u32 nodes = 0;
    u64 dropped = 0;
    bool finished = false;
  };

  // Launches a graph with names, and marks. Counts the marks and the nodes that run.
  static void work(World& world, u32 rounds, u32& marks, u32& nodes) {
    Graph graph("a graph with a long name, which is told with each launch");
    for (int i = 0; i < 4; ++i) graph.add("a node with a long name, number " + std::to_string(i), world.op, world.cells, 0U);
    GraphExec exec = world.runtime->instantiate(graph);
    for (u32 i = 0; i < rounds; ++i) {
      const Ticket ticket = world.runtime->launch(exec);
      nodes += 4;
      ticket.wait();
      world.runtime->mark("a mark with a long text, number " + std::to_string(i));
      ++marks;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // one piece for each
    }
  }

  std::filesystem::path folder_;
};

// A trace that ends without an error contains all events.
TEST_F(ScarceObservationTest, Traces) {
  for (const long many : {kOne, kPressure}) {
    at_every_allocation(
        [](World& world) {
          const auto writer = [] {
            const ScarceMemory::Spared spared;
            return std::make_shared<Counting>();
          }();
          u32 marks = 0;
          u32 nodes = 0;
          bool threw = throws([&] { world.runtime->start_trace(writer); });
          if (threw) return;
          const bool worked = !throws([&] { work(world, 3, marks, nodes); });
          threw = throws([&] { world.runtime->stop_trace(); });
          ScarceMemory::relent();
          EXPECT_EQ(writer->finished, !threw);
          if (!threw && worked && writer->dropped == 0) {
            EXPECT_EQ(writer->marks, marks);
            EXPECT_EQ(writer->nodes, nodes);
          }
          // The next trace is complete.
          const auto next = std::make_shared<Counting>();
          world.runtime->start_trace(next);
          marks = nodes = 0;
          work(world, 1, marks, nodes);
          world.runtime->stop_trace();
          EXPECT_EQ(next->marks, marks);
          EXPECT_EQ(next->nodes, nodes);
        },
        many);
  }
}

TEST_F(ScarceObservationTest, TracesInFiles) {
  for (const char* const name : {"trace.json", "trace.pftrace"}) {
    const std::filesystem::path path = folder_ / name;
    for (const long many : {kOne, kPressure}) {
      at_every_allocation(
          [&](World& world) {
            u32 marks = 0;
            u32 nodes = 0;
            if (throws([&] { world.runtime->start_trace(trace_file(path)); })) return;
            static_cast<void>(throws([&] { work(world, 2, marks, nodes); }));
            const bool threw = throws([&] { world.runtime->stop_trace(); });
            ScarceMemory::relent();
            if (!threw && path.extension() == ".json") {
              std::ifstream file(path);
              const std::string text{std::istreambuf_iterator<char>(file), {}};
              EXPECT_TRUE(text.starts_with('{') && text.ends_with("}}\n")) << text;
            }
          },
          many);
    }
  }
}

TEST_F(ScarceObservationTest, Snapshots) {
  for (const long many : {kOne, kPressure}) {
    at_every_allocation(
        [](World& world) {
          const std::vector<std::function<void()>> looks{
              [&] { world.runtime->set_metrics(Metering::times); },
              [&] { static_cast<void>(to_openmetrics(world.runtime->metrics())); },
              [&] { static_cast<void>(to_json(world.runtime->metrics())); },
              [&] { static_cast<void>(to_string(world.runtime->diagnose())); },
              [&] { static_cast<void>(to_string(world.runtime->inspect("op"))); },
              [&] { static_cast<void>(world.runtime->info()); },
              [&] { static_cast<void>(world.runtime->image()); },
              [&] { static_cast<void>(world.runtime->logs()); },
          };
          for (const auto& look : looks) {
            static_cast<void>(throws(look));
            world.tickets.push_back(world.runtime->submit(world.op, world.cells, 0U));
          }
          ScarceMemory::relent();
          for (const auto& look : looks) look();
        },
        many);
  }
}

// A watch continues, or reports that it ended.
TEST_F(ScarceObservationTest, Watches) {
  for (const long many : {kOne, kPressure}) {
    at_every_allocation(
        [](World& world) {
          std::atomic<u32> seen{0};
          Watch watch;
          if (throws([&] { watch = world.runtime->watch("op", std::chrono::microseconds(200), [&](const Inspection&) { ++seen; }); }))
            return;
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          ScarceMemory::relent();
          const u32 before = seen;
          EXPECT_TRUE(watch.active()) << "what is looked at is there";
          EXPECT_TRUE(eventually([&] { return seen > before; }, std::chrono::seconds(5)));
        },
        many);
  }
}

// Each line is delivered, or counted as dropped.
TEST_F(ScarceObservationTest, Lines) {
  const std::string source =
      "DWELL_OPERATOR(say)(dwell::Group g, dwell::u32 number) {\n"
      "  if (g.rank() == 0) dwell::log(g, dwell::level::info, \"number {}, at the start of a long line\", number);\n}\n";
  for (const long many : {kOne, kPressure}) {
    std::atomic<u32> heard{0};
    Options options;
    options.log.sink = [&](const LogRecord&) { ++heard; };
    at_every_allocation(
        [&](World& world) {
          world.open(options);
          world.fill();
          world.runtime->define("say", source);
          heard = 0;
        },
        [&](World& world) {
          u32 said = 0;
          Operator<> say;
          if (throws([&] { say = world.runtime->define("say", source); })) return;
          static_cast<void>(throws([&] {
            for (u32 i = 0; i < 4; ++i) {
              const Ticket ticket = world.runtime->submit(say, i);
              ++said;
              ticket.wait();
              static_cast<void>(world.runtime->logs());
            }
          }));
          ScarceMemory::relent();
          world.runtime->park();
          static_cast<void>(world.runtime->logs());
          world.runtime->resume();
          const Metrics counts = world.runtime->metrics();
          u64 dropped = 0;
          for (const u64 count : counts.log_dropped) dropped += count;
          EXPECT_EQ(heard, counts.log_lines);
          EXPECT_EQ(counts.log_lines + dropped, said);
        },
        many);
  }
}

TEST_F(ScarceObservationTest, CallingBack) {
  for (const long many : {kOne, kPressure}) {
    at_every_allocation(
        [](World& world) {
          std::atomic<u32> called{0};
          u32 asked = 0;
          static_cast<void>(throws([&] {
            for (u32 i = 0; i < 4; ++i) {
              const Ticket ticket = world.runtime->submit(world.op, world.cells, i % 2);
              ticket.then([&](const Ticket&) {
                ++called;
                if (i == 1) throw Error(errc::invalid_argument, "a text that has to be told by Options::warn");
              });
              ++asked;
            }
            world.runtime->wait_all();
          }));
          ScarceMemory::relent();
          world.runtime->close();
          EXPECT_EQ(called, asked);
        },
        many);
  }
}

// Requests as of another process, here the same one, so that memory is short on both sides.
TEST_F(ScarceObservationTest, AnswersToOtherProcesses) {
  for (const long many : {kOne, kOne + 3}) {
    at_every_allocation(
        [](World& world) {
          world.open();
          world.fill();
        },
        [](World& world) {
          const auto ask = [&](const std::function<void(const live::Client&, u64)>& question) {
            return throws([&] {
              const live::Client client = live::Client::of(getpid());
              question(client, client.runtimes().front());
            });
          };
          const std::vector<std::function<void(const live::Client&, u64)>> questions{
              [](const live::Client& client, u64 runtime) { static_cast<void>(client.metrics(runtime)); },
              [](const live::Client& client, u64 runtime) { static_cast<void>(client.diagnosis(runtime)); },
              [](const live::Client& client, u64 runtime) { static_cast<void>(client.inspect(runtime, "op")); },
              [](const live::Client& client, u64 runtime) { static_cast<void>(client.logs(runtime, 0, 10)); },
              [](const live::Client& client, u64 runtime) {
                std::ostringstream text;
                client.trace(runtime, std::chrono::milliseconds(1), "perfetto", text);
              },
          };
          for (const auto& question : questions) static_cast<void>(ask(question));
          ScarceMemory::relent();
          for (const auto& question : questions) EXPECT_FALSE(ask(question)) << "it does not answer any more";
          EXPECT_EQ(world.runtime->submit(world.op, world.cells, 0U).status(), status::ok);
        },
        many);
  }
}

}  // namespace
}  // namespace dwell::test
