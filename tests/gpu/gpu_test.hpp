// Shared by the GPU tests: a test that needs a CUDA device, and another user of that device.
#pragma once

#include <string>

#include "bench/cuda_driver.hpp"
#include "tests/conformance/suite.hpp"

namespace dwell::test {

// $DWELL_TEST_DEVICE if that is a CUDA device, else the first one.
inline std::string cuda_device() {
  const std::string chosen = environment("DWELL_TEST_DEVICE");
  return chosen.starts_with("cuda") ? chosen : "cuda:0";
}
inline int cuda_ordinal() {
  const std::string device = cuda_device();
  return device.size() > 5 ? std::stoi(device.substr(5)) : 0;
}

// Repetitions of a stress test.
inline std::size_t times(std::size_t full) { return environment("DWELL_STRESS") == "short" ? full / 100 : full; }

// A test on the CUDA device. Skipped if there is none, or if another device is named.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string chosen = environment("DWELL_TEST_DEVICE");
    if (!chosen.empty() && !chosen.starts_with("cuda")) GTEST_SKIP() << "this is about CUDA, $DWELL_TEST_DEVICE is " << chosen;
    if (const std::string& why = missing(cuda_device()); !why.empty()) {
      // A device that was named must be tested.
      ASSERT_EQ(chosen, "") << why;
      GTEST_SKIP() << why;
    }
    watchdog_ = std::make_unique<Watchdog>(limit());
  }
  void TearDown() override { watchdog_.reset(); }

  virtual std::chrono::seconds limit() const { return 60s; }

  static Options options() {
    Options options;
    options.device = cuda_device();
    return options;
  }

 private:
  std::unique_ptr<Watchdog> watchdog_;
};

// A foreign user of the device, like any CUDA program in this process: on the primary context, with its own stream. Used by the thread that
// made it, or one that has called enter(). Errors throw.
class Foreign {
 public:
  Foreign() : driver(bench::CudaDriver::get()) {
    DWELL_BENCH_CUDA(driver, cuDeviceGet, &device, cuda_ordinal());
    DWELL_BENCH_CUDA(driver, cuDevicePrimaryCtxRetain, &context_, device);
    enter();
    DWELL_BENCH_CUDA(driver, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  }
  ~Foreign() {
    driver.cuStreamDestroy(stream);
    driver.cuCtxSetCurrent(nullptr);
    driver.cuDevicePrimaryCtxRelease(device);
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  void enter() const { DWELL_BENCH_CUDA(driver, cuCtxSetCurrent, context_); }

  // Copies, and waits only for its own stream.
  template <class T>
  void copy_to_host(T* to, const T* from, std::size_t count) const {
    DWELL_BENCH_CUDA(driver, cuMemcpyDtoHAsync, to, reinterpret_cast<CUdeviceptr>(from), count * sizeof(T), stream);
    DWELL_BENCH_CUDA(driver, cuStreamSynchronize, stream);
  }
  template <class T>
  void copy_to_device(T* to, const T* from, std::size_t count) const {
    DWELL_BENCH_CUDA(driver, cuMemcpyHtoDAsync, reinterpret_cast<CUdeviceptr>(to), from, count * sizeof(T), stream);
    DWELL_BENCH_CUDA(driver, cuStreamSynchronize, stream);
  }

  const bench::CudaDriver& driver;
  CUdevice device = 0;
  CUstream stream = nullptr;

 private:
  CUcontext context_ = nullptr;
};

}  // namespace dwell::test
