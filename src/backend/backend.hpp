// The whole contract of a backend: memory, images, leases, and kernels beside them. Another device needs no more than this.
//
// A backend moves bytes and runs leases; it knows nothing of tasks, operators or tickets. The runtime calls it from several threads,
// but never two of start and finish at once, nor two loads of images.
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

// Memory with an address on the device and, where the host can reach it, one there. Frees itself; must not outlive its backend.
class Allocation {
 public:
  virtual ~Allocation() = default;
  std::uint64_t device() const noexcept { return device_; }
  void* host() const noexcept { return host_; }  // null for memory the host cannot reach
  std::size_t bytes() const noexcept { return bytes_; }

 protected:
  std::uint64_t device_ = 0;
  void* host_ = nullptr;
  std::size_t bytes_ = 0;
};

// Memory of the device that can grow at its end, up to a limit. What lies in it stays where it is.
class Region : public Allocation {
 public:
  // Makes it at least so many bytes; in the new ones is whatever is in it. Leases may run. Throws errc::out_of_memory, also for more than
  // the limit.
  virtual void grow(std::size_t bytes) = 0;
};

// A loaded image. Unloads itself, which may wait for leases that run; must not outlive its backend, nor be destroyed before the leases of
// it have reported their end.
class LoadedImage {
 public:
  virtual ~LoadedImage() = default;
  // Workers that can live on the device at once when each has `scratch_bytes` of scratch memory, given what the image takes.
  virtual std::uint32_t max_workers(std::uint32_t scratch_bytes) const = 0;
  // The device address of a variable that an object of it exports; 0 when there is none. Throws errc::device_lost.
  virtual std::uint64_t variable(const std::string&) const { return 0; }
};

// Kernels of a program of the user's own, loaded, by their place in the list of symbols that they were loaded with. Unloads itself; must
// not outlive its backend, nor be destroyed while one of its launches is in flight.
class LoadedModule {
 public:
  virtual ~LoadedModule() = default;
};

// A launch: kernel, extent, stream. `parameters` point to the values that the kernel takes, which are copied at once.
struct KernelLaunch {
  std::size_t kernel = 0;
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t shared_bytes = 0;
  void* stream = nullptr;  // the user's own; null: the backend's stream for launches
  std::span<const void* const> parameters;
};

// Memory of the device to be copied into the host's.
struct HostCopy {
  void* to;
  std::uint64_t from;
  std::size_t bytes;
};

// How far a launch is. Frees itself, without waiting; must not outlive its backend.
class Completion {
 public:
  virtual ~Completion() = default;
  // Whether its stream has come past the launch. May be called from any thread, never blocks. Throws errc::device_lost with the device's
  // own text when it never will.
  virtual bool done() = 0;
};

struct DeviceInfo {
  std::string device;                 // "cpu", "cuda:0"
  std::string name;                   // as the vendor names it
  std::string target;                 // operators are compiled for it: "host", "sm_90"
  std::uint32_t default_workers = 0;  // when Options::workers is 0
  std::uint64_t default_lease_ns = 0;
  std::uint64_t default_idle_ns = 0;
  std::uint64_t give_way_ns = 0;      // how long the device stays empty for a call of others that waits for it; 0: none does
  bool on_host = false;               // its workers share the host's processors
  bool host_memory_waits = false;     // freeing memory that the host reaches waits for the end of the lease
  bool memory_needs_lease = false;    // a tool that checks accesses knows only memory allocated before the lease was started
  bool kernels_queue = false;         // the same tool starts no kernel before the ones before it have ended, and makes all slower
  std::uint32_t multiprocessors = 0;  // that share the workers; 0 where there are none
  std::uint64_t memory_bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual DeviceInfo info() const = 0;

