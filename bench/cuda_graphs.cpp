#ifdef DWELL_WITH_CUDA

#include <array>
#include <stdexcept>
#include <vector>

#include "bench/cuda_work.hpp"
#include "bench/operators.hpp"

namespace dwell::bench {

namespace {

// The kernel parameters of one visit.
struct VisitParameters {
  CUdeviceptr cells;
  unsigned node;
  std::array<unsigned, Dag::kMostBefore> before{};  // 0: none
  std::array<void*, 2 + Dag::kMostBefore> list;

  VisitParameters(CUdeviceptr all, const Dag& dag, std::size_t index) : cells(all), node(static_cast<unsigned>(index) + 1) {
    list[0] = &cells;
    list[1] = &node;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (i < dag.before(index).size()) before[i] = dag.before(index)[i] + 1;
      list[2 + i] = &before[i];
    }
  }
  VisitParameters(const VisitParameters&) = delete;
  VisitParameters& operator=(const VisitParameters&) = delete;
};

struct Memory {
  Memory(const CudaDriver& driver, const GraphMemory& size)
      : cells(driver, size.cells * sizeof(unsigned)),
        first(driver, size.floats * sizeof(float)),
        second(driver, size.floats * sizeof(float)),
        sums(driver, size.floats * sizeof(float)) {}

  // Calls use(kernel, parameters) for a node; the parameters are valid during the call.
  template <class Use>
  void with_node(const Kernels& kernels, const Dag& dag, Work work, std::size_t node, bool overlapped, Use use) const {
    switch (work) {
      case Work::empty: use(overlapped ? kernels.empty_overlapped : kernels.empty, nullptr); break;
      case Work::sum: {
        AddParameters parameters(first.address(), sums.address(), sums.address());
        use(overlapped ? kernels.add_overlapped : kernels.add, parameters.list);
        break;
      }
      case Work::slice: {
        const std::size_t at = node * Adds::kFloats * sizeof(float);
        AddParameters parameters(first.address() + at, second.address() + at, sums.address() + at);
        use(kernels.add, parameters.list);
        break;
      }
      case Work::visit: {
        VisitParameters parameters(cells.address(), dag, node);
        use(kernels.visit, parameters.list.data());
        break;
      }
    }
  }

