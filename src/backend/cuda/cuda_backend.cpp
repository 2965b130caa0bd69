#include "backend/cuda/cuda_backend.hpp"

#include <cstdlib>

#include <utility>
#include <vector>

#include "backend/cuda/cuda_device.hpp"
#include "backend/cuda/cuda_image.hpp"
#include "backend/cuda/cuda_kernels.hpp"
#include "backend/cuda/cuda_memory.hpp"
#include "backend/cuda/cuda_place.hpp"
#include "base/mutex.hpp"

namespace dwell::backend {

namespace {

constexpr std::size_t kStaging = 256U << 10U;  // bytes: enough for a graph of about 3,000 nodes
constexpr std::uint64_t kKept = 64ULL << 20U;  // bytes of freed memory that the pool keeps for later

// Returns whether `result` is a kernel's fault: CUDA returns it from all later calls of the process.
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

// The error for a device that an earlier fault keeps from being opened. `shared`: its context existed before.
Error taken_down(int ordinal, bool shared, const std::string& why) {
  return Error(errc::device_lost, "cuda:" + std::to_string(ordinal) + " has failed in this process, and " +
                                      (shared ? "others (a Runtime, PyTorch) share the context that the fault has taken down"
                                              : "CUDA gives the process no new context after such a fault") +
                                      "; a new process is needed: " + why);
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(const Driver& driver, CUdevice device, int ordinal) : driver_(driver), place_{driver, device}, ordinal_(ordinal) { open(); }
  ~CudaBackend() override {
    // Releasing the context could wait for the hanging kernel.
    if (!place_.is_abandoned()) release();
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  DeviceInfo info() const override;
  std::unique_ptr<Allocation> allocate(std::size_t bytes) override {
    const Entered entered(place_);
    return allocate_cuda(place_, bytes);
  }
  std::unique_ptr<Region> reserve(std::size_t bytes, std::size_t limit) override {
    const Entered entered(place_);
    return reserve_cuda(place_, bytes, limit);
  }
  std::unique_ptr<Allocation> allocate_host(std::size_t bytes) override {
    const Entered entered(place_);
    return allocate_cuda_host(place_, bytes);
  }
  std::unique_ptr<Allocation> wrap(void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive) override {
    const Entered entered(place_);
    return wrap_cuda(place_, ordinal_, pointer, bytes, std::move(keep_alive));
  }
  std::unique_ptr<Allocation> pin(void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive) override {
    const Entered entered(place_);
    return pin_cuda(place_, pointer, bytes, std::move(keep_alive));
  }
  void copy_to_device(std::uint64_t to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    const Entered entered(place_);
    driver_.check(driver_.cuMemcpyHtoDAsync(to, from, bytes, place_.copies), "copying to the device");
    settle("copying to the device");
  }
  void write_to_device(std::uint64_t to, std::size_t bytes, const std::function<void(std::byte*)>& make) override {
    if (bytes > kStaging) return Backend::write_to_device(to, bytes, make);
    const Lock lock(staging_mutex_);
    make(static_cast<std::byte*>(staging_));
    copy_to_device(to, staging_, bytes);
  }
  void copy_to_host(void* to, std::uint64_t from, std::size_t bytes) override {
    if (bytes == 0) return;
    const Entered entered(place_);
    driver_.check(driver_.cuMemcpyDtoHAsync(to, from, bytes, place_.copies), "copying to the host");
    settle("copying to the host");
  }
  void copy_on_device(std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    if (bytes == 0) return;
    const Entered entered(place_);
    driver_.check(driver_.cuMemcpyDtoDAsync(to, from, bytes, place_.copies), "copying on the device");
    settle("copying on the device");
  }
  void clear(std::uint64_t at, std::size_t bytes) override {
    if (bytes == 0) return;
    const Entered entered(place_);
    driver_.check(driver_.cuMemsetD8Async(at, 0, bytes, place_.copies), "clearing memory");
    settle("clearing memory");
  }
  void copy_all_to_host(std::span<const HostCopy> copies) override {
    const Entered entered(place_);
    CUresult queued = CUDA_SUCCESS;
    for (const HostCopy& one : copies)
      if (one.bytes != 0 && queued == CUDA_SUCCESS) queued = driver_.cuMemcpyDtoHAsync(one.to, one.from, one.bytes, place_.copies);
    // Also after an error: copies already enqueued write to the caller's memory.
    const CUresult settled = driver_.cuStreamSynchronize(place_.copies);
    driver_.check(queued, "copying to the host");
    driver_.check(settled, "copying to the host");
  }
  std::unique_ptr<LoadedImage> load(std::span<const std::byte> image) override {
    const Entered entered(place_);
    return load_cuda_image(place_, image);
  }
  std::unique_ptr<LoadedModule> load_kernels(std::span<const std::byte> program, std::span<const std::string> symbols) override {
    const Entered entered(place_);
    return load_cuda_kernels(place_, program, symbols);
  }
  std::unique_ptr<Completion> launch(LoadedModule& kernels, const KernelLaunch& launch) override {
    const Entered entered(place_);
    return launch_cuda_kernel(place_, kernels, launch);
  }
  std::unique_ptr<PreparedLaunch> prepare(LoadedModule& kernels, const KernelLaunch& launch) override {
    const Entered entered(place_);
    return prepare_cuda_kernel(place_, kernels, launch);
  }
  void* make_stream() override {
    const Entered entered(place_);
    const Lock lock(streams_mutex_);
    streams_.reserve(streams_.size() + 1);
    CUstream stream = nullptr;
    driver_.check(driver_.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, lowest_priority()), "creating a stream");
    streams_.push_back(stream);
    return stream;
  }
  void drop_stream(void* stream) override {
    const Lock lock(streams_mutex_);
    if (std::erase(streams_, static_cast<CUstream>(stream)) != 0)
      give_back(place_, [&] { driver_.cuStreamDestroy(static_cast<CUstream>(stream)); });
  }
  void start(LoadedImage& program, const device::Lease& lease) override {
    const Entered entered(place_);
    start_cuda_lease(place_, program, lease, place_.leases[lease.slot]);
    used_slots_ |= 1U << lease.slot;
  }
  void start_burst(LoadedImage& program, const device::Lease& lease, void* stream) override {
    const Entered entered(place_);
    auto* const in = stream == nullptr ? place_.leases[0] : static_cast<CUstream>(stream);
    // By number: a handle may name a new stream once the old one is destroyed.
    unsigned long long id = 0;
    driver_.check(driver_.cuStreamGetId(in, &id), "ordering a burst");
    if (last_burst_ != nullptr && last_burst_id_ != id) driver_.check(driver_.cuStreamWaitEvent(in, order_, 0), "ordering a burst");
    start_cuda_lease(place_, program, lease, in);
    last_burst_ = in;
    last_burst_id_ = id;
  }
  void order_behind_burst() override {
    const Entered entered(place_);
    driver_.check(driver_.cuEventRecord(order_, last_burst_), "ordering what follows a burst");
  }
  void check_burst(void* stream) override {
    if (stream == nullptr) return;
    const Entered entered(place_);
    driver_.refuse_captured(static_cast<CUstream>(stream), "a burst has no place there");
  }
  void finish() override {
    const Entered entered(place_);
    driver_.check(driver_.cuEventSynchronize(order_), "a burst");
    for (std::uint32_t slot = 0; slot < device::kMostLeases; ++slot) {
      if ((used_slots_ >> slot & 1U) != 0) driver_.check(driver_.cuStreamSynchronize(place_.leases[slot]), "a lease");
    }
    used_slots_ = 0;
  }
  std::string fault() override;
  std::string stuck() override;
  void abandon() override { place_.abandoned.store(true, std::memory_order_relaxed); }

 private:
  void open();
  void release();
  CUresult leases() const;
  int lowest_priority() const {
    int lowest = 0;
    int highest = 0;
    driver_.check(driver_.cuCtxGetStreamPriorityRange(&lowest, &highest), "reading the priorities of streams");
    return lowest;
  }
  int attribute(CUdevice_attribute attribute) const { return attribute_of(driver_, place_.device, attribute); }
  // Waits for this thread's copies, and for earlier copies of others.
  void settle(const char* what) { driver_.check(driver_.cuStreamSynchronize(place_.copies), what); }

  const Driver& driver_;
  CudaPlace place_;
  Mutex streams_mutex_;
  std::vector<CUstream> streams_ DWELL_GUARDED_BY(streams_mutex_);  // that users have made
  const int ordinal_;
  std::uint32_t used_slots_ = 0;   // streams of leases used since the last finish
  CUevent order_ = nullptr;        // where the last burst ends, for bursts in other streams
  CUstream last_burst_ = nullptr;  // the stream of the last burst, which may be destroyed by now
  unsigned long long last_burst_id_ = 0;
  Mutex staging_mutex_;
  void* staging_ DWELL_GUARDED_BY(staging_mutex_) = nullptr;  // pinned: the driver copies from it without an intermediate copy
};

void CudaBackend::open() {
  unsigned int flags = 0;
  int shared = 0;
  driver_.check(driver_.cuDevicePrimaryCtxGetState(place_.device, &flags, &shared), "looking whether the process has a context already");
  const CUresult retained = driver_.cuDevicePrimaryCtxRetain(&place_.context, place_.device);
  if (is_fault(retained)) throw taken_down(ordinal_, shared != 0, driver_.text(retained));
  if (retained != CUDA_SUCCESS) {
    throw Error(retained == CUDA_ERROR_OUT_OF_MEMORY ? errc::out_of_memory : errc::device_unavailable,
                "cuda:" + std::to_string(ordinal_) + " gives no context: " + driver_.text(retained));
  }
  try {
    const Entered entered(place_);
    // When the device has no room for two leases, blocks of the next lease are always waiting, and kernels of lower priority would never
    // start.
    const int lowest = lowest_priority();
    for (CUstream& stream : place_.leases)
      driver_.check(driver_.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, lowest), "creating a stream");
    driver_.check(driver_.cuStreamCreateWithPriority(&place_.copies, CU_STREAM_NON_BLOCKING, lowest), "creating a stream");
    driver_.check(driver_.cuEventCreate(&order_, CU_EVENT_DISABLE_TIMING), "creating an event");
    driver_.check(driver_.cuStreamCreateWithPriority(&place_.launches, CU_STREAM_NON_BLOCKING, lowest), "creating a stream");
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = place_.device;
    driver_.check(driver_.cuMemPoolCreate(&place_.pool, &properties), "creating a memory pool");
    std::uint64_t kept = kKept;
    driver_.check(driver_.cuMemPoolSetAttribute(place_.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept), "setting up a memory pool");
    const Lock lock(staging_mutex_);
    driver_.check(driver_.cuMemHostAlloc(&staging_, kStaging, CU_MEMHOSTALLOC_PORTABLE), "allocating pinned host memory");
    // Detects a context that a fault has taken down.
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
  if (const Current current(driver_, place_.context); current.result() == CUDA_SUCCESS) {
    if (order_ != nullptr) driver_.cuEventDestroy(order_);
    const Lock lock(staging_mutex_);
    if (staging_ != nullptr) driver_.cuMemFreeHost(staging_);
    if (place_.pool != nullptr) driver_.cuMemPoolDestroy(place_.pool);
    const Lock streams_lock(streams_mutex_);
    for (auto* stream : streams_) driver_.cuStreamDestroy(stream);
    if (place_.launches != nullptr) driver_.cuStreamDestroy(place_.launches);
    if (place_.copies != nullptr) driver_.cuStreamDestroy(place_.copies);
    for (auto* stream : place_.leases)
      if (stream != nullptr) driver_.cuStreamDestroy(stream);
  }
  driver_.cuDevicePrimaryCtxRelease(place_.device);
}

DeviceInfo CudaBackend::info() const {
  DeviceInfo info;
  info.device = "cuda:" + std::to_string(ordinal_);
  info.name = name_of(driver_, place_.device);
  info.target = "sm_" + std::to_string(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)) +
                std::to_string(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  info.multiprocessors = static_cast<std::uint32_t>(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  info.default_workers = kWorkersPerMultiprocessor * info.multiprocessors;
  info.default_lease_ns = 1'000'000;
  info.default_idle_ns = 500'000;
  info.give_way_ns = 50'000;
  info.host_memory_waits = true;
  info.memory_bytes = memory_of(driver_, place_.device);
  // compute-sanitizer sets this for the programs it checks.
  info.memory_needs_lease = info.kernels_queue = std::getenv("NV_SANITIZER_INJECTION_PORT_BASE") != nullptr;
  return info;
}

// Returns the first fault of the streams of leases and of the last burst; else CUDA_ERROR_NOT_READY while a lease runs; else success.
CUresult CudaBackend::leases() const {
  const Current current(driver_, place_.context);
  CUresult all = current.result();
  if (all == CUDA_SUCCESS) all = driver_.cuEventQuery(order_);
  for (auto* stream : place_.leases) {
    if (all != CUDA_SUCCESS && all != CUDA_ERROR_NOT_READY) break;
    if (const CUresult one = driver_.cuStreamQuery(stream); one != CUDA_SUCCESS) all = one;
  }
  return all;
}

std::string CudaBackend::fault() {
  const CUresult result = leases();
  return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY ? std::string() : driver_.text(result);
}

std::string CudaBackend::stuck() {
  if (!place_.is_abandoned()) return {};
  if (leases() == CUDA_ERROR_NOT_READY) return "a task hangs on it, and only the end of the process takes it off; a new process is needed";
  place_.abandoned.store(false, std::memory_order_relaxed);
  return {};
}

}  // namespace

std::unique_ptr<Backend> open_cuda(int ordinal) { return open_cuda(Driver::get(), ordinal); }

std::unique_ptr<Backend> open_cuda(const Driver& driver, int ordinal) {
  return std::make_unique<CudaBackend>(driver, usable_device(driver, ordinal), ordinal);
}

}  // namespace dwell::backend
