// The CPU as a device that a test can break, like a GPU after a fault: it runs operators until it breaks, and works again after reopening.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "backend/backend.hpp"
#include "backend/cpu/cpu_backend.hpp"
#include "jit/host/host_compiler.hpp"
#include "runtime/devices.hpp"

namespace dwell::test {

// State shared with tests, accessible from any thread. Tests break the device only while no lease runs.
struct BreakableDevice {
  std::atomic<int> opened{0};           // backends opened so far
  std::atomic<int> broken{0};           // backends up to this number are lost
  std::atomic<int> alive{0};            // backends not yet destroyed
  std::atomic<int> held{0};             // allocations and programs
  std::atomic<int> most_held{1 << 30};  // the limit of `held`
  // Bytes of the newest arena, and their limit.
  std::atomic<std::size_t> arena{0};
  std::atomic<std::size_t> most_arena{~std::size_t{0}};
  std::atomic<bool> missing{false};  // opening fails
  std::atomic<bool> stuck{false};
  std::atomic<bool> kernels_hang{false};  // launches never end
  // Leases see an empty ring: submitted tasks are lost while this is set.
  std::atomic<bool> blind{false};
  std::vector<device::Slot> nothing = std::vector<device::Slot>(128);

  void break_now() { broken = opened.load(); }
};

class BreakableBackend : public backend::Backend {
 public:
  explicit BreakableBackend(std::shared_ptr<BreakableDevice> device) : device_(std::move(device)), me_(++device_->opened) {
    ++device_->alive;
  }
  ~BreakableBackend() override { --device_->alive; }
  BreakableBackend(const BreakableBackend&) = delete;
  BreakableBackend& operator=(const BreakableBackend&) = delete;

  backend::DeviceInfo info() const override {
    backend::DeviceInfo info = inner_->info();
    info.device = "breakable";
    return info;
  }
  std::unique_ptr<backend::Allocation> allocate(std::size_t bytes) override {
    check();
    check_room(bytes);
    return std::make_unique<Memory>(device_, inner_->allocate(bytes));
  }
  std::unique_ptr<backend::Region> reserve(std::size_t bytes, std::size_t limit) override {
    check();
    check_room(bytes);
    return std::make_unique<Region>(*this, device_, inner_->reserve(bytes, limit), bytes);
  }
  std::unique_ptr<backend::Allocation> allocate_host(std::size_t bytes) override { return allocate(bytes); }
  std::unique_ptr<backend::Allocation> wrap(void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive) override {
    check();
    return std::make_unique<Memory>(device_, inner_->wrap(pointer, bytes, std::move(keep_alive)));
  }
  void copy_to_device(std::uint64_t to, const void* from, std::size_t bytes) override {
    check();
    inner_->copy_to_device(to, from, bytes);
  }
  void copy_to_host(void* to, std::uint64_t from, std::size_t bytes) override {
    check();
    inner_->copy_to_host(to, from, bytes);
  }
  void copy_on_device(std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    check();
    inner_->copy_on_device(to, from, bytes);
  }
  void clear(std::uint64_t at, std::size_t bytes) override {
    check();
    inner_->clear(at, bytes);
  }
  std::unique_ptr<backend::LoadedImage> load(std::span<const std::byte> image) override {
    check();
    return std::make_unique<LoadedImage>(device_, inner_->load(image));
  }
  void start(backend::LoadedImage& program, const device::Lease& lease) override {
    check();
    device::Lease given = lease;
    if (device_->blind) given.ring = device_->nothing.data();
    inner_->start(static_cast<LoadedImage&>(program).inner(), given);
  }
  void finish() override {
    inner_->finish();
    check();
  }
  // Kernels do nothing.
  std::unique_ptr<backend::LoadedModule> load_kernels(std::span<const std::byte>, std::span<const std::string>) override {
    return std::make_unique<backend::LoadedModule>();
  }
  std::unique_ptr<backend::Completion> launch(backend::LoadedModule&, const backend::KernelLaunch&) override {
    check();
    return std::make_unique<Completion>(*this);
  }
  std::string fault() override { return broken() ? "it broke" : ""; }
  std::string stuck() override { return device_->stuck ? "something hangs on it" : ""; }
  void abandon() override {
    abandoned_ = true;
    inner_->abandon();
  }

