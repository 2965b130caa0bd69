// The interface of a backend: memory, images, leases, and kernels beside them. A new device implements only this.
//
// A backend copies memory and runs leases; it is independent of tasks, operators and tickets. Thread safety: called from several threads,
// but start and finish never concurrently, nor two loads of images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <dwell/error.hpp>

#include "device/arena.hpp"

namespace dwell::backend {

// Memory with an address on the device and, if the host can access it, one on the host. Frees itself; must not outlive its backend.
class Allocation {
 public:
  virtual ~Allocation() = default;
  std::uint64_t device() const noexcept { return device_; }
  void* host() const noexcept { return host_; }  // null if the host cannot access the memory
  std::size_t bytes() const noexcept { return bytes_; }

 protected:
  std::uint64_t device_ = 0;
  void* host_ = nullptr;
  std::size_t bytes_ = 0;
};

// Device memory that can grow at its end, up to a limit. Its content does not move.
class Region : public Allocation {
 public:
  // Grows it to at least `bytes`; new bytes are uninitialised. Leases may run. Throws errc::out_of_memory, also beyond the limit.
  virtual void grow(std::size_t bytes) = 0;
};

// A loaded image. Unloads itself, which may wait for leases that run; must not outlive its backend, nor be destroyed before the leases of
// it have reported their end.
class LoadedImage {
 public:
  virtual ~LoadedImage() = default;
  // Returns the workers that fit the device at once, each with `scratch_bytes` of scratch memory and the image's resources.
  virtual std::uint32_t max_workers(std::uint32_t scratch_bytes) const = 0;
  // Returns the device address of a variable that one of its objects exports; 0 if there is none. Throws errc::device_lost.
  virtual std::uint64_t variable(const std::string&) const { return 0; }
};

// Loaded kernels of a user's program, numbered by the list of symbols at loading. Unloads itself; must not outlive its backend, nor be
// destroyed while one of its launches is in flight.
class LoadedModule {
 public:
  virtual ~LoadedModule() = default;
};

// A launch: kernel, extent, stream. `parameters` point to the kernel's arguments, which are copied at once.
struct KernelLaunch {
  std::size_t kernel = 0;
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t shared_bytes = 0;
  void* stream = nullptr;  // the user's own; null: the backend's stream for launches
  std::span<const void* const> parameters;
  bool cooperative = false;  // all blocks run at once
  bool exclusive = false;    // of a prepared launch: each run begins behind the one before, also in another stream
};

// A copy from device memory to host memory.
struct HostCopy {
  void* to;
  std::uint64_t from;
  std::size_t bytes;
};

// The completion of a launch. Frees itself, without waiting; must not outlive its backend.
class Completion {
 public:
  virtual ~Completion() = default;
  // Whether its stream has passed the launch. May be called from any thread, never blocks. Throws errc::device_lost with the device's own
  // text when it never will.
  virtual bool done() = 0;
};

// A launch whose limits have been checked. Must not outlive its module.
class PreparedLaunch {
 public:
  virtual ~PreparedLaunch() = default;
  // Launches the kernel in a stream (null: the backend's stream for launches), also one that is captured. `parameters`: values for the
  // kernel's arguments, which are copied at once; of an exclusive launch those that it was prepared with. May be called from any thread.
  // Throws errc::device_lost.
  virtual void enqueue(void* stream, std::span<void* const> parameters) = 0;
};

struct DeviceInfo {
  std::string device;                 // "cpu", "cuda:0"
  std::string name;                   // as the vendor names it
  std::string target;                 // the compiler's target: "host", "sm_90"
  std::uint32_t default_workers = 0;  // when Options::workers is 0
  std::uint64_t default_lease_ns = 0;
  std::uint64_t default_idle_ns = 0;
  std::uint64_t give_way_ns = 0;      // time for which the device stays empty for waiting calls of others; 0: none wait
  bool on_host = false;               // its workers share the host's processors
  bool host_memory_waits = false;     // freeing host-accessible memory waits for the end of the lease
  bool memory_needs_lease = false;    // under a checking tool that knows only memory allocated before the start of the lease
  bool kernels_queue = false;         // the same tool serialises kernels, and slows everything down
  std::uint32_t multiprocessors = 0;  // that share the workers; 0: none
  std::uint64_t memory_bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual DeviceInfo info() const = 0;

