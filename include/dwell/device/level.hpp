// How much a line of the log matters: for operators (dwell/device/log.hpp) and for the host (dwell/log.hpp).
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {

// `off` is no line's: as a threshold it lets none pass.
enum class level : u8 { trace, debug, info, warning, error, off };

}  // namespace dwell
