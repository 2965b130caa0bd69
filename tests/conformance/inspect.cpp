// Inspection of operators' variables and of the runtime's structures while it works.
#include <array>
#include <atomic>
#include <future>
#include <stdexcept>
#include <utility>

#include <dwell/inspect.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;

class InspectTest : public DeviceTest {
 protected:
  Options writing() {
    Options options = this->options();
    options.inspect_writes = true;
    return options;
  }
};
DWELL_ON_EVERY_DEVICE(InspectTest);

using Note = void(float);
constexpr const char* kNote = R"(
enum class Phase : dwell::u8 { begin, middle };
struct Sums { dwell::u64 count; float last; float spare; };
namespace inner { int hidden = 0; }

float residual = 0.5F;
double table[2][3] = {{0, 1, 2}, {3, 4, 5}};
Phase phase = Phase::begin;
dwell::half small;
Sums sums = {0, 0, 0};
dwell::Seqlock<Sums> guarded;
DWELL_INSPECT(residual)
DWELL_INSPECT(table)
DWELL_INSPECT(phase)
DWELL_INSPECT(small)
DWELL_INSPECT_MEMBERS(sums, count, last)
DWELL_INSPECT_MEMBERS(guarded, count, last, spare)

DWELL_OPERATOR(note)(dwell::Group g, float x) {
  if (g.rank() != 0) return;
  residual = x;
  table[1][2] = x;
  phase = Phase::middle;
  small = dwell::half(x);
  sums = {sums.count + 1, x, 0};
  guarded.store({sums.count, x, 2 * x});
}
)";

TEST_P(InspectTest, VariablesAreReadWithTheirTypes) {
  Runtime runtime(options());
  auto note = runtime.define<Note>("note", kNote);
  EXPECT_EQ(runtime.inspect("residual").as<float>(), 0.5F) << "as the source initialises it";
  runtime.submit(note, 1.25F).wait();
  runtime.submit(note, 2.5F).wait();

  const Inspection residual = runtime.inspect("residual");
  EXPECT_EQ(residual.as<float>(), 2.5F);
  EXPECT_EQ(residual.op, "note");
  EXPECT_EQ(residual.version, 1U);
  EXPECT_TRUE(residual.whole);
  EXPECT_EQ(runtime.inspect("note.residual").as<float>(), 2.5F);
  const Inspection table = runtime.inspect("table");
  EXPECT_THAT(table.value().elements<double>(), ElementsAre(0, 1, 2, 3, 4, 2.5));
  EXPECT_FALSE(table.whole) << "operators may write it meanwhile";
  EXPECT_EQ(runtime.inspect("phase").as<unsigned char>(), 1U);
  EXPECT_EQ(static_cast<float>(runtime.inspect("small").as<half>()), 2.5F);
  const Inspection sums = runtime.inspect("sums");
  EXPECT_EQ(sums.as<u64>("count"), 2U);
  EXPECT_EQ(sums.as<float>("sums.last"), 2.5F);
  EXPECT_FALSE(sums.whole);
  EXPECT_EQ(runtime.inspect("sums.count").as<u64>(), 2U);
  const Inspection guarded = runtime.inspect("guarded");
  EXPECT_EQ(guarded.as<float>("spare"), 5);
  EXPECT_TRUE(guarded.whole);
  EXPECT_EQ(to_string(guarded), "guarded: count 2, last 2.5, spare 5\n");
  EXPECT_EQ(to_string(table),
            "table: [0, 1, 2, 3, 4, 2.5]\n(perhaps not of one moment: it is in no dwell::Seqlock, or that is stored to all the time)\n");

  DWELL_EXPECT_ERROR(static_cast<void>(residual.as<double>()), errc::signature_mismatch, HasSubstr("is float, not double"));
  DWELL_EXPECT_ERROR(static_cast<void>(table.as<double>()), errc::signature_mismatch, HasSubstr("array of 6"));
  DWELL_EXPECT_ERROR(static_cast<void>(sums.value()), errc::invalid_argument, HasSubstr("name one"));
  DWELL_EXPECT_ERROR(static_cast<void>(sums.at("first")), errc::invalid_argument, HasSubstr("sums.count, sums.last"));
  DWELL_EXPECT_ERROR(static_cast<void>(runtime.inspect("hidden")), errc::invalid_argument, HasSubstr("note.guarded.spare"));
}

