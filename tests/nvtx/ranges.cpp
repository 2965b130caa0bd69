// NVTX ranges as seen by a tool (injection.cpp). NVTX looks for a tool once in a process, so each case runs in a child.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/dwell.hpp>

#include "jit/base/temporary_directory.hpp"
#include "runtime/observe/host_events.hpp"
#include "tests/unit/child.hpp"

namespace dwell::test {
namespace {

using testing::IsEmpty;

struct Event {
  long thread = 0;
  std::string what;
  std::string domain;
  std::string text;
};

class NvtxTest : public testing::Test {
 protected:
  // Returns a tool's events while a child runs `work` and exits with its result.
  std::vector<Event> seen(const std::function<int()>& work, const char* library = DWELL_TEST_NVTX_INJECTION) {
    const std::filesystem::path file = folder_.path() / "events";
    std::filesystem::remove(file);
    const int status = run_child([&] {
      setenv("NVTX_INJECTION64_PATH", library, 1);
      setenv("DWELL_TEST_NVTX_FILE", file.c_str(), 1);
      return work();
    });
    EXPECT_TRUE(ended_well(status)) << status;
    std::vector<Event> events;
    std::ifstream in(file);
    for (Event event; in >> event.thread >> event.what >> event.domain;) {
      std::getline(in, event.text);
      if (!event.text.empty()) event.text.erase(0, 1);  // the separating blank
      events.push_back(event);
    }
    return events;
  }

  static Options options() {
    Options options;
    options.device = "cpu";
    options.workers = 2;
    return options;
  }

 private:
  jit::TemporaryDirectory folder_;
};

constexpr const char* kAdd = R"(
DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<int> to, int value) { for (auto i : g.range(to.size())) to[i] += value; }
)";

TEST_F(NvtxTest, ToolSeesEventsOfHostThreads) {
  const std::vector<Event> events = seen([] {
    Runtime runtime(options());
    const auto add = runtime.define<void(Span<int>, int)>("add", kAdd);
    const auto cells = runtime.allocate<int>(16);
    runtime.mark("the work begins");
    for (int i = 0; i < 10; ++i) runtime.submit(add, cells, 1, link);
    runtime.wait_all();
    runtime.submit_many(add, 5, [&](std::size_t i, auto put) { put(cells.slice(i, 1), 1); });
    runtime.submit(add, cells, 1, link).wait();
    Graph graph;
    graph.add(add, cells, 1);
    const GraphExec exec = runtime.instantiate(graph);
    runtime.launch(exec).wait();
    runtime.park();
    runtime.resume();
    Batch(runtime).flush();
    return 0;
  });
  std::map<std::string, int> begun;
  std::map<long, std::vector<std::string>> open;  // by thread
  for (const Event& event : events) {
    EXPECT_EQ(event.domain, "dwell");
    std::vector<std::string>& mine = open[event.thread];
    if (event.what == "push") {
      ++begun[event.text];
      mine.push_back(event.text);
    } else if (event.what == "pop") {
      ASSERT_FALSE(mine.empty()) << "thread " << event.thread << " ends what it has not begun";
      mine.pop_back();
    } else {
      ++begun[event.what + " " + event.text];
    }
  }
  for (const auto& [thread, names] : open) EXPECT_THAT(names, IsEmpty()) << "left open by thread " << thread;
  EXPECT_EQ(begun["submit"], 10 + 1 + 1);
  EXPECT_EQ(begun["wait"], 2);
  EXPECT_EQ(begun["launch"], 1);
  EXPECT_EQ(begun["park"], 1);
  EXPECT_EQ(begun["flush"], 1);
  EXPECT_EQ(begun["compile add"], 1);
  EXPECT_GE(begun["hand_over"], 1);
  EXPECT_EQ(begun["mark the work begins"], 1);
}

// A timeline and a tool see the same events; the timeline has none from before its start.
TEST_F(NvtxTest, TimelineWorksBesideATool) {
  const std::vector<Event> events = seen([] {
    class Submits : public TraceWriter {
     public:
      void write(const Trace& piece) override { count += std::ranges::count(piece.events, TraceEvent::Kind::submit, &TraceEvent::kind); }
      void finish() override {}
      std::ptrdiff_t count = 0;
    };
    Runtime runtime(options());
    const auto add = runtime.define<void(Span<int>, int)>("add", kAdd);
    const auto cells = runtime.allocate<int>(16);
    const auto submits = std::make_shared<Submits>();
    const auto submit = [&](int count) {
      for (int i = 0; i < count; ++i) runtime.submit(add, cells, 1, link);
      runtime.wait_all();
    };
    submit(2);
    runtime.start_trace(submits);
    submit(3);
    runtime.stop_trace();
    submit(4);
    return submits->count == 3 ? 0 : 1;
  });
  EXPECT_EQ(std::ranges::count_if(events, [](const Event& event) { return event.what == "push" && event.text == "submit"; }), 2 + 3 + 4);
}

TEST_F(NvtxTest, WithoutAToolEventsAreOff) {
  for (const char* const library : {"", "/nowhere/libtool.so"})
    EXPECT_THAT(seen([] { return runtime::HostEvents().wanted() == 0 ? 0 : 1; }, library), IsEmpty());
}

TEST_F(NvtxTest, ToolAloneKeepsNoEvents) {
  const std::vector<Event> events = seen([] {
    runtime::HostEvents mine;
    const auto kept = [&] {
      { const runtime::HostSpan span(&mine, TraceEvent::Kind::park); }
      std::vector<runtime::HostEvents::Event> all;
      mine.take(all);
      return all.size();
    };
    const bool before = kept() == 0;
    mine.want(true);
    const bool meanwhile = kept() == 1;
    mine.want(false);
    return before && meanwhile && kept() == 0 ? 0 : 1;
  });
  EXPECT_EQ(std::ranges::count(events, "push", &Event::what), 3);
  EXPECT_EQ(std::ranges::count(events, "pop", &Event::what), 3);
}

}  // namespace
}  // namespace dwell::test
