// Where a backend's things live on a CUDA device: what its memory, images, kernels and launches share.
#pragma once

#include <atomic>
#include <optional>

#include <dwell/error.hpp>

#include "backend/cuda/driver.hpp"

namespace dwell::backend {

// Owned by the backend, which outlives all that refers to it.
struct CudaPlace {
  const Driver& driver;
  const CUdevice device;
  CUcontext context = nullptr;
  CUstream leases = nullptr;
  CUstream copies = nullptr;
  CUstream launches = nullptr;  // of kernels whose launch names no stream
  CUmemoryPool pool = nullptr;
  // Nothing may wait for the device any more. A flag of its own: nothing else is published with it, so relaxed accesses do.
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

// For destructors: whether the context could be made current, so that there is something to give back. Not when the device is abandoned,
// where that might wait for ever, nor when a fault or the end of the process has taken all of it already.
class Leaving {
 public:
  explicit Leaving(const CudaPlace& place) {
    if (!place.is_abandoned()) current_.emplace(place.driver, place.context);
  }
  explicit operator bool() const noexcept { return current_ && current_->result() == CUDA_SUCCESS; }

 private:
  std::optional<Current> current_;
};

}  // namespace dwell::backend
