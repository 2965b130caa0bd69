// Programs of a gang as nodes of graphs, compared with the batch's tasks.
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/gang_program.hpp>

#include "tensor/gang/compiled_gang.hpp"
#include "tests/conformance/gang_in_threads.hpp"
#include "tests/conformance/random_tensors.hpp"
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

constexpr const char* kLaunchOften = R"(
DWELL_OPERATOR(launch_often)(dwell::Group g, dwell::Exec exec, dwell::u32 count) {
  for (dwell::u32 i = 0; i < count; ++i) g.launch(exec);
})";

// A program as it is on the device: on a CPU also with a gang of its workers, which run the text of a GPU's with one thread each.
class GangProgramNodesTest : public DeviceTest {
 protected:
  static constexpr unsigned kScratch = 64U << 10U;
  static constexpr u32 kWorkers = 6;  // on a CPU
  using Work = std::function<void(Batch&)>;

  Options with_room() const {
    Options given = options();
    given.scratch_bytes = kScratch;
    if (on_cpu()) given.workers = kWorkers;
    return given;
  }
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    open(with_room());
  }
  void open(const Options& options) {
    runtime_.emplace(options);
    add = runtime().define<Add>("add", kAdd);
    fail = runtime().define<Fail>("fail", kFail);
    launch_often = runtime().define<void(Exec, u32)>("launch_often", kLaunchOften);
  }
  Runtime& runtime() { return *runtime_; }

  TensorView tensor(const Dims& shape, float scale = 1) { return tensors.make(runtime(), shape, scale); }
  static bool needed(const TensorView::Extent&) { return true; }

  // A network whose result is its next input, with a state.
  Work network() {
    const TensorView x = tensor({1, 32});
    const TensorView w1 = tensor({256, 32}, 0.2F);
    const TensorView w2 = tensor({128, 256}, 0.1F);
    const TensorView w3 = tensor({32, 128}, 0.1F);
    const TensorView b1 = tensor({256});
    const TensorView h1 = tensor({1, 256});
    const TensorView h2 = tensor({1, 128});
    const TensorView state = tensor({1, 128});
    return [=](Batch& batch) {
      batch.addmm(h1, b1, x, w1.transpose(0, 1));
      batch.assign(h1, ops::tanh(h1));
      batch.mm(h2, h1, w2.transpose(0, 1));
      batch.assign(state, Expression(state) * 0.5 + ops::tanh(h2));
      batch.softmax(h2, state, 1);
      batch.mm(x, state, w3.transpose(0, 1));
    };
  }

  // Notes the operations without running them.
  OperationList noted(const Work& work) {
    OperationList list;
    runtime().capture([&] {
      Batch batch(runtime());
      batch.note_in(list);
      work(batch);
      batch.flush();
    });
    return list;
  }
  void run_tasks(const Work& work, u32 times) {
    for (u32 i = 0; i < times; ++i) {
      Batch batch(runtime());
      work(batch);
      batch.flush().wait();
    }
  }
  void expect_same(const std::vector<std::vector<float>>& expected) {
    const std::vector<std::vector<float>> given = tensors.all();
    for (std::size_t i = 0; i < given.size(); ++i)
      for (std::size_t j = 0; j < given[i].size(); ++j)
        ASSERT_NEAR(given[i][j], expected[i][j], 2e-4 * (1 + std::fabs(expected[i][j]))) << "tensor " << i << ", element " << j;
  }

  tensor::gang::Limits limits_in_loop(const GangSettings& settings) {
    tensor::gang::Limits limits = limits_of_gpu(settings, 1);
    limits.in_loop = true;
    limits.local_bytes = kScratch;
    limits.most_members = kWorkers;
    return limits;
  }
  // Calls `use` with what adds the program to a graph: for each form that this device has.
  void for_each_form(const OperationList& list, const GangSettings& settings, const std::function<void(std::function<Node(Graph&)>)>& use) {
    GangSettings in_loop = settings;
    in_loop.in_loop = true;
    const GangProgram program(runtime(), list, needed, in_loop);
    EXPECT_LE(program.members(), runtime().info().workers);
    use([&](Graph& graph) { return graph.add("program", program); });
    if (!on_cpu() || HasFatalFailure() || kThreadSanitized) return;  // which knows nothing of words ordered by their values
    const tensor::gang::Plan plan = tensor::gang::plan_of(tensor::noted_in(list), needed, limits_in_loop(settings));
    const tensor::gang::GangInLoop loop(runtime(), plan);
    use([&](Graph& graph) {
      return graph.add("program", loop.op, loop.list, loop.words, loop.numbers, settings.repeats, gang(plan.members));
    });
  }

  Operator<Add> add;
  Operator<Fail> fail;
  Operator<void(Exec, u32)> launch_often;

 private:
  std::optional<Runtime> runtime_;

 protected:
  RandomTensors tensors{7};
};

