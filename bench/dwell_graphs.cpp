#include "bench/dwell_graphs.hpp"

#include <array>
#include <utility>
#include <vector>

#include "bench/operators.hpp"

namespace dwell::bench {

namespace {

class Launchable final : public LaunchableGraph {
 public:
  Launchable(Runtime& runtime, GraphExec exec) : runtime_(runtime), exec_(std::move(exec)) {}

  void launch() override { ticket_ = runtime_.launch(exec_); }
  void wait() override { ticket_.wait(); }

 private:
  Runtime& runtime_;
  GraphExec exec_;
  Ticket ticket_;
};

class DwellSide final : public GraphSide {
 public:
  DwellSide(dwell::Options options, const GraphMemory& memory)
      : runtime_(std::move(options)),
        empty_(runtime_.define<void()>("empty", kEmpty)),
        add_(runtime_.define<void(Span<const float>, Span<const float>, Span<float>)>("add", kAdd)),
        visit_(runtime_.define<void(Span<unsigned>, unsigned, unsigned, unsigned, unsigned, unsigned)>("visit", kVisit)),
        cells_(runtime_.allocate<unsigned>(memory.cells)),
        first_(runtime_.allocate<float>(memory.floats)),
        second_(runtime_.allocate<float>(memory.floats)),
        sums_(runtime_.allocate<float>(memory.floats)) {}

  std::string name() const override { return "dwell"; }

  std::unique_ptr<LaunchableGraph> make(const Dag& dag, Work work) override {
    Graph graph;
    std::vector<Node> nodes(dag.size());
    for (std::size_t i = 0; i < dag.size(); ++i) {
      nodes[i] = add(graph, dag, work, i);
      for (const std::uint32_t before : dag.before(i)) nodes[i].after(nodes[before]);
    }
    return std::make_unique<Launchable>(runtime_, runtime_.instantiate(graph));
  }

  void write_cells(std::span<const unsigned> cells) override { cells_.write(cells); }
  void read_cells(std::span<unsigned> cells) override { cells_.read(cells); }
  void write_first(std::span<const float> floats) override { first_.write(floats); }
  void write_second(std::span<const float> floats) override { second_.write(floats); }
  void write_sums(std::span<const float> floats) override { sums_.write(floats); }
  void read_sums(std::span<float> floats) override { sums_.read(floats); }

 private:
  Node add(Graph& graph, const Dag& dag, Work work, std::size_t node) const {
    switch (work) {
      case Work::empty: return graph.add(empty_);
      case Work::sum: return graph.add(add_, first_.slice(0, Adds::kFloats), sums_.slice(0, Adds::kFloats), sums_.slice(0, Adds::kFloats));
      case Work::slice: {
        const std::size_t at = node * Adds::kFloats;
        return graph.add(add_, first_.slice(at, Adds::kFloats), second_.slice(at, Adds::kFloats), sums_.slice(at, Adds::kFloats));
      }
      case Work::visit: {
        std::array<unsigned, Dag::kMostBefore> before{};
        for (std::size_t i = 0; i < dag.before(node).size(); ++i) before[i] = dag.before(node)[i] + 1;
        return graph.add(visit_, cells_, static_cast<unsigned>(node) + 1, before[0], before[1], before[2], before[3]);
      }
    }
    return {};
  }

  Runtime runtime_;
  Empty empty_;
  Add add_;
  Operator<void(Span<unsigned>, unsigned, unsigned, unsigned, unsigned, unsigned)> visit_;
  Buffer<unsigned> cells_;
  Buffer<float> first_;
  Buffer<float> second_;
  Buffer<float> sums_;
};

}  // namespace

std::unique_ptr<GraphSide> open_dwell_graphs(const Context& context, std::size_t workers, const GraphMemory& memory) {
  dwell::Options options = context.options();
  options.workers = static_cast<unsigned>(workers);
  options.tier = context.cuda ? Tier::lto : Tier::relocatable;
  return std::make_unique<DwellSide>(std::move(options), memory);
}

}  // namespace dwell::bench
