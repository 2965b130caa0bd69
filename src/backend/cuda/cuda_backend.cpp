#include "backend/cuda/cuda_backend.hpp"

#include <elf.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "backend/cuda/cuda_kernels.hpp"
#include "backend/cuda/driver.hpp"

namespace dwell::backend {

namespace {

// device/cuda_control.hpp has the same number under this name, for NVRTC alone: four executing warps and the control warp. load()
// compares it with the launch bounds of the image.
constexpr std::uint32_t kBlockThreads = 128 + 32;
constexpr std::uint32_t kWorkersPerMultiprocessor = 4;
constexpr int kOldestCapability = 70;  // 16-byte atomic accesses
constexpr const char* kKernel = "dwell_resident";
constexpr std::uint64_t kKept = 64ULL << 20U;  // bytes of freed memory that the pool keeps for later

static_assert(std::is_trivially_copyable_v<device::Lease> && sizeof(device::Lease) <= 4096, "a lease is a kernel parameter");

class CudaBackend;

class CudaMemory final : public Allocation {
 public:
  enum class Place { device, host };

  CudaMemory(const CudaBackend& backend, Place place, std::size_t bytes);
  ~CudaMemory() override;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

 private:
  const CudaBackend& backend_;
};

class CudaProgram final : public Program {
 public:
  CudaProgram(const CudaBackend& backend, std::span<const std::byte> image);
  ~CudaProgram() override;
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  std::uint32_t max_workers(std::uint32_t scratch_bytes) const override;
  CUfunction function() const noexcept { return function_; }

 private:
  const CudaBackend& backend_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  std::uint32_t max_scratch_ = 0;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(const Driver& driver, CUdevice device, int ordinal);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  DeviceInfo info() const override;
  std::unique_ptr<Allocation> allocate(std::size_t bytes) override;
  std::unique_ptr<Allocation> allocate_host(std::size_t bytes) override;
  void copy_to_device(std::uint64_t to, const void* from, std::size_t bytes) override;
  void copy_to_host(void* to, std::uint64_t from, std::size_t bytes) override;
  std::unique_ptr<Program> load(std::span<const std::byte> image) override;
  std::unique_ptr<LoadedKernels> load_kernels(std::span<const std::byte> program, std::span<const std::string> symbols) override;
  std::unique_ptr<Completion> launch(LoadedKernels& kernels, const KernelLaunch& launch) override;
  void start(Program& program, const device::Lease& lease) override;
  void finish() override;
  std::string fault() override;
  std::string stuck() override;
  void abandon() override { abandoned_.store(true, std::memory_order_relaxed); }

  const Driver& driver() const noexcept { return driver_; }
  CUcontext context() const noexcept { return context_; }
  CUmemoryPool pool() const noexcept { return pool_; }
  CUstream copies() const noexcept { return copies_; }
  // A flag of its own: nothing else is published with it.
  bool abandoned() const noexcept { return abandoned_.load(std::memory_order_relaxed); }
  // The device's CU_DEVICE_ATTRIBUTE_...
  int attribute(CUdevice_attribute attribute) const;
  // Makes the context current; throws errc::device_lost when it is abandoned or cannot be.
  class Entered;

 private:
  void release();
  CudaPlace place() const noexcept { return {driver_, context_, device_, launches_, abandoned_}; }
  // Waits for the copies of this thread, and those of others before them.
  void settle(const char* what);

  const Driver& driver_;
  const CUdevice device_;
  const int ordinal_;
  CUcontext context_ = nullptr;
  CUstream leases_ = nullptr;
  CUstream copies_ = nullptr;
  CUstream launches_ = nullptr;
  CUmemoryPool pool_ = nullptr;
  std::atomic<bool> abandoned_{false};
};

class CudaBackend::Entered {
 public:
  explicit Entered(const CudaBackend& backend) : current_(backend.driver_, backend.context_) {
    if (backend.abandoned()) throw Error(errc::device_lost, "the device was given up because a task on it hangs");
    backend.driver_.check(current_.result(), "making the CUDA context current");
  }

