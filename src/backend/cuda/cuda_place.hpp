// A backend's place on a CUDA device, shared by its memory, images, kernels and launches.
#pragma once

#include <atomic>

#include <dwell/error.hpp>

#include "backend/cuda/driver.hpp"
#include "device/arena.hpp"

namespace dwell::backend {

// Owned by the backend, which outlives all users.
struct CudaPlace {
  const Driver& driver;
  const CUdevice device;
  CUcontext context = nullptr;
  CUstream leases[device::kMostLeases] = {};  // by slot; the first is for bursts of no stream, too
  CUstream copies = nullptr;
  CUstream launches = nullptr;  // of kernels whose launch names no stream
  CUmemoryPool pool = nullptr;
  // Nothing may wait for the device any more. Relaxed accesses suffice: it publishes no other data.
  std::atomic<bool> abandoned{false};

  bool is_abandoned() const noexcept { return abandoned.load(std::memory_order_relaxed); }
};

// Makes the context current; throws errc::device_lost when the device is abandoned or the context cannot be current.
class Entered {
 public:
  explicit Entered(const CudaPlace& place) : current_(place.driver, place.context) {
    if (place.is_abandoned()) throw Error(errc::device_lost, "the device was given up because a task on it hangs");
    place.driver.check(current_.result(), "making the CUDA context current");
  }

 private:
  Current current_;
};

// For destructors: frees something with the context current. Skips it when the device is abandoned, where it might wait for ever, and when
// a fault or the end of the process has freed everything already.
template <class GiveBack>
void give_back(const CudaPlace& place, const GiveBack& something) {
  if (place.is_abandoned()) return;
  if (const Current current(place.driver, place.context); current.result() == CUDA_SUCCESS) something();
}

}  // namespace dwell::backend