  // Device memory, cleared, aligned to 256 bytes. Throws errc::out_of_memory.
  virtual std::unique_ptr<Allocation> allocate(std::size_t bytes) = 0;
  // Device memory of so many bytes, cleared, aligned to 256 bytes, that may grow to `limit`: a limit takes addresses, no memory. Throws
  // errc::out_of_memory.
  virtual std::unique_ptr<Region> reserve(std::size_t bytes, std::size_t limit) = 0;
  // Host memory that the device reaches too, cleared, aligned to 256 bytes. Throws errc::out_of_memory.
  virtual std::unique_ptr<Allocation> allocate_host(std::size_t bytes) = 0;
  // Memory of others, for as long as the allocation lives, which keeps `keep_alive` meanwhile; for good when the device has been abandoned.
  // Its host address is null for memory of the device that the host cannot reach. `bytes` is not 0. Throws errc::invalid_argument with the
  // reason when the device does not reach the memory: all of it; errc::unsupported where a backend takes none, as the one below does.
  virtual std::unique_ptr<Allocation> wrap(void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive);
  // Memory of this process, made one that the device reaches too, for as long as the allocation lives; else as wrap.
  virtual std::unique_ptr<Allocation> pin(void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive) {
    return wrap(pointer, bytes, std::move(keep_alive));
  }
  // Copies between the host's and device memory; returns when done. Safe while a lease runs. Throws errc::device_lost.
  virtual void copy_to_device(std::uint64_t to, const void* from, std::size_t bytes) = 0;
  virtual void copy_to_host(void* to, std::uint64_t from, std::size_t bytes) = 0;
  // The same within device memory, of ranges that have nothing in common.
  virtual void copy_on_device(std::uint64_t to, std::uint64_t from, std::size_t bytes) = 0;
  // Sets memory of the device to zero.
  virtual void clear(std::uint64_t at, std::size_t bytes) = 0;
  // As copy_to_device, of what `make` puts into memory of so many bytes that it is given, all of it: memory from which the device copies
  // well, by default like any other. `make` calls no member of the backend.
  virtual void write_to_device(std::uint64_t to, std::size_t bytes, const std::function<void(std::byte*)>& make) {
    const auto made = std::make_unique_for_overwrite<std::byte[]>(bytes);
    make(made.get());
    copy_to_device(to, made.get(), bytes);
  }
  // The same for several, of which the device may make one while it is asked for the next: one wait for all. When it throws, none is under
  // way.
  virtual void copy_all_to_host(std::span<const HostCopy> copies) {
    for (const HostCopy& one : copies) copy_to_host(one.to, one.from, one.bytes);
  }

  // Loads a linked image. Leases may run, and be started meanwhile; it may wait for those that were started before. Throws
  // errc::device_lost, errc::link_failed (the image is not one of this backend's).
  virtual std::unique_ptr<LoadedImage> load(std::span<const std::byte> image) = 0;

  // Begins a lease and returns; lease.report->left[lease.slot] shows its end. Others may be on the device, none with the same slot. At most
  // device::kMostLeases. Throws errc::device_lost.
  virtual void start(LoadedImage& image, const device::Lease& lease) = 0;
  // The same for a burst: it begins when what `stream` holds has ended. Bursts follow each other, whatever their streams. Null, and on
  // devices without streams: begins at once.
  virtual void start_burst(LoadedImage& image, const device::Lease& lease, void* stream) {
    static_cast<void>(stream);
    start(image, lease);
  }
  // Whatever is put into `stream` later begins when the last burst has ended. May wait until it has: calls of other threads that wait for
  // the device keep locks that this needs. Throws errc::device_lost.
  virtual void order_behind_burst(void* stream) { static_cast<void>(stream); }
  // Returns once the device is rid of all leases, which have reported their end. Throws errc::device_lost.
  virtual void finish() = 0;
  // Loads the kernels of a program that stands beside the image, under the same conditions as load. Throws errc::link_failed,
  // errc::out_of_memory, errc::device_lost, and errc::unsupported where a device has no such programs, as the one below does.
  virtual std::unique_ptr<LoadedModule> load_kernels(std::span<const std::byte> program, std::span<const std::string> symbols);
  // Launches a kernel; leases run or do not. May be called from any thread. Throws errc::invalid_argument, naming the limit, for what the
  // kernel or the device does not allow; errc::device_lost.
  virtual std::unique_ptr<Completion> launch(LoadedModule& kernels, const KernelLaunch& launch);

  // The fault of the device since the last lease began, empty if there is none. May be called at any time, never blocks.
  virtual std::string fault() = 0;
  // The task or kernel that hangs on the device and keeps it from being opened as new in this process; empty when none does. Asked after a
  // failure, never blocks. A backend that was abandoned may find that the task has ended after all, and then gives everything back when it
  // is destroyed.
  virtual std::string stuck() { return {}; }
  // A task hangs and will not return: from now on nothing may wait for the device, destructors included; resources may leak.
  virtual void abandon() = 0;
  // What the exception said that a task has failed with (status::exception). `of`: the low bits of the position of a task of the ring, or
  // the cell of a node's record and device::InFlight::kNode. Empty when that is not known, or not any more. May be called at any time,
  // never blocks.
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

}  // namespace dwell::backend
