#include "bench/cuda_peer.hpp"

#ifdef DWELL_WITH_CUDA

#include <stdexcept>

#include "bench/cuda_kernels.hpp"
#include "bench/cuda_parts.hpp"
#include "bench/cuda_work.hpp"

namespace dwell::bench {

namespace {

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

std::string arch_of(const CudaDriver& driver, CUdevice device) {
  int major = 0;
  int minor = 0;
  DWELL_BENCH_CUDA(driver, cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  DWELL_BENCH_CUDA(driver, cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

class Peer final : public CudaPeer {
 public:
  explicit Peer(int ordinal) : driver_(CudaDriver::get()), device_(device_of(driver_, ordinal)) {
    CU(cuDevicePrimaryCtxRetain, &context_, device_);
    try {
      enter();
      cubin_ = compile_cuda_kernels(arch_of(driver_, device_));
      kernels_ = std::make_unique<Kernels>(driver_, cubin_);
      stream_ = std::make_unique<Stream>(driver_);
    } catch (...) {
      leave();
      throw;
    }
  }
  ~Peer() override { leave(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  std::string version() const override {
    int version = 0;
    CU(cuDriverGetVersion, &version);
    return version_text(version);
  }

  std::string bus() const override {
    char text[64] = {};
    CU(cuDeviceGetPCIBusId, text, sizeof(text), device_);
    return text;
  }

  std::span<const std::byte> cubin() const override { return cubin_; }

  void enter() override { CU(cuCtxSetCurrent, context_); }

  void warm_up() override {
    for (const Clock::time_point until = Clock::now() + std::chrono::milliseconds(100); Clock::now() < until;) launch_and_synchronise();
  }

  void launch_and_synchronise() override {
    kernels_->launch(kernels_->empty, kThreads, stream_->get(), nullptr);
    stream_->synchronise();
  }

  void compile_and_run(unsigned value) override {
    const std::string source = "extern \"C\" __global__ void dwell_bench_fresh(unsigned* to) { *to = " + std::to_string(value) + "; }\n";
    const std::vector<std::byte> fresh = compile_cuda(source, arch_of(driver_, device_));
    CUmodule module = nullptr;
    CU(cuModuleLoadData, &module, fresh.data());
    CUfunction function = nullptr;
    CU(cuModuleGetFunction, &function, module, "dwell_bench_fresh");
    const DeviceMemory memory(driver_, sizeof(unsigned));
    CUdeviceptr to = memory.address();
    void* parameters[] = {&to};
    kernels_->launch(function, 1, stream_->get(), parameters);
    stream_->synchronise();
    unsigned seen = 0;
    CU(cuMemcpyDtoH, &seen, to, sizeof(seen));
    CU(cuModuleUnload, module);
    if (seen != value) throw std::runtime_error("the kernel left a wrong value");
  }

  std::unique_ptr<CudaPingPong> ping_pong() override { return make_cuda_ping_pong(driver_, *kernels_); }

  std::unique_ptr<CudaAdds> adds(std::size_t floats) override { return make_cuda_adds(driver_, *kernels_, floats); }

  std::unique_ptr<GraphSide> graphs(CudaGraphs way, const GraphMemory& memory) override {
    return make_cuda_graphs(driver_, *kernels_, way, memory);
  }

  std::size_t multiprocessors() const override {
    int count = 0;
    CU(cuDeviceGetAttribute, &count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_);
    return static_cast<std::size_t>(count);
  }

  std::unique_ptr<CudaSweep> sweep(CudaSweeps way, std::size_t cells, unsigned steps) override {
    return make_cuda_sweep(driver_, *kernels_, way, cells, steps);
  }

  std::unique_ptr<CudaTree> tree(std::uint32_t count) override {
    return make_cuda_tree(driver_, compile_cuda_tree(arch_of(driver_, device_)), count);
  }

  double copy_bandwidth(std::size_t bytes) override {
    constexpr int kTimes = 10;
    const DeviceMemory from(driver_, bytes);
    const DeviceMemory to(driver_, bytes);
    const auto copy = [&] { CU(cuMemcpyDtoDAsync, to.address(), from.address(), bytes, stream_->get()); };
    copy();
    stream_->synchronise();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kTimes; ++i) copy();
    stream_->synchronise();
    return 2.0 * kTimes * static_cast<double>(bytes) / nanoseconds_since(start);
  }

  std::vector<CudaCall> calls() override { return make_cuda_calls(driver_, *kernels_, cubin_); }

 private:
  void leave() noexcept {
    stream_.reset();
    kernels_.reset();
    driver_.cuCtxSetCurrent(nullptr);
    driver_.cuDevicePrimaryCtxRelease(device_);
  }

  const CudaDriver& driver_;
  CUdevice device_;
  CUcontext context_ = nullptr;
  std::vector<std::byte> cubin_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace

std::unique_ptr<CudaPeer> open_cuda_peer(int ordinal, std::string* why) {
  try {
    return std::make_unique<Peer>(ordinal);
  } catch (const std::runtime_error& problem) {
    *why = problem.what();
    return nullptr;
  }
}

}  // namespace dwell::bench

#else

#include <stdexcept>

namespace dwell::bench {

std::unique_ptr<CudaPeer> open_cuda_peer(int, std::string* why) {
  *why = "built without CUDA's headers";
  return nullptr;
}

}  // namespace dwell::bench

#endif
