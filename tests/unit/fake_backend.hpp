// A device that runs nothing: leases begin and end as with workers, or as a test says.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "backend/backend.hpp"

namespace dwell::test {

// State shared with tests, accessible from any thread.
struct FakeDevice {
  std::atomic<std::uint32_t> room{64};  // LoadedImage::max_workers
  std::atomic<bool> begins{true};       // a lease begins when all before it have been left or are asked over
  std::atomic<bool> obeys{true};        // a lease is left when the host asks for its end, or asks it over and has started another
  std::atomic<bool> has_memory{false};  // otherwise allocate throws
  std::atomic<std::uint64_t> next_address{0x7F00'0000'0000};  // of memory, which nobody may access
  std::atomic<bool> refuses_load{false};                      // load throws
  std::function<void()> on_load;                              // called by load
  std::function<void()> on_start;                             // called by start
  std::function<void()> on_order;                             // called by order_behind_burst
  std::atomic<bool> refuses_start{false};
  std::atomic<int> programs{0};  // not yet destroyed
  std::atomic<int> early{0};     // destroyed while one of their leases was on the device
  std::atomic<int> loads{0};
  std::atomic<int> starts{0};
  std::atomic<int> finishes{0};
  std::atomic<bool> abandoned{false};
  std::atomic<bool> refuses_launch{false};  // launch throws
  std::atomic<bool> no_memory{false};       // launch throws std::bad_alloc
  std::atomic<int> loaded_kernels{0};       // sets of kernels not yet destroyed
  std::atomic<int> launches{0};
  std::atomic<int> cooperative{0};  // launches among these
  std::atomic<int> completions{0};  // not yet destroyed

  // The state of a launch, by its number: in flight, complete, or the device's fault.
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

  // A lease and the image that it runs.
  struct Started {
    device::Lease lease;
    const backend::LoadedImage* image;
  };

  device::Lease last_lease() {
    const std::lock_guard lock(mutex);
    return last;
  }
  // The numbers of the leases on the device.
  std::vector<std::uint32_t> leases() {
    const std::lock_guard lock(mutex);
    std::vector<std::uint32_t> numbers;
    for (const Started& one : on_device) numbers.push_back(one.lease.number);
    return numbers;
  }
  // Begins a lease, as its first worker with a seat does.
  void begin_lease(std::uint32_t number) {
    const std::lock_guard lock(mutex);
    begin(number);
  }
  // Ends a lease, as its last worker does.
  void end_lease(std::uint32_t number) {
    const std::lock_guard lock(mutex);
    leave([number](const device::Lease& lease) { return lease.number == number; });
    settle();
  }
  // Ends all leases on the device.
  void end_leases() {
    const std::lock_guard lock(mutex);
    leave([](const device::Lease&) { return true; });
  }
  void start_lease(const backend::LoadedImage& image, const device::Lease& lease) {
    const std::lock_guard lock(mutex);
    last = lease;
    on_device.push_back({lease, &image});
    settle();
    ++starts;
  }
  void destroy_image(const backend::LoadedImage& image) {
    const std::lock_guard lock(mutex);
    if (std::ranges::any_of(on_device, [&](const Started& one) { return one.image == &image; })) ++early;
    --programs;
  }
  // Advances leases as workers do by themselves.
  void run() {
    const std::lock_guard lock(mutex);
    settle();
  }

  std::mutex mutex;
  std::string fault;
  device::Lease last{};
  std::vector<Started> on_device;  // by number
  std::map<int, std::string> launch_states;