  DeviceMemory cells;
  DeviceMemory first;
  DeviceMemory second;
  DeviceMemory sums;
};

class Graph final : public LaunchableGraph {
 public:
  Graph(const CudaDriver& driver, const Kernels& kernels, const Memory& memory, const Stream& stream, const Dag& dag, Work work,
        bool programmatic)
      : driver_(driver), stream_(stream) {
    try {
      CU(cuGraphCreate, &graph_, 0);
      std::vector<CUgraphNode> nodes(dag.size());
      std::array<CUgraphNode, Dag::kMostBefore> before{};
      for (std::size_t i = 0; i < dag.size(); ++i) {
        const auto edges = dag.before(i);
        for (std::size_t edge = 0; edge < edges.size(); ++edge) before[edge] = nodes[edges[edge]];
        memory.with_node(kernels, dag, work, i, programmatic, [&](CUfunction kernel, void** parameters) {
          const CUDA_KERNEL_NODE_PARAMS node = node_of(kernel, parameters);
          CU(cuGraphAddKernelNode, &nodes[i], graph_, before.data(), programmatic ? 0 : edges.size(), &node);
        });
        if (programmatic && !edges.empty()) {
          const CUgraphEdgeData edge{CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};
          CU(cuGraphAddDependencies, graph_, before.data(), &nodes[i], &edge, 1);
        }
      }
      CU(cuGraphInstantiate, &executable_, graph_, 0);
    } catch (...) {
      drop();
      throw;
    }
  }
  ~Graph() override { drop(); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch() override { CU(cuGraphLaunch, executable_, stream_.get()); }
  void wait() override { stream_.synchronise(); }

 private:
  void drop() noexcept {
    if (executable_ != nullptr) driver_.cuGraphExecDestroy(executable_);
    if (graph_ != nullptr) driver_.cuGraphDestroy(graph_);
  }

  const CudaDriver& driver_;
  const Stream& stream_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

// An event that only orders streams.
class Event {
 public:
  explicit Event(const CudaDriver& driver) : driver_(driver) { CU(cuEventCreate, &event_, CU_EVENT_DISABLE_TIMING); }
  ~Event() { driver_.cuEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  CUevent get() const { return event_; }

 private:
  const CudaDriver& driver_;
  CUevent event_ = nullptr;
};

// Launches the nodes in order, on streams in turn. A node with successors in other streams records an event for them.
class Launches final : public LaunchableGraph {
 public:
  Launches(const CudaDriver& driver, const Kernels& kernels, const Memory& memory, const std::vector<std::unique_ptr<Stream>>& streams,
           const Dag& dag, Work work)
      : driver_(driver), kernels_(kernels), memory_(memory), streams_(streams), dag_(dag), work_(work), events_(dag.size()) {
    for (std::size_t node = 0; node < dag.size(); ++node) {
      for (const std::uint32_t other : dag.before(node)) {
        if (stream_of(other) != stream_of(node) && !events_[other]) events_[other] = std::make_unique<Event>(driver);
      }
    }
  }

  void launch() override {
    for (std::size_t node = 0; node < dag_.size(); ++node) {
      CUstream stream = stream_of(node);
      for (const std::uint32_t other : dag_.before(node)) {
        if (stream_of(other) != stream) CU(cuStreamWaitEvent, stream, events_[other]->get(), CU_EVENT_WAIT_DEFAULT);
      }
      memory_.with_node(kernels_, dag_, work_, node, false,
                        [&](CUfunction kernel, void** parameters) { kernels_.launch(kernel, kThreads, stream, parameters); });
      if (events_[node]) CU(cuEventRecord, events_[node]->get(), stream);
    }
  }
  void wait() override {
    for (const auto& stream : streams_) stream->synchronise();
  }

 private:
  CUstream stream_of(std::size_t node) const { return streams_[node % streams_.size()]->get(); }

  const CudaDriver& driver_;
  const Kernels& kernels_;
  const Memory& memory_;
  const std::vector<std::unique_ptr<Stream>>& streams_;
  const Dag& dag_;
  Work work_;
  std::vector<std::unique_ptr<Event>> events_;  // by node; null if nothing waits for it
};

class Side final : public GraphSide {
 public:
  Side(const CudaDriver& driver, const Kernels& kernels, CudaGraphs way, const GraphMemory& memory)
      : driver_(driver), kernels_(kernels), way_(way), memory_(driver, memory) {
    for (std::size_t i = 0; i < (way == CudaGraphs::streams ? kCudaPlaces : 1); ++i) streams_.push_back(std::make_unique<Stream>(driver));
  }

  std::string name() const override {
    switch (way_) {
      case CudaGraphs::graph: return "CUDA graph";
      case CudaGraphs::programmatic: return "CUDA graph, programmatic dependent launch";
      case CudaGraphs::streams: return "stream launches";
    }
    return {};
  }

  std::unique_ptr<LaunchableGraph> make(const Dag& dag, Work work) override {
    if (way_ == CudaGraphs::streams) return std::make_unique<Launches>(driver_, kernels_, memory_, streams_, dag, work);
    return std::make_unique<Graph>(driver_, kernels_, memory_, *streams_.front(), dag, work, way_ == CudaGraphs::programmatic);
  }

  void write_cells(std::span<const unsigned> cells) override { write(memory_.cells, cells); }
  void read_cells(std::span<unsigned> cells) override { CU(cuMemcpyDtoH, cells.data(), memory_.cells.address(), cells.size_bytes()); }
  void write_first(std::span<const float> floats) override { write(memory_.first, floats); }
  void write_second(std::span<const float> floats) override { write(memory_.second, floats); }
  void write_sums(std::span<const float> floats) override { write(memory_.sums, floats); }
  void read_sums(std::span<float> floats) override { CU(cuMemcpyDtoH, floats.data(), memory_.sums.address(), floats.size_bytes()); }

 private:
  template <class T>
  void write(const DeviceMemory& to, std::span<const T> values) {
    CU(cuMemcpyHtoD, to.address(), values.data(), values.size_bytes());
    CU(cuStreamSynchronize, nullptr);  // our streams do not wait for the default one
  }

  const CudaDriver& driver_;
  const Kernels& kernels_;
  CudaGraphs way_;
  Memory memory_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace

std::unique_ptr<GraphSide> make_cuda_graphs(const CudaDriver& driver, const Kernels& kernels, CudaGraphs way, const GraphMemory& memory) {
  return std::make_unique<Side>(driver, kernels, way, memory);
}

}  // namespace dwell::bench

#endif
