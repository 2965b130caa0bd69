// Jobs: two kinds of requests, a few heavy ones and many light ones, share the device by limits and weights.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <dwell/dwell.hpp>
#include <dwell/orchestrator.hpp>

int main() {
  constexpr unsigned kLight = 1000;
  constexpr unsigned kHeavy = 20;
  dwell::Runtime runtime;
  auto fill = runtime.define<void(dwell::Span<unsigned>, unsigned)>("fill", R"(
    DWELL_OPERATOR(fill)(dwell::Group g, dwell::Span<unsigned> cells, unsigned value) {
      for (auto i : g.range(cells.size())) cells[i] = value;
    })");
  auto mix = runtime.define<void(dwell::Span<unsigned>, unsigned)>("mix", R"(
    DWELL_OPERATOR(mix)(dwell::Group g, dwell::Span<unsigned> cells, unsigned rounds) {
      for (auto i : g.range(cells.size()))
        for (unsigned round = 0; round < rounds; ++round) cells[i] = cells[i] * 3 + 1;
    })");
  auto cells = runtime.allocate<unsigned>((kLight + kHeavy) * 16);

  // Each job works on 16 cells of its own: they are arguments that it sets.
  struct Kind {
    dwell::JobType type;
    dwell::Node first;
    dwell::Node second;
  };
  dwell::Orchestrator jobs(runtime, {.workers = 64, .memory = 64U << 20U});
  const auto define = [&](const char* name, unsigned rounds, const dwell::JobOptions& options) {
    dwell::Graph graph;
    Kind kind;
    kind.first = graph.add("fill", fill, cells.slice(0, 16), 1U);
    kind.second = graph.add("mix", mix, cells.slice(0, 16), rounds).after(kind.first);
    kind.type = jobs.define(name, std::move(graph), options);
    return kind;
  };
  const Kind heavy = define("heavy", 20000, {.need = {.workers = 16}, .limits = {.workers = 32}});
  const Kind light = define("light", 2, {.priority = 5, .limits = {.waiting = 2 * kLight}});

  std::vector<dwell::Job> all;
  const auto submit = [&](const Kind& kind) {
    const auto mine = cells.slice(16 * all.size(), 16);
    all.push_back(jobs.submit(kind.type, dwell::JobArguments().set(kind.first, 0, mine).set(kind.second, 0, mine)));
  };
  for (unsigned i = 0; i < kHeavy; ++i) submit(heavy);
  for (unsigned i = 0; i < kLight; ++i) submit(light);
  for (const dwell::Job& job : all) job.wait();
  std::fputs(jobs.statistics().table().c_str(), stdout);

  std::vector<unsigned> found(cells.size());
  cells.read(found);
  for (unsigned i = 16 * kHeavy; i < found.size(); ++i)
    if (found[i] != 13) return 1;  // (1 * 3 + 1) * 3 + 1
  return 0;
}
