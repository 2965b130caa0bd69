// dwell doctor: what this machine offers, what is missing, and how to get it.
#pragma once

#include <iosfwd>

#include "failure.hpp"

namespace dwell::tool {

// Prints what was found to `out`. Exit::failed when no device works.
Exit doctor_command(bool json, std::ostream& out);

}  // namespace dwell::tool
