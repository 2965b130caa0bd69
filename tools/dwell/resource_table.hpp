// An image's resources, as `dwell doctor --image` prints them.
#pragma once

#include <iosfwd>

#include <dwell/doctor.hpp>

namespace dwell::tool {

void print_text(std::ostream& out, const ImageReport& report);
void print_json(std::ostream& out, const ImageReport& report);

}  // namespace dwell::tool