 private:
  Current current_;
};

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

// Whether `image` is a whole cubin. The driver takes no size and trusts what the headers say of it.
bool is_cubin(std::span<const std::byte> image) {
  constexpr Elf64_Half kMachineCuda = 190;
  Elf64_Ehdr header;
  if (image.size() < sizeof(header)) return false;
  std::memcpy(&header, image.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachineCuda)
    return false;
  const auto fits = [&](std::uint64_t offset, std::uint64_t bytes) { return offset <= image.size() && bytes <= image.size() - offset; };
  return fits(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize) &&
         fits(header.e_phoff, std::uint64_t{header.e_phnum} * header.e_phentsize);
}

// ---- Memory --------------------------------------------------------------------------------------------------------------------

CudaMemory::CudaMemory(const CudaBackend& backend, Place place, std::size_t bytes) : backend_(backend) {
  const Driver& driver = backend.driver();
  const std::size_t taken = std::max<std::size_t>(bytes, 1);
  const std::string what =
      "allocating " + std::to_string(bytes) + (place == Place::host ? " bytes of pinned host memory" : " bytes on the device");
  CUdeviceptr address = 0;
  if (place == Place::host) {
    driver.check(driver.cuMemHostAlloc(&host_, taken, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP), what.c_str());
    if (const CUresult result = driver.cuMemHostGetDevicePointer(&address, host_, 0); result != CUDA_SUCCESS) {
      driver.cuMemFreeHost(host_);
      driver.check(result, "mapping host memory into the device");
    }
    std::memset(host_, 0, taken);
  } else {
    // Out of a pool: cuMemFree would wait for every kernel on the device to end.
    CUresult result = driver.cuMemAllocFromPoolAsync(&address, taken, backend.pool(), backend.copies());
    if (result == CUDA_ERROR_OUT_OF_MEMORY && driver.cuMemPoolTrimTo(backend.pool(), 0) == CUDA_SUCCESS)
      result = driver.cuMemAllocFromPoolAsync(&address, taken, backend.pool(), backend.copies());
    driver.check(result, what.c_str());
  }
  device_ = address;
  bytes_ = bytes;
}

CudaMemory::~CudaMemory() {
  if (backend_.abandoned()) return;
  const Driver& driver = backend_.driver();
  const Current current(driver, backend_.context());
  if (current.result() != CUDA_SUCCESS) return;
  // A failure means that the context is lost, and with it the memory.
  if (host_ != nullptr) {
    driver.cuMemFreeHost(host_);
  } else {
    driver.cuMemFreeAsync(device_, backend_.copies());
  }
}

// ---- Images --------------------------------------------------------------------------------------------------------------------

CudaProgram::CudaProgram(const CudaBackend& backend, std::span<const std::byte> image) : backend_(backend) {
  const Driver& driver = backend.driver();
  if (!is_cubin(image)) throw Error(errc::link_failed, "the image is not a cubin");
  const std::string what = "loading the image with a driver for CUDA " + cuda_version_text(driver.version);
  driver.check(driver.cuModuleLoadData(&module_, image.data()), what.c_str());
  try {
    driver.check(driver.cuModuleGetFunction(&function_, module_, kKernel), "looking for dwell_resident in the image");
    // Otherwise the first launch would load the code, and wait for every kernel on the device to do it.
    driver.check(driver.cuFuncLoad(function_), "loading dwell_resident");
    int threads = 0;
    driver.check(driver.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function_),
                 "reading the image's launch bounds");
    if (threads != static_cast<int>(kBlockThreads)) {
      throw Error(errc::link_failed, "the image is for blocks of " + std::to_string(threads) + " threads, this library starts blocks of " +
                                         std::to_string(kBlockThreads));
    }
    int fixed = 0;
    driver.check(driver.cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function_), "reading the image's shared memory");
    // Only a permission, so it is given once and in full: what a lease takes is its own scratch_bytes.
    const int rest = std::max(0, backend.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) - fixed);
    driver.check(driver.cuFuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, rest),
                 "allowing large scratch memory");
    max_scratch_ = static_cast<std::uint32_t>(rest);
  } catch (...) {
    driver.cuModuleUnload(module_);
    throw;
  }
}

CudaProgram::~CudaProgram() {
  if (backend_.abandoned()) return;
  const Current current(backend_.driver(), backend_.context());
  if (current.result() == CUDA_SUCCESS) backend_.driver().cuModuleUnload(module_);
}

