// Fake libraries for libcuda.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>

#include "backend/cuda/driver.hpp"
#include "jit/base/process.hpp"
#include "jit/base/temporary_directory.hpp"

namespace dwell::test {

// A shared library built from the C++ functions in `code`, for its lifetime.
class DriverLibrary {
 public:
  explicit DriverLibrary(const std::string& code) : file_(folder_.path() / "libcuda.so.1") {
    const std::string source = folder_.path() / "driver.cpp";
    std::ofstream(source) << code;
    const auto built =
        jit::run_process({jit::find_program(DWELL_HOST_COMPILER), "-shared", "-fPIC", "-o", file_, source}, std::chrono::seconds(60));
    EXPECT_EQ(built.code, 0) << built.output;
  }
  const std::string& file() const { return file_; }

 private:
  jit::TemporaryDirectory folder_;
  std::string file_;
};

// A driver for CUDA 13.0 in which every function exists and returns `result`.
inline std::string driver_that_answers(int result) {
  const std::string body = "() { return " + std::to_string(result) + "; }\n";
  std::string code = "extern \"C\" int cuDriverGetVersion(int* version) { *version = 13000; return 0; }\n";
#define DWELL_NAME_EXPANDED(name) #name
#define DWELL_NAME(name) code += "extern \"C\" int " DWELL_NAME_EXPANDED(name) + body;
  DWELL_CUDA_FUNCTIONS(DWELL_NAME)
#undef DWELL_NAME
#undef DWELL_NAME_EXPANDED
  return code;
}

}  // namespace dwell::test