TEST_P(InspectTest, VariableBelongsToTheCurrentVersion) {
  Runtime runtime(options());
  const auto source = [](const std::string& value) {
    return "float gain = " + value + "; DWELL_INSPECT(gain) DWELL_OPERATOR(scale)(dwell::Group, dwell::Span<float>) {}";
  };
  auto scale = runtime.define("scale", source("1"));
  EXPECT_EQ(runtime.inspect("gain").as<float>(), 1);
  scale.redefine(source("2"));
  const Inspection second = runtime.inspect("gain");
  EXPECT_EQ(second.as<float>(), 2);
  EXPECT_EQ(second.version, 2U);
  scale.rollback();
  EXPECT_EQ(runtime.inspect("gain").as<float>(), 1);
  scale.redefine("DWELL_OPERATOR(scale)(dwell::Group, dwell::Span<float>) {}");
  DWELL_EXPECT_ERROR(static_cast<void>(runtime.inspect("gain")), errc::invalid_argument, HasSubstr("gain"));

  runtime.define("other", "int gain = 3; DWELL_INSPECT(gain) DWELL_OPERATOR(other)(dwell::Group) {}");
  EXPECT_EQ(runtime.inspect("gain").as<int>(), 3);
  runtime.define("third", "int gain = 4; DWELL_INSPECT(gain) DWELL_OPERATOR(third)(dwell::Group) {}");
  DWELL_EXPECT_ERROR(static_cast<void>(runtime.inspect("gain")), errc::invalid_argument, HasSubstr("other.gain, third.gain"));
  EXPECT_EQ(runtime.inspect("third.gain").as<int>(), 4);
}

TEST_P(InspectTest, SeqlockIsNeverReadHalfWritten) {
  Runtime runtime(options());
  auto store_pairs = runtime.define<void(Span<u32>)>("store_pairs", R"(
struct Pair { dwell::u64 a; dwell::u64 b; dwell::u32 c[6]; };
dwell::Seqlock<Pair> pair;
DWELL_INSPECT_MEMBERS(pair, a, b, c)
DWELL_OPERATOR(store_pairs)(dwell::Group g, dwell::Span<dwell::u32> stop) {
  if (g.rank() != 0) return;
  for (dwell::u32 i = 1; dwell::device::load<dwell::device::Order::relaxed, dwell::device::Scope::system>(&stop[0]) == 0; ++i) {
    pair.store({i, ~dwell::u64(i), {i, i, i, i, i, i}});
    // Pauses, since a value that changes all the time is never read whole.
    const dwell::u64 begun = dwell::device::now_ns();
    while (i % 64 == 0 && dwell::device::now_ns() - begun < 200000) {}
  }
}
)");
  auto stop = runtime.allocate<u32>(1, Memory::host);
  stop.data()[0] = 0;
  const Ticket ticket = runtime.submit(store_pairs, stop);
  u64 last = 0;
  int changes = 0;
  const auto end = std::chrono::steady_clock::now() + 10s;
  for (int i = 0; (i < 500 || changes < 3) && std::chrono::steady_clock::now() < end; ++i) {
    const Inspection pair = runtime.inspect("pair");
    if (!pair.whole) continue;
    const u64 a = pair.as<u64>("a");
    ASSERT_TRUE(a == 0 || pair.as<u64>("b") == ~a);
    ASSERT_THAT(pair.at("c").elements<u32>(), Each(static_cast<u32>(a)));
    changes += a != last ? 1 : 0;
    last = a;
  }
  std::atomic_ref(stop.data()[0]).store(1);
  ticket.wait();
  EXPECT_GE(changes, 3) << "it is read while the operator writes it";
}

