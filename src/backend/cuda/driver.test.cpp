// Missing and unsuitable drivers. tests/gpu tests leases on a device.
#include "backend/cuda/driver.hpp"

#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/cuda_devices.hpp"
#include "tests/unit/driver_library.hpp"
#include "tests/unit/expect_error.hpp"

namespace dwell::backend {
namespace {

// Opens a library of the functions in `code` as the driver. Returns the message of the error.
std::string message_of(const std::string& code) {
  const test::DriverLibrary made(code);
  const std::string& library = made.file();
  try {
    const Driver driver(library);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::device_unavailable);
    EXPECT_NE(error.message().find(library), std::string::npos) << error.message();
    return error.message();
  }
  return "nothing thrown";
}

bool has_driver() { return cuda_devices().driver_version != 0; }

TEST(CudaDriver, NamesAMissingFile) {
  DWELL_EXPECT_ERROR(Driver("/nowhere/libcuda.so.1"), errc::device_unavailable,
                     testing::AllOf(testing::HasSubstr("/nowhere/libcuda.so.1"), testing::HasSubstr("CUDA 12.4")));
}

TEST(CudaDriver, RefusesAnotherLibrary) {
  DWELL_EXPECT_ERROR(Driver("libm.so.6"), errc::device_unavailable, testing::HasSubstr("libm.so.6 has no function cuDriverGetVersion"));
}

TEST(CudaDriver, RefusesAnOldDriver) {
  const std::string message = message_of("extern \"C\" int cuDriverGetVersion(int* version) { *version = 12020; return 0; }");
  EXPECT_NE(message.find("CUDA 12.2, CUDA 12.4 is needed"), std::string::npos) << message;
}

TEST(CudaDriver, NamesAMissingFunction) {
  const std::string message = message_of(
      "extern \"C\" int cuDriverGetVersion(int* version) { *version = 13000; return 0; }"
      "extern \"C\" int cuInit(unsigned) { return 0; }");
  EXPECT_NE(message.find("has no function cuGetErrorName"), std::string::npos) << message;
}

TEST(CudaDriver, ReportsWhyItDoesNotStart) {
  const std::string message = message_of(test::driver_that_answers(100));
  EXPECT_NE(message.find("does not start: CUDA error 100"), std::string::npos) << message;
}

TEST(CudaDriver, FormatsVersionsAsCudaDoes) {
  EXPECT_EQ(cuda_version_text(12040), "12.4");
  EXPECT_EQ(cuda_version_text(13000), "13.0");
}

TEST(CudaDevices, ReportsWhyThereAreNoDevices) {
  const CudaDevices found = cuda_devices();
  EXPECT_EQ(found.devices.empty(), !found.problem.empty()) << found.problem;
  if (has_driver()) GTEST_SKIP() << "there is a driver";
  EXPECT_NE(found.problem.find("libcuda.so.1"), std::string::npos) << found.problem;
}

TEST(CudaBackend, CannotBeOpenedWithoutADriver) {
  if (has_driver()) GTEST_SKIP() << "there is a driver";
  DWELL_EXPECT_ERROR(open_cuda(0), errc::device_unavailable, testing::HasSubstr("libcuda.so.1"));
}

TEST(CudaBackend, RefusesAMissingDevice) {
  for (const int ordinal : {-1, 4096}) {
    DWELL_EXPECT_ERROR(open_cuda(ordinal), errc::device_unavailable, testing::_);
  }
}

}  // namespace
}  // namespace dwell::backend