  // Allocates cleared device memory, aligned to 256 bytes. Throws errc::out_of_memory.
  virtual std::unique_ptr<Allocation> allocate(std::size_t bytes) = 0;
  // Allocates `bytes` of cleared device memory, aligned to 256 bytes, that may grow to `limit`: the limit reserves addresses, no memory.
  // Throws errc::out_of_memory.
  virtual std::unique_ptr<Region> reserve(std::size_t bytes, std::size_t limit) = 0;
  // Allocates cleared host memory that the device can access, aligned to 256 bytes. Throws errc::out_of_memory.
  virtual std::unique_ptr<Allocation> allocate_host(std::size_t bytes) = 0;
  // Wraps foreign memory. The allocation keeps `keep_alive`; permanently once the device was abandoned. Its host address is null for device
  // memory that the host cannot access. `bytes` must not be 0. Throws errc::invalid_argument with the reason when the device cannot access
  // all of the memory; errc::unsupported where a backend wraps none, as this default.
  virtual std::unique_ptr<Allocation> wrap(void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive);
  // Makes memory of this process accessible to the device for the life of the allocation; else as wrap.
  virtual std::unique_ptr<Allocation> pin(void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive) {
    return wrap(pointer, bytes, std::move(keep_alive));
  }
  // Copies between the host's and device memory; returns when done. Safe while a lease runs: an aligned word of 4 or 8 bytes goes by one
  // store or load, so device code may read or write it meanwhile by atomic operations. Throws errc::device_lost.
  virtual void copy_to_device(std::uint64_t to, const void* from, std::size_t bytes) = 0;
  virtual void copy_to_host(void* to, std::uint64_t from, std::size_t bytes) = 0;
  // Copies within device memory, between disjoint ranges.
  virtual void copy_on_device(std::uint64_t to, std::uint64_t from, std::size_t bytes) = 0;
  // Sets memory of the device to zero.
  virtual void clear(std::uint64_t at, std::size_t bytes) = 0;
  // As copy_to_device, from a staging buffer of `bytes` that `make` must fill entirely. A backend may use memory from which copies are
  // fast. `make` must not call the backend.
  virtual void write_to_device(std::uint64_t to, std::size_t bytes, const std::function<void(std::byte*)>& make) {
    const auto made = std::make_unique_for_overwrite<std::byte[]>(bytes);
    make(made.get());
    copy_to_device(to, made.get(), bytes);
  }
  // Makes several copies with one wait; the device may start one while the next is enqueued. If it throws, none is in progress.
  virtual void copy_all_to_host(std::span<const HostCopy> copies) {
    for (const HostCopy& one : copies) copy_to_host(one.to, one.from, one.bytes);
  }

  // Loads a linked image. Leases may run and be started meanwhile; it may wait for earlier ones. Throws errc::device_lost,
  // errc::link_failed (the image is not one of this backend's).
  virtual std::unique_ptr<LoadedImage> load(std::span<const std::byte> image) = 0;

  // Begins a lease and returns; lease.report->left[lease.slot] shows its end. Up to device::kMostLeases may be on the device, with
  // different slots. Throws errc::device_lost.
  virtual void start(LoadedImage& image, const device::Lease& lease) = 0;
  // Throws errc::invalid_argument if no burst can run in the stream: it is being captured.
  virtual void check_burst(void* stream) { static_cast<void>(stream); }
  // Begins a burst in `stream`: after its earlier work, before its later work. Bursts run one after the other, also in different streams.
  // With a null stream, and on devices without streams, begins at once.
  virtual void start_burst(LoadedImage& image, const device::Lease& lease, void* stream) {
    static_cast<void>(stream);
    start(image, lease);
  }
  // Call behind each start_burst. Orders bursts in other streams behind it. May wait for its end: other threads' calls that wait for the
  // device hold locks that this needs. Throws errc::device_lost.
  virtual void order_behind_burst() {}
  // Returns once all leases, which have reported their end, are off the device. Throws errc::device_lost.
  virtual void finish() = 0;
  // Loads the kernels of a program beside the image, under the same conditions as load. Throws errc::link_failed, errc::out_of_memory,
  // errc::device_lost, and errc::unsupported where a device has no such programs, as this default.
  virtual std::unique_ptr<LoadedModule> load_kernels(std::span<const std::byte> program, std::span<const std::string> symbols);
  // Launches a kernel, with or without running leases. May be called from any thread. Throws errc::invalid_argument, naming the exceeded
  // limit of the kernel or the device; errc::device_lost.
  virtual std::unique_ptr<Completion> launch(LoadedModule& kernels, const KernelLaunch& launch);
  // Checks a launch as `launch` does, once for any number of launches. The stream and the parameters are those of each.
  virtual std::unique_ptr<PreparedLaunch> prepare(LoadedModule& kernels, const KernelLaunch& launch);

  // Makes a stream for launches, and gives one back, once it has passed them. Those that are left end with the backend. May be called from
  // any thread. Throws errc::device_lost, and errc::unsupported where launches have no streams, as this default.
  virtual void* make_stream();
  virtual void drop_stream(void* stream) { static_cast<void>(stream); }

  // Returns the device's fault since the last lease began; empty if there is none. May be called at any time, never blocks.
  virtual std::string fault() = 0;
  // Returns the hanging task or kernel that keeps the device from being reopened in this process; empty if none does. Called after a
  // failure, never blocks. If the task has ended after all, an abandoned backend frees everything in its destructor.
  virtual std::string stuck() { return {}; }
  // Abandons a device with a hanging task: from now on nothing may wait for the device, destructors included; resources may leak.
  virtual void abandon() = 0;
  // Returns the message of the exception that failed a task (status::exception). `of`: the low bits of a ring task's position, or the cell
  // of a node's record and device::InFlight::kNode. Empty if unknown or overwritten. May be called at any time, never blocks.
  virtual std::string thrown(std::uint64_t of) {
    static_cast<void>(of);
    return {};
  }
};

inline std::unique_ptr<Allocation> Backend::wrap(void*, std::size_t, std::shared_ptr<void> keep_alive) {
  const auto dropped = std::move(keep_alive);
  throw Error(errc::unsupported, info().device + " takes no memory of others");
}
inline std::unique_ptr<LoadedModule> Backend::load_kernels(std::span<const std::byte>, std::span<const std::string>) {
  throw Error(errc::unsupported, info().device + " runs no kernels beside the loop");
}
inline std::unique_ptr<Completion> Backend::launch(LoadedModule&, const KernelLaunch&) {
  throw Error(errc::unsupported, info().device + " runs no kernels beside the loop");
}
inline void* Backend::make_stream() { throw Error(errc::unsupported, info().device + " has no streams for launches"); }
inline std::unique_ptr<PreparedLaunch> Backend::prepare(LoadedModule&, const KernelLaunch&) {
  throw Error(errc::unsupported, info().device + " runs no kernels beside the loop");
}

}  // namespace dwell::backend
