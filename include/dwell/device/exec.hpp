// Graphs that operators launch.
#pragma once

#include <dwell/device/signature.hpp>

namespace dwell {

// A graph on the device, for Group::launch. An operator gets it as an argument, for which the host passes a GraphExec, and may pass it to
// tasks that it makes. A small value. Valid until the host's task or launch from which the operator descends is complete.
class Exec {
 public:
  // Returns whether it names a graph.
  DWELL_DEVICE explicit operator bool() const { return offset_ != 0; }

 private:
  u64 offset_;  // of its GraphHead in the arena, in bytes
};

namespace device {
template <>
struct ElementKind<Exec> {
  static constexpr Kind value = Kind::exec;
};
}  // namespace device

}  // namespace dwell
