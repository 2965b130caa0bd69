// Moves a runtime's device state, for tests. Internal: may change at any time.
#pragma once

#include <dwell/runtime.hpp>

namespace dwell::detail {

// Takes the loop off the device for a moment, in which the arena moves: to be called from any thread, with tasks of any kind in flight.
// Throws errc::closed, errc::device_lost, and errc::out_of_memory when the device has no room for two arenas: then it stays where it is.
void move_arena(const Runtime& runtime);

}  // namespace dwell::detail