std::uint32_t CudaProgram::max_workers(std::uint32_t scratch_bytes) const {
  if (scratch_bytes > max_scratch_) return 0;
  const CudaBackend::Entered entered(backend_);
  int blocks = 0;
  backend_.driver().check(backend_.driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function_, kBlockThreads, scratch_bytes),
                          "computing how many workers fit");
  return static_cast<std::uint32_t>(blocks) * static_cast<std::uint32_t>(backend_.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
}

// Whether it is what a kernel has done wrong, which CUDA answers all later calls of the process with.
bool is_fault(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT: return true;
    default: return false;
  }
}

// The device cannot be opened because of an earlier fault. `shared`: its context was there already.
Error taken_down(int ordinal, bool shared, const std::string& why) {
  return Error(errc::device_lost, "cuda:" + std::to_string(ordinal) + " has failed in this process, and " +
                                      (shared ? "others (a Runtime, PyTorch) share the context that the fault has taken down"
                                              : "CUDA gives the process no new context after such a fault") +
                                      "; a new process is needed: " + why);
}

// ---- The backend ---------------------------------------------------------------------------------------------------------------

CudaBackend::CudaBackend(const Driver& driver, CUdevice device, int ordinal) : driver_(driver), device_(device), ordinal_(ordinal) {
  unsigned int flags = 0;
  int shared = 0;
  driver_.check(driver_.cuDevicePrimaryCtxGetState(device_, &flags, &shared), "looking whether the process has a context already");
  const CUresult retained = driver_.cuDevicePrimaryCtxRetain(&context_, device_);
  if (is_fault(retained)) throw taken_down(ordinal_, shared != 0, driver_.text(retained));
  if (retained != CUDA_SUCCESS) {
    throw Error(retained == CUDA_ERROR_OUT_OF_MEMORY ? errc::out_of_memory : errc::device_unavailable,
                "cuda:" + std::to_string(ordinal_) + " gives no context: " + driver_.text(retained));
  }
  try {
    const Entered entered(*this);
    int lowest = 0;
    int highest = 0;
    driver_.check(driver_.cuCtxGetStreamPriorityRange(&lowest, &highest), "reading the priorities of streams");
    driver_.check(driver_.cuStreamCreateWithPriority(&leases_, CU_STREAM_NON_BLOCKING, highest), "creating a stream");
    driver_.check(driver_.cuStreamCreateWithPriority(&copies_, CU_STREAM_NON_BLOCKING, lowest), "creating a stream");
    driver_.check(driver_.cuStreamCreateWithPriority(&launches_, CU_STREAM_NON_BLOCKING, lowest), "creating a stream");
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device_;
    driver_.check(driver_.cuMemPoolCreate(&pool_, &properties), "creating a memory pool");
    std::uint64_t kept = kKept;
    driver_.check(driver_.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept), "setting up a memory pool");
    // A context that a fault has taken down says so at the latest now.
    settle("opening the device");
  } catch (const Error& error) {
    release();
    if (error.kind() != errc::device_lost) throw;
    throw taken_down(ordinal_, shared != 0, error.message());
  } catch (...) {
    release();
    throw;
  }
}

void CudaBackend::release() {
  if (const Current current(driver_, context_); current.result() == CUDA_SUCCESS) {
    if (pool_ != nullptr) driver_.cuMemPoolDestroy(pool_);
    if (launches_ != nullptr) driver_.cuStreamDestroy(launches_);
    if (copies_ != nullptr) driver_.cuStreamDestroy(copies_);
    if (leases_ != nullptr) driver_.cuStreamDestroy(leases_);
  }
  driver_.cuDevicePrimaryCtxRelease(device_);
}

CudaBackend::~CudaBackend() {
  // Giving the context back could wait for the kernel that hangs.
  if (!abandoned()) release();
}

int CudaBackend::attribute(CUdevice_attribute attribute) const { return attribute_of(driver_, device_, attribute); }