TEST_P(GangProgramNodesTest, TheHostLaunchesItOftenOneBehindTheOther) {
  constexpr u32 kLaunches = 5;
  const Work work = network();
  const std::vector<std::vector<float>> state = tensors.all();
  const OperationList list = noted(work);
  run_tasks(work, 2 * kLaunches);
  const std::vector<std::vector<float>> expected = tensors.all();
  // Each number of members is compiled, which takes long under sanitizers.
  for (const std::uint32_t members : kSanitized ? std::vector{0U, 2U} : std::vector{0U, 1U, 2U, 6U}) {
    for_each_form(list, {.members = members}, [&](const std::function<Node(Graph&)>& add_to) {
      tensors.restore(state);
      const auto cells = filled<u32>(runtime(), 2, 0);
      Graph graph;
      const Node before = graph.add("before", add, cells, 0U, 1U);
      const Node once = add_to(graph).after(before);
      const Node twice = add_to(graph).after(once);
      graph.add("behind", add, cells, 1U, 1U).after(twice);
      const GraphExec exec = runtime().instantiate(graph);
      for (u32 i = 0; i < kLaunches; ++i) runtime().launch(exec);
      runtime().wait_all();
      EXPECT_EQ(read(cells), std::vector<u32>(2, kLaunches));
      ASSERT_NO_FATAL_FAILURE(expect_same(expected)) << members << " members";
    });
    if (HasFatalFailure()) return;
  }
}

TEST_P(GangProgramNodesTest, AnOperatorLaunchesIt) {
  constexpr u32 kLaunches = 20;
  const Work work = network();
  const std::vector<std::vector<float>> state = tensors.all();
  const OperationList list = noted(work);
  run_tasks(work, kLaunches + 1);
  const std::vector<std::vector<float>> expected = tensors.all();
  for_each_form(list, {.members = 4}, [&](const std::function<Node(Graph&)>& add_to) {
    tensors.restore(state);
    Graph graph;
    add_to(graph);
    const GraphExec exec = runtime().instantiate(graph);
    runtime().launch(exec);
    runtime().submit(launch_often, exec, kLaunches).wait();
    runtime().wait_all();
    expect_same(expected);
  });
}

TEST_P(GangProgramNodesTest, ATaskOfTheRingRunsIt) {
  const Work work = network();
  const std::vector<std::vector<float>> state = tensors.all();
  const OperationList list = noted(work);
  run_tasks(work, 3);
  const std::vector<std::vector<float>> expected = tensors.all();
  tensors.restore(state);
  for (const std::uint32_t members : {1U, 3U}) {
    tensors.restore(state);
    const GangProgram program(runtime(), list, needed, {.members = members, .in_loop = true});
    program.launch();
    Graph graph;
    graph.add(program);
    const Ticket node = runtime().launch(runtime().instantiate(graph), drain);
    program.launch();
    runtime().wait_all();
    EXPECT_EQ(node.status(), status::ok);
    ASSERT_NO_FATAL_FAILURE(expect_same(expected));
  }
}

TEST_P(GangProgramNodesTest, RunsRepeatWithSlices) {
  constexpr u32 kRepeats = 5;
  const TensorView x = tensor({1, 64});
  const TensorView w = tensor({192, 64}, 0.1F);
  const TensorView u = tensor({192, 192}, 0.05F);
  const TensorView h = tensor({1, 192});
  const TensorView a = tensor({1, 192});
  const TensorView b = tensor({1, 192});
  const TensorView xs = tensor({2 * kRepeats, 1, 64});
  const TensorView hs = tensor({kRepeats, 1, 192});
  const Work work = [&](Batch& batch) {
    batch.mm(a, x, w.transpose(0, 1));
    batch.mm(b, h, u.transpose(0, 1));
    batch.assign(h, ops::tanh(Expression(a) + b));
  };
  const std::vector<std::vector<float>> state = tensors.all();
  const OperationList list = noted(work);
  for (int run = 0; run < 2; ++run)
    for (std::int64_t i = 0; i < kRepeats; ++i) {
      Batch batch(runtime());
      batch.assign(x, Expression(xs.slice(0, i, 1).reshape({1, 64})));
      work(batch);
      batch.assign(hs.slice(0, i, 1).reshape({1, 192}), Expression(h));
      batch.flush().wait();
    }
  std::vector<std::vector<float>> expected = tensors.all();
  GangSettings settings{.members = 3, .repeats = kRepeats};
  settings.slices.push_back({.memory = x.extent(), .first = xs.address(), .stride = 4 * 64});
  settings.slices.push_back({.memory = h.extent(), .first = hs.address(), .stride = 4 * 192, .output = true});
  for_each_form(list, settings, [&](const std::function<Node(Graph&)>& add_to) {
    tensors.restore(state);
    Graph graph;
    add_to(graph);
    const GraphExec exec = runtime().instantiate(graph);
    runtime().launch(exec);
    runtime().launch(exec).wait();
    expected.front() = tensors.all().front();  // x itself: slices come to the members' memory
    expect_same(expected);
  });
}

