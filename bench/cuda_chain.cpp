#ifdef DWELL_WITH_CUDA

#include "bench/cuda_work.hpp"

#include <algorithm>
#include <vector>

namespace dwell::bench {

namespace {

class Chain final : public CudaChain {
 public:
  Chain(const CudaDriver& driver, const Kernels& kernels, std::size_t nodes, bool adds)
      : driver_(driver), nodes_(nodes), ones_(driver, kBytes), sums_(driver, kBytes), stream_(driver) {
    const std::vector<float> ones(Adds::kFloats, 1.0F);
    const std::vector<float> zeros(Adds::kFloats, 0.0F);
    CU(cuMemcpyHtoD, ones_.address(), ones.data(), kBytes);
    CU(cuMemcpyHtoD, sums_.address(), zeros.data(), kBytes);
    CU(cuStreamSynchronize, nullptr);  // which our stream does not wait for
    AddParameters parameters(ones_.address(), sums_.address(), sums_.address());
    const CUDA_KERNEL_NODE_PARAMS node = adds ? node_of(kernels.add, parameters.list) : node_of(kernels.empty, nullptr);
    try {
      CU(cuGraphCreate, &graph_, 0);
      CUgraphNode last = nullptr;
      for (std::size_t i = 0; i < nodes; ++i) {
        CUgraphNode before = last;
        CU(cuGraphAddKernelNode, &last, graph_, &before, i == 0 ? 0 : 1, &node);
      }
      CU(cuGraphInstantiate, &executable_, graph_, 0);
      CU(cuGraphUpload, executable_, stream_.get());
      stream_.synchronise();
    } catch (...) {
      drop();
      throw;
    }
  }
  ~Chain() override { drop(); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  void replay() override {
    CU(cuGraphLaunch, executable_, stream_.get());
    stream_.synchronise();
  }

  std::size_t wrong(std::size_t replays) override {
    std::vector<float> sums(Adds::kFloats);
    CU(cuMemcpyDtoH, sums.data(), sums_.address(), kBytes);
    const auto expected = static_cast<float>(replays * nodes_);
    return static_cast<std::size_t>(std::count_if(sums.begin(), sums.end(), [&](float sum) { return sum != expected; }));
  }

 private:
  static constexpr std::size_t kBytes = Adds::kFloats * sizeof(float);

  void drop() noexcept {
    if (executable_ != nullptr) driver_.cuGraphExecDestroy(executable_);
    if (graph_ != nullptr) driver_.cuGraphDestroy(graph_);
  }

  const CudaDriver& driver_;
  std::size_t nodes_;
  DeviceMemory ones_;
  DeviceMemory sums_;
  Stream stream_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

}  // namespace

std::unique_ptr<CudaChain> make_cuda_chain(const CudaDriver& driver, const Kernels& kernels, std::size_t nodes, bool adds) {
  return std::make_unique<Chain>(driver, kernels, nodes, adds);
}

}  // namespace dwell::bench

#endif