 private:
  void set_launch(int launch, const std::string& text) {
    const std::lock_guard lock(mutex);
    launch_states[launch] = text;
  }
  static bool is_asked(const u32& word, std::uint32_t number) {
    return !device::is_after(number, device::load<device::Order::relaxed, device::Scope::system>(&word));
  }
  void begin(std::uint32_t number) {
    if (last.report == nullptr || is_asked(last.report->begun, number)) return;
    device::store<device::Order::relaxed, device::Scope::system>(&last.report->begun, number);
  }
  template <class Which>
  void leave(Which&& which) {
    std::erase_if(on_device, [&](const Started& one) {
      const device::Lease& lease = one.lease;
      if (!which(lease)) return false;
      device::store<device::Order::release, device::Scope::system>(&lease.report->left[lease.slot], lease.number);
      return true;
    });
  }
  void settle() {
    if (obeys)
      leave([this](const device::Lease& lease) {
        return is_asked(lease.report->end, lease.number) || (lease.number != last.number && is_asked(lease.report->over, lease.number));
      });
    if (!begins) return;
    for (const Started& one : on_device) {
      begin(one.lease.number);
      if (!is_asked(one.lease.report->over, one.lease.number)) break;
    }
  }
};

class FakeBackend final : public backend::Backend {
  struct Addresses : backend::Allocation {
    Addresses(std::uint64_t at, std::size_t count) {
      device_ = at;
      bytes_ = count;
    }
  };

 public:
  explicit FakeBackend(std::shared_ptr<FakeDevice> device)
      : device_(std::move(device)), obedience_([this](const std::stop_token& stop) { obey(stop); }) {}

  backend::DeviceInfo info() const override {
    backend::DeviceInfo info;
    info.device = "fake";
    info.name = "a device that runs nothing";
    info.target = "host";
    info.default_workers = 2;
    info.default_lease_ns = info.default_idle_ns = 1'000'000;
    return info;
  }
  std::unique_ptr<backend::Allocation> allocate(std::size_t bytes) override {
    if (!device_->has_memory) throw Error(errc::out_of_memory, "the fake device has no memory");
    return std::make_unique<Addresses>(device_->next_address.fetch_add(device::align_up(std::uint64_t{bytes} + 1, 256)), bytes);
  }
  std::unique_ptr<backend::Allocation> wrap(void* pointer, std::size_t bytes, std::shared_ptr<void>) override {
    return std::make_unique<Addresses>(reinterpret_cast<std::uint64_t>(pointer), bytes);
  }
  std::unique_ptr<backend::Region> reserve(std::size_t, std::size_t) override {
    throw Error(errc::out_of_memory, "the fake device has no memory");
  }
  std::unique_ptr<backend::Allocation> allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void copy_on_device(std::uint64_t, std::uint64_t, std::size_t) override {}
  void clear(std::uint64_t, std::size_t) override {}
  void copy_to_device(std::uint64_t, const void*, std::size_t) override {}
  void copy_to_host(void*, std::uint64_t, std::size_t) override {}

  std::unique_ptr<backend::LoadedImage> load(std::span<const std::byte>) override {
    ++device_->loads;
    if (device_->on_load) device_->on_load();
    if (device_->refuses_load) throw Error(errc::link_failed, "the image is refused");
    return std::make_unique<LoadedImage>(device_);
  }
  std::unique_ptr<backend::LoadedModule> load_kernels(std::span<const std::byte>, std::span<const std::string>) override {
    if (device_->refuses_load) throw Error(errc::link_failed, "the program is refused");
    return std::make_unique<Counted<backend::LoadedModule>>(&device_->loaded_kernels, device_);
  }
  std::unique_ptr<backend::Completion> launch(backend::LoadedModule&, const backend::KernelLaunch& launch) override {
    if (device_->no_memory) throw std::bad_alloc();
    if (device_->refuses_launch) throw Error(errc::invalid_argument, "the launch is refused");
    if (launch.cooperative) ++device_->cooperative;
    return std::make_unique<Completion>(device_, device_->launches++);
  }
  void start(backend::LoadedImage& image, const device::Lease& lease) override {
    if (device_->refuses_start) throw Error(errc::device_lost, "the launch is refused");
    if (device_->on_start) device_->on_start();
    device_->start_lease(image, lease);
  }
  void order_behind_burst() override {
    if (device_->on_order) device_->on_order();
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
    ~LoadedImage() override { device_->destroy_image(*this); }
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
      device_->run();
    }
  }

  std::shared_ptr<FakeDevice> device_;
  std::jthread obedience_;
};

}  // namespace dwell::test
