#include "backend/cuda/cuda_device.hpp"

#include <dwell/error.hpp>

namespace dwell::backend {

namespace {

constexpr int kOldestCapability = 70;  // 16-byte atomic accesses

}  // namespace

int attribute_of(const Driver& driver, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  driver.check(driver.cuDeviceGetAttribute(&value, attribute, device), "reading an attribute of the device");
  return value;
}

std::string name_of(const Driver& driver, CUdevice device) {
  char name[256] = {};
  driver.check(driver.cuDeviceGetName(name, sizeof(name) - 1, device), "reading the name of the device");
  return name;
}

std::uint64_t memory_of(const Driver& driver, CUdevice device) {
  std::size_t bytes = 0;
  driver.check(driver.cuDeviceTotalMem(&bytes, device), "reading the device's memory");
  return bytes;
}

CUdevice usable_device(const Driver& driver, int ordinal) {
  int count = 0;
  driver.check(driver.cuDeviceGetCount(&count), "counting devices");
  const std::string device = "cuda:" + std::to_string(ordinal);
  if (ordinal < 0 || ordinal >= count) {
    throw Error(errc::device_unavailable,
                "there is no " + device + ": the driver shows " + std::to_string(count) + " devices (CUDA_VISIBLE_DEVICES limits them)");
  }
  CUdevice handle = 0;
  driver.check(driver.cuDeviceGet(&handle, ordinal), "opening the device");
  const int major = attribute_of(driver, handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  const int minor = attribute_of(driver, handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (major * 10 + minor < kOldestCapability) {
    throw Error(errc::device_unavailable, device + ", " + name_of(driver, handle) + ", has compute capability " + std::to_string(major) +
                                              "." + std::to_string(minor) + ", 7.0 is needed");
  }
  // The host writes an entry while the device polls it, and both use one address.
  if (attribute_of(driver, handle, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 0 ||
      attribute_of(driver, handle, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY) == 0)
    throw Error(errc::device_unavailable, device + ", " + name_of(driver, handle) + ", cannot read the host's memory");
  if (attribute_of(driver, handle, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 0)
    throw Error(errc::device_unavailable, device + ", " + name_of(driver, handle) + ", has no memory pools");
  return handle;
}

}  // namespace dwell::backend
