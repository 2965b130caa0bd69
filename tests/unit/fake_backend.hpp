// A device that runs nothing: leases begin and end as a test says.
#pragma once

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "backend/backend.hpp"

namespace dwell::test {

// What tests set before, and look at after, from any thread.
struct FakeDevice {
  std::atomic<std::uint32_t> room{64};    // LoadedImage::max_workers
  std::atomic<bool> obeys{true};          // a lease ends when the host asks for it
  std::atomic<bool> refuses_load{false};  // load throws
  std::atomic<bool> refuses_start{false};
  std::atomic<int> programs{0};  // that live
  std::atomic<int> loads{0};
  std::atomic<int> starts{0};
  std::atomic<int> finishes{0};
  std::atomic<bool> abandoned{false};
  std::atomic<bool> refuses_launch{false};  // launch throws
  std::atomic<int> loaded_kernels{0};       // sets of kernels that live
  std::atomic<int> launches{0};
  std::atomic<int> completions{0};  // that live

  // How a launch stands, by its place among all launches: in flight, complete, or what has become of the device.
  void end_launch(int launch) { set_launch(launch, "done"); }
  void break_launch(int launch, const std::string& text) { set_launch(launch, text); }
  std::string launch_state(int launch) {
    const std::lock_guard lock(mutex);
    return launch_states[launch];
  }

  void set_fault(const std::string& text) {
    const std::lock_guard lock(mutex);
    fault = text;
  }
  device::Lease last_lease() {
    const std::lock_guard lock(mutex);
    return lease;
  }
  // Ends the lease that runs, as the last worker does.
  void end_lease() {
    const device::Lease now = last_lease();
    device::store<device::Order::release, device::Scope::system>(&now.report->left, now.number);
  }

  std::mutex mutex;
  std::string fault;
  device::Lease lease{};
  std::map<int, std::string> launch_states;

 private:
  void set_launch(int launch, const std::string& text) {
    const std::lock_guard lock(mutex);
    launch_states[launch] = text;
  }
};

class FakeBackend final : public backend::Backend {
 public:
  explicit FakeBackend(std::shared_ptr<FakeDevice> device)
      : device_(std::move(device)), obedience_([this](const std::stop_token& stop) { obey(stop); }) {}

  backend::DeviceInfo info() const override { return {"fake", "a device that runs nothing", "host", 2, 1'000'000, 1'000'000}; }
  std::unique_ptr<backend::Allocation> allocate(std::size_t) override { throw Error(errc::out_of_memory, "the fake device has no memory"); }
  std::unique_ptr<backend::Allocation> allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void copy_to_device(std::uint64_t, const void*, std::size_t) override {}
  void copy_to_host(void*, std::uint64_t, std::size_t) override {}

  std::unique_ptr<backend::LoadedImage> load(std::span<const std::byte>) override {
    ++device_->loads;
    if (device_->refuses_load) throw Error(errc::link_failed, "the image is refused");
    return std::make_unique<LoadedImage>(device_);
  }
  std::unique_ptr<backend::LoadedModule> load_kernels(std::span<const std::byte>, std::span<const std::string>) override {
    if (device_->refuses_load) throw Error(errc::link_failed, "the program is refused");
    return std::make_unique<Counted<backend::LoadedModule>>(&device_->loaded_kernels, device_);
  }
  std::unique_ptr<backend::Completion> launch(backend::LoadedModule&, const backend::KernelLaunch&) override {
    if (device_->refuses_launch) throw Error(errc::invalid_argument, "the launch is refused");
    return std::make_unique<Completion>(device_, device_->launches++);
  }
  void start(backend::LoadedImage&, const device::Lease& lease) override {
    if (device_->refuses_start) throw Error(errc::device_lost, "the launch is refused");
    {
      const std::lock_guard lock(device_->mutex);
      device_->lease = lease;
    }
    ++device_->starts;
  }
  void finish() override { ++device_->finishes; }
  std::string fault() override {
    const std::lock_guard lock(device_->mutex);
    return device_->fault;
  }
  void abandon() override { device_->abandoned = true; }

 private:
  class LoadedImage final : public backend::LoadedImage {
   public:
    explicit LoadedImage(std::shared_ptr<FakeDevice> device) : device_(std::move(device)) { ++device_->programs; }
    ~LoadedImage() override { --device_->programs; }
    LoadedImage(const LoadedImage&) = delete;
    LoadedImage& operator=(const LoadedImage&) = delete;
    std::uint32_t max_workers(std::uint32_t) const override { return device_->room; }

   private:
    std::shared_ptr<FakeDevice> device_;
  };

  template <class Base>
  class Counted : public Base {
   public:
    Counted(std::atomic<int>* alive, std::shared_ptr<FakeDevice> device) : device_(std::move(device)), alive_(alive) { ++*alive_; }
    ~Counted() override { --*alive_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   protected:
    std::shared_ptr<FakeDevice> device_;

   private:
    std::atomic<int>* alive_;
  };
  class Completion final : public Counted<backend::Completion> {
   public:
    Completion(const std::shared_ptr<FakeDevice>& device, int launch) : Counted(&device->completions, device), launch_(launch) {}
    bool done() override {
      const std::string state = device_->launch_state(launch_);
      if (state.empty() || state == "done") return !state.empty();
      throw Error(errc::device_lost, state);
    }

   private:
    int launch_;
  };

  void obey(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      const device::Lease now = device_->last_lease();
      if (!device_->obeys || now.report == nullptr) continue;
      if (device::load<device::Order::relaxed, device::Scope::system>(&now.report->end) == now.number) device_->end_lease();
    }
  }

  std::shared_ptr<FakeDevice> device_;
  std::jthread obedience_;
};

}  // namespace dwell::test
