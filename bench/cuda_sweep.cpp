#ifdef DWELL_WITH_CUDA

#include <stdexcept>
#include <utility>

#include "bench/cuda_work.hpp"

namespace dwell::bench {

namespace {

// Base of both ways: two rows of cells; each step reads one and writes the other.
class Rows : public CudaSweep {
 public:
  Rows(const CudaDriver& driver, std::size_t cells)
      : driver_(driver), cells_(cells), even_(driver, cells * sizeof(unsigned)), odd_(driver, cells * sizeof(unsigned)), stream_(driver) {}

  void write(std::span<const unsigned> cells) override {
    CU(cuMemcpyHtoD, even_.address(), cells.data(), cells.size_bytes());
    CU(cuStreamSynchronize, nullptr);  // our stream does not wait for the default one
  }
  void read(std::span<unsigned> cells) override { CU(cuMemcpyDtoH, cells.data(), even_.address(), cells.size_bytes()); }

 protected:
  const CudaDriver& driver_;
  std::size_t cells_;
  DeviceMemory even_;
  DeviceMemory odd_;
  Stream stream_;
};

class Cooperative final : public Rows {
 public:
  Cooperative(const CudaDriver& driver, const Kernels& kernels, std::size_t cells, unsigned steps)
      : Rows(driver, cells), kernel_(kernels.sweep), steps_(steps), barrier_(driver, sizeof(unsigned)) {
    const unsigned none = 0;
    CU(cuMemcpyHtoD, barrier_.address(), &none, sizeof(none));
    CU(cuStreamSynchronize, nullptr);
  }
  void run() override {
    CUdeviceptr even = even_.address();
    CUdeviceptr odd = odd_.address();
    CUdeviceptr barrier = barrier_.address();
    void* parameters[] = {&even, &odd, &steps_, &barrier};
    CU(cuLaunchCooperativeKernel, kernel_, static_cast<unsigned>(cells_), 1, 1, kThreads, 1, 1, 0, stream_.get(), parameters);
    stream_.synchronise();
  }

 private:
  CUfunction kernel_;
  unsigned steps_;
  DeviceMemory barrier_;
};

class Programmatic final : public Rows {
 public:
  Programmatic(const CudaDriver& driver, const Kernels& kernels, std::size_t cells, unsigned steps) : Rows(driver, cells) {
    try {
      CU(cuGraphCreate, &graph_, 0);
      CUgraphNode before = nullptr;
      for (unsigned step = 0; step < steps; ++step) {
        CUdeviceptr from = even_.address();
        CUdeviceptr to = odd_.address();
        if (step % 2 != 0) std::swap(from, to);
        void* parameters[] = {&from, &to};
        CUDA_KERNEL_NODE_PARAMS node = node_of(kernels.sweep_step_overlapped, parameters);
        node.gridDimX = static_cast<unsigned>(cells);
        CUgraphNode made = nullptr;
        CU(cuGraphAddKernelNode, &made, graph_, nullptr, 0, &node);
        if (before != nullptr) {
          const CUgraphEdgeData edge{CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};
          CU(cuGraphAddDependencies, graph_, &before, &made, &edge, 1);
        }
        before = made;
      }
      CU(cuGraphInstantiate, &executable_, graph_, 0);
    } catch (...) {
      drop();
      throw;
    }
  }
  ~Programmatic() override { drop(); }
  Programmatic(const Programmatic&) = delete;
  Programmatic& operator=(const Programmatic&) = delete;

  void run() override {
    CU(cuGraphLaunch, executable_, stream_.get());
    stream_.synchronise();
  }

 private:
  void drop() noexcept {
    if (executable_ != nullptr) driver_.cuGraphExecDestroy(executable_);
    if (graph_ != nullptr) driver_.cuGraphDestroy(graph_);
  }

  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

}  // namespace

std::unique_ptr<CudaSweep> make_cuda_sweep(const CudaDriver& driver, const Kernels& kernels, CudaSweeps way, std::size_t cells,
                                           unsigned steps) {
  if (way == CudaSweeps::programmatic) return std::make_unique<Programmatic>(driver, kernels, cells, steps);
  return std::make_unique<Cooperative>(driver, kernels, cells, steps);
}

}  // namespace dwell::bench

#endif