TEST_P(InspectTest, OperatorsAndStructuresHaveTypedFields) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1, 0);
  for (int i = 0; i < 5; ++i) runtime.submit(add, cells, 0U, 1U).wait();
  EXPECT_EQ(runtime.inspect("add").as<std::uint64_t>("tasks"), 5U);
  EXPECT_GE(runtime.inspect("ring").as<std::uint64_t>("submitted"), 5U);
  EXPECT_EQ(runtime.inspect("ring").as<std::uint64_t>("slots"), runtime.options().ring_slots);
  EXPECT_EQ(runtime.inspect("leases").as<std::uint32_t>("workers"), runtime.info().workers);
  std::uint64_t tasks = 0;
  for (const InspectedValue& value : runtime.inspect("workers").values)
    if (value.name.ends_with(".tasks")) tasks += value.as<std::uint64_t>();
  EXPECT_EQ(tasks, 5U);
  for (const char* const name : {"queue", "held", "image", "graphs", "memory"})
    EXPECT_FALSE(to_string(runtime.inspect(name)).empty()) << name;
  DWELL_EXPECT_ERROR(static_cast<void>(runtime.inspect("rings")), errc::invalid_argument, HasSubstr("ring, queue, held"));
}

TEST_P(InspectTest, TasksThatWaitAreListedByTheirTickets) {
  Options given = with_all_parts();
  given.workers = 2;
  Runtime runtime(given);
  const auto hold = runtime.define<Hold>("hold", kHold);
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  Latch latch(runtime);
  const Ticket first = runtime.submit(hold, latch.words());
  latch.await();
  const Ticket second = runtime.submit(nothing, after(first));
  Graph graph("step");
  graph.add(nothing);
  const Ticket launch = runtime.launch(runtime.instantiate(graph), after(second));
  const auto of = [](const Ticket& ticket, const char* field) { return "ticket " + std::to_string(ticket.position()) + "." + field; };
  Inspection held;
  EXPECT_TRUE(eventually([&] {
    held = runtime.inspect("held");
    return held.at(of(first, "doing")).text == "running";
  }));
  EXPECT_EQ(held.at(of(first, "operator")).text, "hold (version 1)");
  EXPECT_EQ(held.at(of(second, "doing")).text, "waiting_to_start");
  EXPECT_THAT(held.at(of(second, "waits_for")).elements<std::uint64_t>(), testing::ElementsAre(first.position()));
  const Inspection graphs = runtime.inspect("graphs");
  EXPECT_EQ(graphs.at(of(launch, "operator")).text, "graph 'step'");
  EXPECT_THAT(graphs.at(of(launch, "waits_for")).elements<std::uint64_t>(), testing::ElementsAre(second.position()));
  EXPECT_THAT(to_string(runtime.inspect("queue")), HasSubstr("more: 0\n"));
  latch.release();
  runtime.wait_all();
}

TEST_P(InspectTest, WatchReadsRepeatedly) {
  Runtime runtime(options());
  auto note = runtime.define<Note>("note", kNote);
  std::promise<void> seen;
  std::atomic<int> looks = 0;
  // Uses a Seqlock, because sanitizers report reads of a plain variable as a race.
  Watch watch = runtime.watch("guarded.last", 1ms, [&, known = false](const Inspection& now) mutable {
    ++looks;
    if (now.as<float>() == 7 && !std::exchange(known, true)) seen.set_value();
  });
  EXPECT_TRUE(watch.active());
  runtime.submit(note, 7.F).wait();
  ASSERT_EQ(seen.get_future().wait_for(20s), std::future_status::ready);
  watch.stop();
  EXPECT_FALSE(watch.active());
  const int then = looks;
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(looks, then) << "nothing is called behind stop";
  DWELL_EXPECT_ERROR(static_cast<void>(runtime.watch("nothing", 1ms, [](const Inspection&) {})), errc::invalid_argument,
                     HasSubstr("nothing"));
  DWELL_EXPECT_ERROR(static_cast<void>(runtime.watch("residual", 1ns, [](const Inspection&) {})), errc::invalid_argument,
                     HasSubstr("at least 1 us"));
  DWELL_EXPECT_ERROR(static_cast<void>(runtime.watch("residual", 1ms, {})), errc::invalid_argument, HasSubstr("empty"));
}

