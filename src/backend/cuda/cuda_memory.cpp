#include "backend/cuda/cuda_memory.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace dwell::backend {

namespace {

class CudaMemory final : public Allocation {
 public:
  enum class Kind { device, host };

  CudaMemory(const CudaPlace& place, Kind kind, std::size_t bytes) : place_(place) {
    if (kind == Kind::host)
      allocate_host(bytes);
    else
      allocate_device(bytes);
    bytes_ = bytes;
  }
  ~CudaMemory() override {
    give_back(place_, [this] { free(); });
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

 private:
  void allocate_device(std::size_t bytes) {
    const Driver& driver = place_.driver;
    const std::size_t taken = std::max<std::size_t>(bytes, 1);
    CUdeviceptr address = 0;
    // Allocate from a pool: cuMemFree would wait for every kernel on the device.
    CUresult result = driver.cuMemAllocFromPoolAsync(&address, taken, place_.pool, place_.copies);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && driver.cuMemPoolTrimTo(place_.pool, 0) == CUDA_SUCCESS)
      result = driver.cuMemAllocFromPoolAsync(&address, taken, place_.pool, place_.copies);
    driver.check(result, ("allocating " + std::to_string(bytes) + " bytes on the device").c_str());
    device_ = address;
    if (bytes == 0) return;
    try {
      driver.check(driver.cuMemsetD8Async(device_, 0, bytes, place_.copies), "clearing memory");
      driver.check(driver.cuStreamSynchronize(place_.copies), "clearing memory");
    } catch (...) {
      free();
      throw;
    }
  }
  void allocate_host(std::size_t bytes) {
    const Driver& driver = place_.driver;
    const std::size_t taken = std::max<std::size_t>(bytes, 1);
    driver.check(driver.cuMemHostAlloc(&host_, taken, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                 ("allocating " + std::to_string(bytes) + " bytes of pinned host memory").c_str());
    CUdeviceptr address = 0;
    if (const CUresult result = driver.cuMemHostGetDevicePointer(&address, host_, 0); result != CUDA_SUCCESS) {
      free();
      driver.check(result, "mapping host memory into the device");
    }
    device_ = address;
    std::memset(host_, 0, taken);
  }
  void free() const {
    if (host_ != nullptr)
      place_.driver.cuMemFreeHost(host_);
    else
      place_.driver.cuMemFreeAsync(device_, place_.copies);
  }

  const CudaPlace& place_;
};

// A range of reserved addresses; memory is mapped into it piece by piece. Source: CUDA driver API, virtual memory management.
class CudaRegion final : public Region {
 public:
  CudaRegion(const CudaPlace& place, std::size_t bytes, std::size_t limit) : place_(place) {
    const Driver& driver = place_.driver;
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties_.location.id = place.device;
    driver.check(driver.cuMemGetAllocationGranularity(&step_, &properties_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                 "asking how memory can be mapped");
    reserved_ = device::align_up(std::max(limit, bytes), step_);
    CUdeviceptr address = 0;
    driver.check(driver.cuMemAddressReserve(&address, reserved_, 0, 0, 0), "reserving addresses of the device");
    device_ = address;
    try {
      map(bytes);
      driver.check(driver.cuMemsetD8Async(device_, 0, bytes, place_.copies), "clearing memory");
      driver.check(driver.cuStreamSynchronize(place_.copies), "clearing memory");
    } catch (...) {
      free();
      throw;
    }
  }
  ~CudaRegion() override {
    give_back(place_, [this] { free(); });
  }
  CudaRegion(const CudaRegion&) = delete;
  CudaRegion& operator=(const CudaRegion&) = delete;

  void grow(std::size_t bytes) override {
    if (bytes <= bytes_) return;
    const Entered entered(place_);
    // Grow by at least a quarter if memory allows: each step costs driver calls.
    const std::size_t more = std::min(bytes_ + bytes_ / 4, reserved_);
    if (more > bytes && try_map(more)) return;
    map(bytes);
  }

 private:
  bool try_map(std::size_t bytes) {
    try {
      map(bytes);
    } catch (const Error& error) {
      if (error.kind() != errc::out_of_memory) throw;
      return false;
    }
    return true;
  }
  void map(std::size_t bytes) {
    const Driver& driver = place_.driver;
    const std::string what = "growing an arena to " + std::to_string(bytes) + " bytes on the device";
    const std::size_t end = device::align_up(bytes, step_);
    if (end > reserved_)
      throw Error(errc::out_of_memory, what + ": it ends at " + std::to_string(reserved_), {"arena", "", bytes, reserved_});
    const std::size_t more = end - bytes_;
    CUmemGenericAllocationHandle memory = 0;
    CUresult result = driver.cuMemCreate(&memory, more, &properties_, 0);
    // The pool holds the memory of freed buffers.
    if (result == CUDA_ERROR_OUT_OF_MEMORY && driver.cuMemPoolTrimTo(place_.pool, 0) == CUDA_SUCCESS)
      result = driver.cuMemCreate(&memory, more, &properties_, 0);
    driver.check(result, what.c_str());
    result = driver.cuMemMap(device_ + bytes_, more, 0, memory, 0);
    driver.cuMemRelease(memory);  // the mapping keeps it
    driver.check(result, what.c_str());
    CUmemAccessDesc access{};
    access.location = properties_.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = driver.cuMemSetAccess(device_ + bytes_, more, &access, 1);
    if (result != CUDA_SUCCESS) driver.cuMemUnmap(device_ + bytes_, more);
    driver.check(result, what.c_str());
    bytes_ = end;
  }
  void free() const {
    if (bytes_ != 0) place_.driver.cuMemUnmap(device_, bytes_);
    place_.driver.cuMemAddressFree(device_, reserved_);
  }

  const CudaPlace& place_;
  CUmemAllocationProp properties_{};
  std::size_t step_ = 0;
  std::size_t reserved_ = 0;
};

// Returns an attribute of an address; nothing if the driver does not know the address.
template <class T>
std::optional<T> look_up(const Driver& driver, CUpointer_attribute attribute, CUdeviceptr address) {
  T value{};
  const CUresult result = driver.cuPointerGetAttribute(&value, attribute, address);
  if (result == CUDA_ERROR_INVALID_VALUE) return std::nullopt;
  driver.check(result, "looking up whose memory it is");
  return value;
}

class CudaForeignMemory final : public Allocation {
 public:
  CudaForeignMemory(const CudaPlace& place, int ordinal, void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive)
      : place_(place), keep_alive_(std::make_unique<std::shared_ptr<void>>(std::move(keep_alive))) {
    const Driver& driver = place.driver;
    const auto address = reinterpret_cast<CUdeviceptr>(pointer);
    bytes_ = bytes;
    const auto refuse = [&](const std::string& why) {
      throw Error(errc::invalid_argument, "memory at " + std::to_string(address) + " cannot be wrapped: " + why, {"buffer", "", bytes, 0});
    };
    const auto type = look_up<unsigned>(driver, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    if (!type)
      refuse("CUDA does not know it, so the device cannot access it: allocate it with cudaHostAlloc, or pin it with cudaHostRegister");
    // The driver knows no range for some kinds of memory.
    const auto start = look_up<CUdeviceptr>(driver, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
    const auto size = look_up<std::size_t>(driver, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
    if (start && size && *size != 0 && bytes > *size - (address - *start))
      refuse("it has " + std::to_string(*size - (address - *start)) + " bytes, not " + std::to_string(bytes));
    const bool managed = look_up<unsigned>(driver, CU_POINTER_ATTRIBUTE_IS_MANAGED, address).value_or(0) != 0;
    device_ = look_up<CUdeviceptr>(driver, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address).value_or(0);
    if (managed || *type == CU_MEMORYTYPE_HOST) {
      // Host and device can access it.
      host_ = look_up<void*>(driver, CU_POINTER_ATTRIBUTE_HOST_POINTER, address).value_or(pointer);
      if (device_ == 0) refuse("it is host memory that is not mapped into the device (cudaHostAllocMapped, cudaHostRegisterMapped)");
      return;
    }
    const int owner = look_up<int>(driver, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address).value_or(ordinal);
    if (owner != ordinal) refuse("it is memory of cuda:" + std::to_string(owner) + ", the runtime is on cuda:" + std::to_string(ordinal));
    auto* const context = look_up<CUcontext>(driver, CU_POINTER_ATTRIBUTE_CONTEXT, address).value_or(nullptr);
    if (context != nullptr && context != place.context) refuse("it was allocated in a context that is not the primary one of its device");
    if (device_ == 0) device_ = address;
  }
  ~CudaForeignMemory() override {
    // A hanging task may still use it.
    if (place_.is_abandoned()) static_cast<void>(keep_alive_.release());
  }
  CudaForeignMemory(const CudaForeignMemory&) = delete;
  CudaForeignMemory& operator=(const CudaForeignMemory&) = delete;

 private:
  const CudaPlace& place_;
  std::unique_ptr<std::shared_ptr<void>> keep_alive_;
};

class CudaPinnedMemory final : public Allocation {
 public:
  CudaPinnedMemory(const CudaPlace& place, void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive)
      : place_(place), keep_alive_(std::make_unique<std::shared_ptr<void>>(std::move(keep_alive))) {
    const Driver& driver = place.driver;
    const CUresult result = driver.cuMemHostRegister(pointer, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_PERMITTED)
      throw Error(errc::invalid_argument, "CUDA cannot pin this memory of the process", {"host memory", "", bytes, 0});
    driver.check(result, "pinning memory of the process");
    CUdeviceptr address = 0;
    if (const CUresult mapped = driver.cuMemHostGetDevicePointer(&address, pointer, 0); mapped != CUDA_SUCCESS) {
      driver.cuMemHostUnregister(pointer);
      driver.check(mapped, "mapping pinned memory into the device");
    }
    host_ = pointer;
    device_ = address;
    bytes_ = bytes;
  }
  ~CudaPinnedMemory() override {
    if (place_.is_abandoned()) {
      static_cast<void>(keep_alive_.release());  // a hanging task may still write to it
      return;
    }
    give_back(place_, [this] { place_.driver.cuMemHostUnregister(host_); });
  }
  CudaPinnedMemory(const CudaPinnedMemory&) = delete;
  CudaPinnedMemory& operator=(const CudaPinnedMemory&) = delete;

 private:
  const CudaPlace& place_;
  std::unique_ptr<std::shared_ptr<void>> keep_alive_;
};

}  // namespace

std::unique_ptr<Allocation> pin_cuda(const CudaPlace& place, void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive) {
  return std::make_unique<CudaPinnedMemory>(place, pointer, bytes, std::move(keep_alive));
}

std::unique_ptr<Region> reserve_cuda(const CudaPlace& place, std::size_t bytes, std::size_t limit) {
  return std::make_unique<CudaRegion>(place, bytes, limit);
}

std::unique_ptr<Allocation> allocate_cuda(const CudaPlace& place, std::size_t bytes) {
  return std::make_unique<CudaMemory>(place, CudaMemory::Kind::device, bytes);
}

std::unique_ptr<Allocation> allocate_cuda_host(const CudaPlace& place, std::size_t bytes) {
  return std::make_unique<CudaMemory>(place, CudaMemory::Kind::host, bytes);
}

std::unique_ptr<Allocation> wrap_cuda(const CudaPlace& place, int ordinal, void* pointer, std::size_t bytes,
                                      std::shared_ptr<void> keep_alive) {
  return std::make_unique<CudaForeignMemory>(place, ordinal, pointer, bytes, std::move(keep_alive));
}

}  // namespace dwell::backend
