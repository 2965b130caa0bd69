// Streams of the runtime, for launches of kernels.
#pragma once

#include <memory>
#include <utility>

namespace dwell {

class Runtime;

// A stream of a device, made by Runtime::make_stream: launches in it run one after the other, beside those of other streams. A handle:
// copies name the same stream, which the last one gives back, once it has passed its launches; close of the runtime does too. All members
// may be called from any thread.
class Stream {
 public:
  Stream() = default;
  // For LaunchConfig::stream, as CUDA's CUstream; null without a stream.
  void* handle() const noexcept { return handle_.get(); }

 private:
  friend class Runtime;
  explicit Stream(std::shared_ptr<void> handle) : handle_(std::move(handle)) {}

  std::shared_ptr<void> handle_;
};

}  // namespace dwell
