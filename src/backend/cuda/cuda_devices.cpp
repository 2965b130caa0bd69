#include "backend/cuda/cuda_devices.hpp"

#include <utility>

#include <dwell/error.hpp>

#include "backend/cuda/cuda_device.hpp"
#include "backend/cuda/driver.hpp"

namespace dwell::backend {

CudaDevices cuda_devices() {
  CudaDevices found;
  try {
    const Driver& driver = Driver::get();
    found.driver_version = driver.version;
    int count = 0;
    driver.check(driver.cuDeviceGetCount(&count), "counting devices");
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      CUdevice device = 0;
      driver.check(driver.cuDeviceGet(&device, ordinal), "opening a device");
      CudaDeviceSummary summary;
      summary.ordinal = ordinal;
      summary.name = name_of(driver, device);
      summary.major = attribute_of(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
      summary.minor = attribute_of(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
      summary.multiprocessors = static_cast<std::uint32_t>(attribute_of(driver, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
      summary.memory_bytes = memory_of(driver, device);
      summary.default_workers = kWorkersPerMultiprocessor * summary.multiprocessors;
      try {
        usable_device(driver, ordinal);
      } catch (const Error& failure) {
        summary.problem = failure.message();
      }
      found.devices.push_back(std::move(summary));
    }
    if (found.devices.empty()) found.problem = "the driver shows no device (CUDA_VISIBLE_DEVICES limits them)";
  } catch (const Error& failure) {
    found.problem = failure.message();
  }
  return found;
}

}  // namespace dwell::backend