DeviceInfo CudaBackend::info() const {
  DeviceInfo info;
  info.device = "cuda:" + std::to_string(ordinal_);
  info.name = name_of(driver_, device_);
  info.target = "sm_" + std::to_string(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)) +
                std::to_string(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  info.multiprocessors = static_cast<std::uint32_t>(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  info.default_workers = kWorkersPerMultiprocessor * info.multiprocessors;
  info.default_lease_ns = 1'000'000;
  info.default_idle_ns = 500'000;
  info.host_memory_waits = true;
  return info;
}

std::unique_ptr<Allocation> CudaBackend::allocate(std::size_t bytes) {
  const Entered entered(*this);
  auto memory = std::make_unique<CudaMemory>(*this, CudaMemory::Place::device, bytes);
  if (bytes != 0) {
    driver_.check(driver_.cuMemsetD8Async(memory->device(), 0, bytes, copies_), "clearing memory");
    settle("clearing memory");
  }
  return memory;
}

std::unique_ptr<Allocation> CudaBackend::allocate_host(std::size_t bytes) {
  const Entered entered(*this);
  return std::make_unique<CudaMemory>(*this, CudaMemory::Place::host, bytes);
}

void CudaBackend::settle(const char* what) { driver_.check(driver_.cuStreamSynchronize(copies_), what); }

void CudaBackend::copy_to_device(std::uint64_t to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const Entered entered(*this);
  driver_.check(driver_.cuMemcpyHtoDAsync(to, from, bytes, copies_), "copying to the device");
  settle("copying to the device");
}

void CudaBackend::copy_to_host(void* to, std::uint64_t from, std::size_t bytes) {
  if (bytes == 0) return;
  const Entered entered(*this);
  driver_.check(driver_.cuMemcpyDtoHAsync(to, from, bytes, copies_), "copying to the host");
  settle("copying to the host");
}

std::unique_ptr<Program> CudaBackend::load(std::span<const std::byte> image) {
  const Entered entered(*this);
  return std::make_unique<CudaProgram>(*this, image);
}

std::unique_ptr<LoadedKernels> CudaBackend::load_kernels(std::span<const std::byte> program, std::span<const std::string> symbols) {
  if (!is_cubin(program)) throw Error(errc::link_failed, "the program is not a cubin");
  return load_cuda_kernels(place(), program, symbols);
}

std::unique_ptr<Completion> CudaBackend::launch(LoadedKernels& kernels, const KernelLaunch& launch) {
  return launch_cuda_kernel(place(), kernels, launch);
}

void CudaBackend::start(Program& program, const device::Lease& lease) {
  const Entered entered(*this);
  void* parameters[] = {const_cast<device::Lease*>(&lease)};  // the driver copies from it
  driver_.check(driver_.cuLaunchKernel(static_cast<CudaProgram&>(program).function(), lease.workers, 1, 1, kBlockThreads, 1, 1,
                                       lease.scratch_bytes, leases_, parameters, nullptr),
                "starting a lease");
}

void CudaBackend::finish() {
  const Entered entered(*this);
  driver_.check(driver_.cuStreamSynchronize(leases_), "a lease");
}

std::string CudaBackend::fault() {
  const Current current(driver_, context_);
  const CUresult result = current.result() != CUDA_SUCCESS ? current.result() : driver_.cuStreamQuery(leases_);
  return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY ? std::string() : driver_.text(result);
}

std::string CudaBackend::stuck() {
  if (!abandoned()) return {};
  const Current current(driver_, context_);
  if (current.result() == CUDA_SUCCESS && driver_.cuStreamQuery(leases_) == CUDA_ERROR_NOT_READY)
    return "a task hangs on it, and only the end of the process takes it off; a new process is needed";
  abandoned_.store(false, std::memory_order_relaxed);
  return {};
}

// The device behind an ordinal; its memory and compute mode are not looked at.
CUdevice device_of(const Driver& driver, int ordinal) {
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

}  // namespace

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
      std::size_t bytes = 0;
      driver.check(driver.cuDeviceTotalMem(&bytes, device), "reading the device's memory");
      summary.memory_bytes = bytes;
      found.devices.push_back(std::move(summary));
    }
    if (found.devices.empty()) found.problem = "the driver shows no device (CUDA_VISIBLE_DEVICES limits them)";
  } catch (const Error& failure) {
    found.problem = failure.message();
  }
  return found;
}

std::unique_ptr<Backend> open_cuda(int ordinal) {
  const Driver& driver = Driver::get();
  return std::make_unique<CudaBackend>(driver, device_of(driver, ordinal), ordinal);
}

}  // namespace dwell::backend
