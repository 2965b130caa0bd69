#ifdef DWELL_WITH_CUDA

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/cuda_work.hpp"
#include "bench/operators.hpp"

namespace dwell::bench {

namespace {

class GraphedAdds final : public CudaAdds {
 public:
  GraphedAdds(const CudaDriver& driver, const Kernels& kernels, std::size_t floats)
      : driver_(driver),
        kernels_(kernels),
        slices_(floats / Adds::kFloats),
        first_(driver, floats * sizeof(float)),
        second_(driver, floats * sizeof(float)),
        sums_(driver, floats * sizeof(float)),
        stream_(driver),
        chunk_(std::min<std::size_t>(floats, std::size_t{1} << 22U)) {
    for (std::size_t from = 0; from < floats; from += chunk_.size()) {
      fill_first(chunk_, from);
      CU(cuMemcpyHtoD, first_.address() + from * sizeof(float), chunk_.data(), chunk_.size() * sizeof(float));
      fill_second(chunk_, from);
      CU(cuMemcpyHtoD, second_.address() + from * sizeof(float), chunk_.data(), chunk_.size() * sizeof(float));
    }
    poison();  // also waits for the copies above
  }
  ~GraphedAdds() override { drop_graph(); }
  GraphedAdds(const GraphedAdds&) = delete;
  GraphedAdds& operator=(const GraphedAdds&) = delete;

  std::size_t slices() const override { return slices_; }

  void launch(std::size_t task) override {
    const std::size_t at = offset(task);
    AddParameters parameters(first_.address() + at, second_.address() + at, sums_.address() + at);
    kernels_.launch(kernels_.add, kThreads, stream_.get(), parameters.list);
  }

  void synchronise() override { stream_.synchronise(); }

  double make_graph(std::size_t nodes) override {
    drop_graph();
    CU(cuGraphCreate, &graph_, 0);
    const std::size_t step = std::max<std::size_t>(slices_ / nodes, 1);
    for (std::size_t i = 0; i < nodes; ++i) {
      const std::size_t at = offset(i * step);
      AddParameters parameters(first_.address() + at, second_.address() + at, sums_.address() + at);
      const CUDA_KERNEL_NODE_PARAMS node = node_of(kernels_.add, parameters.list);
      CUgraphNode made = nullptr;
      CU(cuGraphAddKernelNode, &made, graph_, nullptr, 0, &node);
    }
    const Clock::time_point start = Clock::now();
    CU(cuGraphInstantiate, &executable_, graph_, 0);
    const double time = nanoseconds_since(start);
    CU(cuGraphUpload, executable_, stream_.get());
    synchronise();
    return time;
  }

  void replay() override {
    CU(cuGraphLaunch, executable_, stream_.get());
    synchronise();
  }

  void poison() override {
    fill_poison(chunk_);
    for (std::size_t from = 0; from < slices_ * Adds::kFloats; from += chunk_.size())
      CU(cuMemcpyHtoD, sums_.address() + from * sizeof(float), chunk_.data(), chunk_.size() * sizeof(float));
    // A copy from pageable memory may be unfinished when its call returns, and our stream does not wait for the default one.
    CU(cuStreamSynchronize, nullptr);
  }

  std::size_t wrong(std::size_t slices, std::size_t step) override {
    std::size_t wrong = 0;
    if (step == 1) {
      const std::size_t floats = slices * Adds::kFloats;
      for (std::size_t from = 0; from < floats; from += chunk_.size()) {
        const std::span<float> part(chunk_.data(), std::min(chunk_.size(), floats - from));
        CU(cuMemcpyDtoH, part.data(), sums_.address() + from * sizeof(float), part.size_bytes());
        wrong += count_wrong(part, from);
      }
      return wrong;
    }
    const std::span<float> slice(chunk_.data(), Adds::kFloats);
    for (std::size_t i = 0; i < slices; ++i) {
      const std::size_t at = offset(i * step);
      CU(cuMemcpyDtoH, slice.data(), sums_.address() + at, slice.size_bytes());
      wrong += count_wrong(slice, at / sizeof(float));
    }
    return wrong;
  }

 private:
  std::size_t offset(std::size_t task) const { return (task & (slices_ - 1)) * Adds::kFloats * sizeof(float); }

  void drop_graph() noexcept {
    if (executable_ != nullptr) driver_.cuGraphExecDestroy(executable_);
    if (graph_ != nullptr) driver_.cuGraphDestroy(graph_);
    executable_ = nullptr;
    graph_ = nullptr;
  }

  const CudaDriver& driver_;
  const Kernels& kernels_;
  std::size_t slices_;
  DeviceMemory first_;
  DeviceMemory second_;
  DeviceMemory sums_;
  Stream stream_;
  std::vector<float> chunk_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

}  // namespace

std::unique_ptr<CudaAdds> make_cuda_adds(const CudaDriver& driver, const Kernels& kernels, std::size_t floats) {
  return std::make_unique<GraphedAdds>(driver, kernels, floats);
}

}  // namespace dwell::bench

#endif
