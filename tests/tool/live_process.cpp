// A process that the tool inspects, or that is killed: a runtime on the CPU, with one worker.
//
//   live_process OPERATOR works|keeps|rests|hides|graphs|faults|aborts|exits
//
// Calls the operator in sequence until standard input ends: ten times (rests), or continuously. `keeps` also makes ten objects of the heap
// and an allocation of 100 bytes with each call, and keeps them. `hides` is not inspectable; `graphs` rests after two launches of a graph.
// Prints the position of the tenth ticket when that is complete. `faults`: the operator then stores to an invalid address; `aborts`,
// `exits`: the program ends itself.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include <dwell/dwell.hpp>

namespace {

// Returns whether standard input ends within `milliseconds`; -1: waits for its end.
bool ends(int milliseconds) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, milliseconds) != 0;
}

// An operator that logs its first three calls, and exposes the number of calls.
std::string source_of(const std::string& name) {
  return "dwell::u64 calls_of_" + name + " = 0;\nDWELL_INSPECT(calls_of_" + name + ")\nDWELL_OPERATOR(" + name +
         ")(dwell::Group g, dwell::u64 call) {\n"
         "  if (g.rank() != 0) return;\n"
         "  if (call == 4711) *reinterpret_cast<volatile int*>(16) = 1;\n"
         "  calls_of_" +
         name +
         " = call;\n"
         "  if (call <= 3) dwell::log(g, dwell::level::info, \"call {}\", call);\n"
         "}\n";
}

constexpr const char* kKeep = R"(
struct Entry { dwell::Field<Entry> next; };
DWELL_OBJECT(Entry, next);
DWELL_OPERATOR(keep)(dwell::Group g, dwell::Root<Entry> newest) {
  if (g.rank() != 0) return;
  for (int i = 0; i < 10; ++i) g.at(newest)->ref.set(g, g.make<Entry>(g.at(newest)->ref.get()));
  g.allocate(100);
})";
struct Entry;

}  // namespace

int main(int count, char** words) {
  const std::string_view does = count == 3 ? words[2] : "";
  constexpr std::string_view kDoes[] = {"works", "keeps", "rests", "hides", "graphs", "faults", "aborts", "exits"};
  if (std::ranges::find(kDoes, does) == std::end(kDoes)) return 2;
  const std::string name = words[1];

  dwell::Options options{.device = "cpu", .workers = 1};
  options.live = does != "hides";
  options.log.sink = [](const dwell::LogRecord&) {};
  dwell::Runtime runtime(options);
  const auto op = runtime.define<void(dwell::u64)>(name, source_of(name));

  // A host node that waits until the end, for `dwell stuck` to name.
  dwell::Graph graph("all_along");
  graph.add_host("the_end_of_input", [] { ends(-1); });
  dwell::GraphExec exec = runtime.instantiate(graph);
  const dwell::Ticket waits = runtime.launch(exec);

  if (does == "graphs") {
    dwell::Graph pair("pair");
    pair.add(op, std::uint64_t{98});
    const dwell::Node right = pair.add("right", op, std::uint64_t{99});
    dwell::GraphExec twice = runtime.instantiate(pair);
    runtime.launch(twice).wait();
    twice.set(right, 0, std::uint64_t{97});
    runtime.launch(twice).wait();
  }

  std::uint64_t calls = 0;
  dwell::Ticket last;
  for (; calls < 10; ++calls) {
    last = runtime.submit(op, calls + 1);
    last.wait();
  }
  std::printf("%llu\n", static_cast<unsigned long long>(last.position()));
  std::fflush(stdout);
  if (does == "faults") runtime.submit(op, std::uint64_t{4711}).wait();
  if (does == "aborts") std::abort();
  if (does == "exits") std::exit(3);
  if (does == "keeps") {
    const auto keep = runtime.define<void(dwell::Root<Entry>)>("keep", kKeep);
    const auto newest = runtime.heap().root<Entry>("newest");
    for (int i = 0; i < 10; ++i) runtime.submit(keep, newest).wait();
    std::printf("kept\n");
    std::fflush(stdout);
    while (!ends(5)) runtime.submit(keep, newest).wait();
  }
  while (!ends(does == "rests" || does == "graphs" ? -1 : 5)) runtime.submit(op, ++calls).wait();
  waits.wait();
  return 0;
}