 private:
  class Memory final : public backend::Allocation {
   public:
    Memory(std::shared_ptr<BreakableDevice> device, std::unique_ptr<backend::Allocation> inner)
        : device_of_(std::move(device)), inner_(std::move(inner)) {
      device_ = inner_->device();
      host_ = inner_->host();
      bytes_ = inner_->bytes();
      ++device_of_->held;
    }
    ~Memory() override { --device_of_->held; }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

   private:
    std::shared_ptr<BreakableDevice> device_of_;
    std::unique_ptr<backend::Allocation> inner_;
  };
  class Region final : public backend::Region {
   public:
    Region(const BreakableBackend& backend, std::shared_ptr<BreakableDevice> device, std::unique_ptr<backend::Region> inner,
           std::size_t bytes)
        : backend_(backend), device_of_(std::move(device)), inner_(std::move(inner)) {
      show(bytes);
      ++device_of_->held;
    }
    ~Region() override { --device_of_->held; }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    void grow(std::size_t bytes) override {
      backend_.check();
      if (bytes > device_of_->most_arena) throw Error(errc::out_of_memory, "the breakable device is full", {"arena", "", bytes, 0});
      inner_->grow(bytes);
      show(bytes);
    }

   private:
    void show(std::size_t bytes) {
      device_ = inner_->device();
      host_ = inner_->host();
      device_of_->arena = bytes_ = bytes;
    }

    const BreakableBackend& backend_;
    std::shared_ptr<BreakableDevice> device_of_;
    std::unique_ptr<backend::Region> inner_;
  };
  class LoadedImage final : public backend::LoadedImage {
   public:
    LoadedImage(std::shared_ptr<BreakableDevice> device, std::unique_ptr<backend::LoadedImage> inner)
        : device_(std::move(device)), inner_(std::move(inner)) {
      ++device_->held;
    }
    ~LoadedImage() override { --device_->held; }
    LoadedImage(const LoadedImage&) = delete;
    LoadedImage& operator=(const LoadedImage&) = delete;
    std::uint32_t max_workers(std::uint32_t scratch_bytes) const override { return inner_->max_workers(scratch_bytes); }
    std::uint64_t variable(const std::string& symbol) const override { return inner_->variable(symbol); }
    backend::LoadedImage& inner() { return *inner_; }

   private:
    std::shared_ptr<BreakableDevice> device_;
    std::unique_ptr<backend::LoadedImage> inner_;
  };

  class Completion final : public backend::Completion {
   public:
    explicit Completion(const BreakableBackend& backend) : backend_(backend) {}
    bool done() override {
      backend_.check();
      return !backend_.device_->kernels_hang;
    }

   private:
    const BreakableBackend& backend_;
  };

  bool broken() const { return me_ <= device_->broken; }
  void check_room(std::size_t bytes) const {
    if (device_->held >= device_->most_held) throw Error(errc::out_of_memory, "the breakable device is full", {"memory", "", bytes, 0});
  }
  void check() const {
    if (broken()) throw Error(errc::device_lost, "the device is broken");
    if (abandoned_) throw Error(errc::device_lost, "the device was given up");
  }

  std::shared_ptr<BreakableDevice> device_;
  const int me_;
  std::atomic<bool> abandoned_{false};
  std::unique_ptr<backend::Backend> inner_ = backend::open_cpu();
};

// The CPU's compiler; compiles every program to one kernel "spin" without parameters.
class KernelCompiler final : public jit::Compiler {
 public:
  jit::Object compile(const jit::Unit& unit) override { return inner_.compile(unit); }
  std::string fingerprint(const jit::Unit& unit) override { return inner_.fingerprint(unit); }
  jit::Image link(std::span<const jit::Opcode> table, Tier tier, std::uint32_t parts) override { return inner_.link(table, tier, parts); }
  jit::ModuleObject compile_module(const jit::Unit&) override { return {{}, {}, {{"spin", "spin", Signature()}}, {}, {}}; }
  std::string identity() const override { return inner_.identity(); }

 private:
  jit::HostCompiler inner_;
};

// Opens `device` for a runtime.
inline auto opener(std::shared_ptr<BreakableDevice> device) {
  return [device = std::move(device)](const Options&) {
    // Like a faulted context: no new one while the old one is held.
    if (device->alive != 0) throw Error(errc::device_lost, "the broken device is still held");
    if (device->missing) throw Error(errc::device_unavailable, "the device has been pulled out");
    return runtime::OpenedDevice{std::make_unique<BreakableBackend>(device), std::make_unique<KernelCompiler>()};
  };
}

}  // namespace dwell::test
