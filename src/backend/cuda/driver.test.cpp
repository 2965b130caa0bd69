// What happens without a driver, or with one that will not do. Leases on a device are tested in tests/gpu.
#include "backend/cuda/driver.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/cuda_devices.hpp"
#include "jit/process.hpp"
#include "jit/temporary_directory.hpp"
#include "tests/unit/expect_error.hpp"

namespace dwell::backend {
namespace {

// Makes a library of the functions in `code` and opens it as the driver; the message of what it throws.
std::string message_of(const std::string& code) {
  const jit::TemporaryDirectory folder;
  const std::string source = folder.path() / "driver.cpp";
  const std::string library = folder.path() / "libcuda.so.1";
  std::ofstream(source) << code;
  const auto built =
      jit::run_process({jit::find_program(DWELL_HOST_COMPILER), "-shared", "-fPIC", "-o", library, source}, std::chrono::seconds(60));
  EXPECT_EQ(built.code, 0) << built.output;
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

TEST(CudaDriver, RefusesAnOldDriver) {
  const std::string message = message_of("extern \"C\" int cuDriverGetVersion(int* version) { *version = 12020; return 0; }");
  EXPECT_NE(message.find("CUDA 12.2, CUDA 12.4 is needed"), std::string::npos) << message;
}

TEST(CudaDriver, NamesTheFunctionThatIsMissing) {
  const std::string message = message_of(
      "extern \"C\" int cuDriverGetVersion(int* version) { *version = 13000; return 0; }"
      "extern \"C\" int cuInit(unsigned) { return 0; }");
  EXPECT_NE(message.find("has no function cuGetErrorName"), std::string::npos) << message;
}

TEST(CudaDriver, SaysWhyItDoesNotStart) {
  std::string code = "extern \"C\" int cuDriverGetVersion(int* version) { *version = 13000; return 0; }\n";
#define DWELL_NAME_EXPANDED(name) #name
#define DWELL_NAME(name) code += "extern \"C\" int " DWELL_NAME_EXPANDED(name) "() { return 100; }\n";
  DWELL_CUDA_FUNCTIONS(DWELL_NAME)
#undef DWELL_NAME
#undef DWELL_NAME_EXPANDED
  const std::string message = message_of(code);
  EXPECT_NE(message.find("does not start: CUDA error 100"), std::string::npos) << message;
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
    DWELL_EXPECT_ERROR(open_cuda(ordinal), errc::device_unavailable, testing::_);
  }
}

}  // namespace
}  // namespace dwell::backend
