#include "backend/cuda/cuda_image.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "backend/cuda/cuda_device.hpp"

namespace dwell::backend {

namespace {

// Four executing warps and the control warp. device/cuda_control.hpp defines the same number for NVRTC; loading compares it with the
// image's launch bounds.
constexpr std::uint32_t kBlockThreads = 128 + 32;
constexpr const char* kKernel = "dwell_resident";

static_assert(std::is_trivially_copyable_v<device::Lease> && sizeof(device::Lease) <= 4096, "a lease is a kernel parameter");

class CudaImage final : public LoadedImage {
 public:
  CudaImage(const CudaPlace& place, std::span<const std::byte> image) : place_(place) {
    const Driver& driver = place.driver;
    if (!is_cubin(image)) throw Error(errc::link_failed, "the image is not a cubin");
    const std::string what = "loading the image with a driver for CUDA " + cuda_version_text(driver.version);
    driver.check(driver.cuModuleLoadData(&module_, image.data()), what.c_str());
    try {
      driver.check(driver.cuModuleGetFunction(&function_, module_, kKernel), "looking for dwell_resident in the image");
      // Load the code now: else the first launch would, and wait for every kernel on the device.
      driver.check(driver.cuFuncLoad(function_), "loading dwell_resident");
      int threads = 0;
      driver.check(driver.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function_),
                   "reading the image's launch bounds");
      if (threads != static_cast<int>(kBlockThreads)) {
        throw Error(errc::link_failed, "the image is for blocks of " + std::to_string(threads) +
                                           " threads, this library starts blocks of " + std::to_string(kBlockThreads));
      }
      int fixed = 0;
      driver.check(driver.cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function_), "reading the image's shared memory");
      // Raise the limit once, to the maximum; each lease requests its own scratch_bytes.
      const int rest = std::max(0, attribute_of(driver, place.device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) - fixed);
      driver.check(driver.cuFuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, rest),
                   "allowing large scratch memory");
      max_scratch_ = static_cast<std::uint32_t>(rest);
    } catch (...) {
      driver.cuModuleUnload(module_);
      throw;
    }
  }
  ~CudaImage() override {
    give_back(place_, [this] { place_.driver.cuModuleUnload(module_); });
  }
  CudaImage(const CudaImage&) = delete;
  CudaImage& operator=(const CudaImage&) = delete;

  std::uint32_t max_workers(std::uint32_t scratch_bytes) const override {
    if (scratch_bytes > max_scratch_) return 0;
    const Entered entered(place_);
    const Driver& driver = place_.driver;
    int blocks = 0;
    driver.check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function_, kBlockThreads, scratch_bytes),
                 "computing how many workers fit");
    const int multiprocessors = attribute_of(driver, place_.device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    return static_cast<std::uint32_t>(blocks) * static_cast<std::uint32_t>(multiprocessors);
  }
  std::uint64_t variable(const std::string& symbol) const override {
    const Entered entered(place_);
    CUdeviceptr address = 0;
    const CUresult result = place_.driver.cuModuleGetGlobal(&address, nullptr, module_, symbol.c_str());
    if (result == CUDA_ERROR_NOT_FOUND) return 0;
    place_.driver.check(result, "looking for a variable in the image");
    return address;
  }
  CUfunction function() const noexcept { return function_; }

 private:
  const CudaPlace& place_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  std::uint32_t max_scratch_ = 0;
};

}  // namespace

bool is_cubin(std::span<const std::byte> cubin) {
  constexpr Elf64_Half kMachineCuda = 190;
  Elf64_Ehdr header;
  if (cubin.size() < sizeof(header)) return false;
  std::memcpy(&header, cubin.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachineCuda)
    return false;
  const auto fits = [&](std::uint64_t offset, std::uint64_t bytes) { return offset <= cubin.size() && bytes <= cubin.size() - offset; };
  return fits(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize) &&
         fits(header.e_phoff, std::uint64_t{header.e_phnum} * header.e_phentsize);
}

std::unique_ptr<LoadedImage> load_cuda_image(const CudaPlace& place, std::span<const std::byte> image) {
  return std::make_unique<CudaImage>(place, image);
}

void start_cuda_lease(const CudaPlace& place, const LoadedImage& program, const device::Lease& lease, CUstream stream) {
  void* parameters[] = {const_cast<device::Lease*>(&lease)};  // the driver copies the lease
  place.driver.check(place.driver.cuLaunchKernel(static_cast<const CudaImage&>(program).function(), lease.workers, 1, 1, kBlockThreads, 1,
                                                 1, lease.scratch_bytes, stream, parameters, nullptr),
                     "starting a lease");
}

}  // namespace dwell::backend
