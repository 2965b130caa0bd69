// The table of an image's resources in `dwell doctor --image`.
#pragma once

#include <iosfwd>

#include <dwell/doctor.hpp>

namespace dwell::tool {

void print_text(std::ostream& out, const ImageReport& report);
void print_json(std::ostream& out, const ImageReport& report);

}  // namespace dwell::tool
