// dwell.Ring and dwell.ByteRing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <dwell/raw_ring.hpp>
#include <dwell/ring.hpp>

#include "state.hpp"

namespace dwell::python {

// The library's rings, whose waits Python cuts into slices.
struct SlicedRing : RawRingBuffer {
  using RawRingBuffer::RawRingBuffer;
  using RingBase::skip_lost;
  using RingBase::wait;
  bool closed() const { return device::RingCore(host_).closed(); }
};
struct SlicedByteRing : ByteRingBuffer {
  explicit SlicedByteRing(ByteRingBuffer&& from) : ByteRingBuffer(std::move(from)) {}
  using RingBase::skip_lost;
  using RingBase::wait;
  bool closed() const { return device::RingCore(host_).closed(); }
};

// dwell.Ring: messages of a type of NumPy.
struct PyRing {
  State runtime;  // declared first, so that it goes last
  std::shared_ptr<SlicedRing> ring;
  Shared dtype;
  std::uint32_t epoch = fork_epoch();
};

// dwell.ByteRing.
struct PyByteRing {
  State runtime;
  std::shared_ptr<SlicedByteRing> ring;
  std::uint32_t epoch = fork_epoch();
};

PyRing make_ring(const State& runtime, nb::handle dtype, std::size_t slots, const RingOptions& options);
PyByteRing make_byte_ring(const State& runtime, std::size_t bytes, const RingOptions& options);
// "device", "host". Throws errc::invalid_argument, naming `name`.
Side side_from(const std::string& text, const char* name);

void bind_ring(nb::module_& module);

}  // namespace dwell::python