TEST_P(GangProgramNodesTest, ACancelledRunLeavesTheNextOneWhole) {
  const Work work = network();
  const std::vector<std::vector<float>> state = tensors.all();
  const OperationList list = noted(work);
  run_tasks(work, 3);
  const std::vector<std::vector<float>> expected = tensors.all();
  for_each_form(list, {.members = 3}, [&](const std::function<Node(Graph&)>& add_to) {
    tensors.restore(state);
    auto goes = filled<u32>(runtime(), 1, 0);
    Graph failing;
    failing.add("fails", fail, 5);
    Graph graph;
    const Node first = graph.add_if("if", goes, failing);
    add_to(graph).after(first);
    const GraphExec exec = runtime().instantiate(graph);
    for (const u32 fails : {0U, 1U, 0U, 1U, 0U}) {
      goes.write(std::vector{fails});
      EXPECT_EQ(runtime().launch(exec).status(), fails != 0 ? 5 : status::ok);
    }
    expect_same(expected);
  });
}

TEST_P(GangProgramNodesTest, LeasesEndBetweenRuns) {
  Options brief = with_room();
  brief.lease = 1ms;
  open(brief);
  constexpr u32 kLaunches = kSanitized ? 20 : 200;
  const TensorView x = tensor({1, 128});
  const TensorView y = tensor({1, 128});
  const TensorView w = tensor({128, 128}, 0.1F);
  const Work work = [&](Batch& batch) {
    batch.mm(y, x, w.transpose(0, 1));
    batch.assign(x, ops::tanh(y));
  };
  const std::vector<std::vector<float>> state = tensors.all();
  const OperationList list = noted(work);
  run_tasks(work, 2 * kLaunches);
  const std::vector<std::vector<float>> expected = tensors.all();
  for_each_form(list, {.members = 5}, [&](const std::function<Node(Graph&)>& add_to) {
    tensors.restore(state);
    Graph graph;
    const Node once = add_to(graph);
    add_to(graph).after(once);
    const GraphExec exec = runtime().instantiate(graph);
    for (u32 i = 0; i < kLaunches; ++i) {
      runtime().launch(exec);
      if (i % 16 == 0) std::this_thread::sleep_for(1ms);
    }
    runtime().wait_all();
    expect_same(expected);
  });
}

TEST_P(GangProgramNodesTest, AProgramThatDoesNotFitNamesTheOption) {
  const auto try_with = [&](unsigned scratch_bytes) {
    Options given = with_room();
    given.scratch_bytes = scratch_bytes;
    open(given);
    const OperationList list = noted(network());
    if (!on_cpu()) return GangProgram(runtime(), list, needed, {.members = 2, .in_loop = true}).members();
    tensor::gang::Limits limits = limits_in_loop({.members = 2});
    limits.local_bytes = scratch_bytes;
    return tensor::gang::plan_of(tensor::noted_in(list), needed, limits).members;
  };
  std::string text;
  try {
    try_with(1024);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), errc::unsupported);
    text = error.what();
  }
  ASSERT_THAT(text, HasSubstr("the option scratch_bytes gives it 1024"));
  const std::size_t at = text.find("take ");
  ASSERT_NE(at, std::string::npos) << text;
  const auto bytes = static_cast<unsigned>(std::stoul(text.substr(at + 5)));
  EXPECT_GT(bytes, 1024U);
  EXPECT_EQ(try_with(bytes), 2U) << text;
  EXPECT_THROW(try_with(bytes - 16), Error);
}

TEST_P(GangProgramNodesTest, MistakesAreNamed) {
  const OperationList list = noted(network());
  Graph graph;
  const GangProgram kernel(runtime(), list, needed);
  if (on_cpu())
    graph.add("a task there", kernel);
  else
    DWELL_EXPECT_ERROR(graph.add(kernel), errc::invalid_argument, HasSubstr("GangSettings::in_loop"));
  const GangProgram program(runtime(), list, needed, {.in_loop = true});
  int stream = 0;
  DWELL_EXPECT_ERROR(program.launch(&stream), errc::invalid_argument, HasSubstr("in no stream"));
  DWELL_EXPECT_ERROR(program.enqueue(&stream), errc::unsupported, HasSubstr("launch it"));
  Runtime other(with_room());
  const auto its = other.define<Add>("add", kAdd);
  Graph foreign;
  foreign.add(its, filled<u32>(other, 1, 0), 0U, 1U);
  DWELL_EXPECT_ERROR(foreign.add("foreign", program), errc::invalid_argument, HasSubstr("another runtime"));
}

DWELL_ON_EVERY_DEVICE(GangProgramNodesTest);

}  // namespace
}  // namespace dwell::test
