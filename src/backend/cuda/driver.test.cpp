// What happens without a driver, or with one that will not do. Leases on a device are tested in tests/gpu.
#include "backend/cuda/driver.hpp"

#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.hpp"

namespace dwell::backend {
namespace {

bool has_driver() { return cuda_devices().driver_version != 0; }

TEST(CudaDriver, NamesTheFileThatIsNotThere) {
  try {
    const Driver driver("/nowhere/libcuda.so.1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::device_unavailable);
    EXPECT_NE(error.message().find("/nowhere/libcuda.so.1"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("CUDA 12.4"), std::string::npos) << error.message();
  }
}

TEST(CudaDriver, RefusesAnotherLibrary) {
  try {
    const Driver driver("libm.so.6");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::device_unavailable);
    EXPECT_NE(error.message().find("libm.so.6 has no function cuDriverGetVersion"), std::string::npos) << error.message();
  }
}

TEST(CudaDriver, WritesVersionsAsCudaDoes) {
  EXPECT_EQ(cuda_version_text(12040), "12.4");
  EXPECT_EQ(cuda_version_text(13000), "13.0");
}

TEST(CudaDevices, SaysWhyThereAreNone) {
  const CudaDevices found = cuda_devices();
  EXPECT_EQ(found.devices.empty(), !found.problem.empty()) << found.problem;
  if (has_driver()) GTEST_SKIP() << "there is a driver";
  EXPECT_NE(found.problem.find("libcuda.so.1"), std::string::npos) << found.problem;
}

TEST(CudaBackend, CannotBeOpenedWithoutADriver) {
  if (has_driver()) GTEST_SKIP() << "there is a driver";
  try {
    open_cuda(0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::device_unavailable);
    EXPECT_NE(error.message().find("libcuda.so.1"), std::string::npos) << error.message();
  }
}

TEST(CudaBackend, CannotOpenADeviceThatIsNotThere) {
  for (const int ordinal : {-1, 4096}) {
    try {
      open_cuda(ordinal);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::device_unavailable) << error.message();
    }
  }
}

}  // namespace
}  // namespace dwell::backend