TEST_P(InspectTest, WatchEndsWithItsRuntimeOrAnException) {
  std::promise<std::string> warned;
  Options options = this->options();
  options.warn = [&](std::string_view line) {
    if (line.find("watch") != std::string_view::npos) warned.set_value(std::string(line));
  };
  Runtime runtime(options);
  runtime.define<Note>("note", kNote);
  std::promise<Watch*> whose;
  std::promise<void> stopped;
  Watch itself = runtime.watch("residual", 1ms, [&, watch = whose.get_future().share()](const Inspection&) {
    watch.get()->stop();
    stopped.set_value();
  });
  whose.set_value(&itself);
  ASSERT_EQ(stopped.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_FALSE(itself.active());

  const Watch throwing = runtime.watch("ring", 1ms, [](const Inspection&) { throw std::runtime_error("enough"); });
  auto warning = warned.get_future();
  ASSERT_EQ(warning.wait_for(20s), std::future_status::ready);
  EXPECT_THAT(warning.get(), AllOf(HasSubstr("'ring'"), HasSubstr("enough")));

  const Watch until_close = runtime.watch("residual", 1ms, [](const Inspection&) {});
  EXPECT_TRUE(until_close.active());
  runtime.close();
  EXPECT_FALSE(until_close.active());
}

TEST_P(InspectTest, VariablesAreWrittenOnlyWithTheOption) {
  constexpr const char* kGain = R"(
float gain = 1;
dwell::u32 weights[3] = {1, 2, 3};
struct Two { dwell::u32 a, b; };
dwell::Seqlock<Two> guarded;
const dwell::u32 limits[2] = {7, 8};
DWELL_INSPECT(limits)
DWELL_INSPECT(gain)
DWELL_INSPECT(weights)
DWELL_INSPECT_MEMBERS(guarded, a)
DWELL_OPERATOR(scale)(dwell::Group g, dwell::Span<float> x) {
  if (g.rank() == 0) x[0] = gain * static_cast<float>(weights[2]);
}
)";
  {
    Runtime runtime(options());
    runtime.define("scale", kGain);
    DWELL_EXPECT_ERROR(runtime.assign("gain", 2.F), errc::unsupported, HasSubstr("the option inspect_writes"));
  }
  Runtime runtime(writing());
  auto scale = runtime.define<void(Span<float>)>("scale", kGain);
  auto x = filled<float>(runtime, 1, 0);
  runtime.assign("gain", 2.5F);
  const std::array<u32, 3> weights = {4, 5, 6};
  runtime.assign("scale.weights", std::span<const u32>(weights));
  runtime.submit(scale, x).wait();
  EXPECT_EQ(read(x)[0], 15);
  EXPECT_THAT(runtime.inspect("weights").value().elements<u32>(), ElementsAre(4, 5, 6));
  DWELL_EXPECT_ERROR(runtime.assign("gain", 2.0), errc::signature_mismatch, HasSubstr("is float, not double"));
  DWELL_EXPECT_ERROR(runtime.assign("weights", 2U), errc::signature_mismatch, HasSubstr("[3], not"));
  DWELL_EXPECT_ERROR(runtime.assign("guarded.a", 2U), errc::unsupported, HasSubstr("Seqlock"));
  DWELL_EXPECT_ERROR(runtime.assign("loss", 2.F), errc::invalid_argument, HasSubstr("scale.gain, scale.weights"));
  const std::array<u32, 2> limits = {9, 9};
  if (on_cpu()) DWELL_EXPECT_ERROR(runtime.assign("limits", std::span<const u32>(limits)), errc::unsupported, HasSubstr("is const"));
  EXPECT_THAT(runtime.inspect("limits").value().elements<u32>(), ElementsAre(7, 8));
}

}  // namespace
}  // namespace dwell::test
