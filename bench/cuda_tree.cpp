#ifdef DWELL_WITH_CUDA

#include <stdexcept>
#include <string>

#include "bench/cuda_work.hpp"

namespace dwell::bench {

namespace {

class Tree final : public CudaTree {
 public:
  Tree(const CudaDriver& driver, std::span<const std::byte> cubin, std::uint32_t count)
      : driver_(driver), count_(count), cells_(driver, count), failures_(driver, sizeof(unsigned)), stream_(driver) {
    CU(cuModuleLoadData, &module_, cubin.data());
    try {
      CU(cuModuleGetFunction, &kernel_, module_, kKernelTree);
      // Raise the limit on pending launches from 2048.
      CU(cuCtxGetLimit, &launches_, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT);
      CU(cuCtxSetLimit, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, count);
    } catch (...) {
      driver_.cuModuleUnload(module_);
      throw;
    }
  }
  ~Tree() override {
    driver_.cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, launches_);
    driver_.cuModuleUnload(module_);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  void run(unsigned char mark) override {
    unsigned failures = 0;
    CU(cuMemcpyHtoD, failures_.address(), &failures, sizeof(failures));
    CU(cuStreamSynchronize, nullptr);  // our stream does not wait for the default one
    CUdeviceptr cells = cells_.address();
    CUdeviceptr counter = failures_.address();
    unsigned first = 0;
    unsigned value = mark;
    void* parameters[] = {&cells, &first, &count_, &value, &counter};
    CU(cuLaunchKernel, kernel_, 1, 1, 1, 1, 1, 1, 0, stream_.get(), parameters, nullptr);
    stream_.synchronise();
    CU(cuMemcpyDtoH, &failures, counter, sizeof(failures));
    if (failures != 0) throw std::runtime_error(std::to_string(failures) + " launches from the device failed");
  }
  void read(std::span<unsigned char> cells) override { CU(cuMemcpyDtoH, cells.data(), cells_.address(), cells.size()); }

 private:
  const CudaDriver& driver_;
  unsigned count_;
  DeviceMemory cells_;
  DeviceMemory failures_;
  Stream stream_;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  std::size_t launches_ = 0;
};

}  // namespace

std::unique_ptr<CudaTree> make_cuda_tree(const CudaDriver& driver, std::span<const std::byte> cubin, std::uint32_t count) {
  return std::make_unique<Tree>(driver, cubin, count);
}

}  // namespace dwell::bench

#endif
