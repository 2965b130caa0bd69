// Graphs that operators launch.
#pragma once

#include <dwell/device/signature.hpp>

namespace dwell {

// A graph on the device as an operator gets it, for Group::launch: its argument is a GraphExec. A small value, which operators hand on to
// tasks that they make. Valid until the task, or launch, of the host is complete from which the operator descends.
class Exec {
 public:
  // Whether it names a graph.
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
