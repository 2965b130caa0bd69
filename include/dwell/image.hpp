// The linked program of a device.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dwell {

namespace detail {
struct ImageState;
}

// A linked image: the resident loop and all operators. A handle that keeps the bytes, also when another image has taken
// over or the runtime is closed. All members may be called from any thread.
class Image {
 public:
  // The linked program as the device loads it, an ELF file. Valid as long as a copy of this handle lives. CUDA only: throws
  // errc::unsupported on the CPU, where an image is a bundle of shared objects (bytes).
  std::span<const std::byte> cubin() const;
  // The same bytes on any device.
  std::span<const std::byte> bytes() const noexcept;
  // The operators in PTX, one source after the other: each begins with its own .version. CUDA only, as cubin.
  const std::string& ptx() const;
  // The symbols of all entries, by opcode; empty for a free opcode.
  const std::vector<std::string>& symbols() const noexcept;

 private:
  friend class Runtime;
  explicit Image(std::shared_ptr<const detail::ImageState> state) : state_(std::move(state)) {}
  std::shared_ptr<const detail::ImageState> state_;
};

}  // namespace dwell
