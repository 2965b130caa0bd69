// Memory order and scope of an atomic operation, as in the memory models of C++ and PTX.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {

namespace device {
enum class Order : u8 { relaxed, acquire, release, acq_rel };
enum class Scope : u8 { device, system };

DWELL_HOST_DEVICE bool acquires(Order o) { return o == Order::acquire || o == Order::acq_rel; }
DWELL_HOST_DEVICE bool releases(Order o) { return o == Order::release || o == Order::acq_rel; }
}  // namespace device

// As operators write them: order::relaxed, scope::system. On the CPU every scope is the system.
using order = device::Order;
using scope = device::Scope;

}  // namespace dwell
