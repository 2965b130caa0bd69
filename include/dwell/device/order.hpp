// Memory order and scope of an atomic operation, as in the memory models of C++ and PTX.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {

namespace device {
enum class Order : u8 { relaxed, acquire, release, acq_rel };
enum class Scope : u8 { device, system };
}  // namespace device

// As operators write them: order::relaxed, scope::system. On the CPU every scope is the system.
using order = device::Order;
using scope = device::Scope;

}  // namespace dwell
