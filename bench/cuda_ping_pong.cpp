#ifdef DWELL_WITH_CUDA

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>

#include "bench/cuda_work.hpp"

namespace dwell::bench {

namespace {

class PingPong final : public CudaPingPong {
 public:
  PingPong(const CudaDriver& driver, const Kernels& kernels) : driver_(driver), stream_(driver) {
    void* memory = nullptr;
    CU(cuMemHostAlloc, &memory, kBytes, CU_MEMHOSTALLOC_DEVICEMAP);
    flags_ = static_cast<std::uint32_t*>(memory);
    std::fill_n(flags_, kBytes / sizeof(std::uint32_t), 0U);
    CUdeviceptr in = 0;
    CU(cuMemHostGetDevicePointer, &in, memory, 0);
    CUdeviceptr out = in + kAnswer * sizeof(std::uint32_t);
    void* parameters[] = {&in, &out};
    kernels.launch(kernels.ping_pong, 1, stream_.get(), parameters);
  }
  ~PingPong() override {
    std::atomic_ref<std::uint32_t>(flags_[0]).store(~0U, std::memory_order_release);
    driver_.cuStreamSynchronize(stream_.get());
    driver_.cuMemFreeHost(flags_);
  }
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;

  void round() override {
    ++round_;
    std::atomic_ref<std::uint32_t>(flags_[0]).store(round_, std::memory_order_release);
    const std::atomic_ref<std::uint32_t> answer(flags_[kAnswer]);
    for (std::uint64_t looks = 0; answer.load(std::memory_order_acquire) != round_; ++looks) {
      if (looks > kMostLooks) throw std::runtime_error("the kernel does not answer the flag");
    }
  }

 private:
  static constexpr std::size_t kBytes = 4096;
  static constexpr std::size_t kAnswer = 64;                   // on its own line
  static constexpr std::uint64_t kMostLooks = 4'000'000'000U;  // seconds

  const CudaDriver& driver_;
  Stream stream_;
  std::uint32_t* flags_ = nullptr;
  std::uint32_t round_ = 0;
};

}  // namespace

std::unique_ptr<CudaPingPong> make_cuda_ping_pong(const CudaDriver& driver, const Kernels& kernels) {
  return std::make_unique<PingPong>(driver, kernels);
}

}  // namespace dwell::bench

#endif
