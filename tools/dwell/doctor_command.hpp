// dwell doctor: the devices and compilers of this machine, missing parts, and how to get them.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "failure.hpp"

namespace dwell::tool {

// Prints the findings to `out`. Returns Exit::failed if no device works.
Exit doctor_command(bool json, std::ostream& out);

// Prints the resources of the image in `file`, and how many workers fit if each has `scratch_bytes` for Group::shared. Throws Failure if
// the file is no image.
void doctor_image_command(const std::filesystem::path& file, unsigned scratch_bytes, bool json, std::ostream& out);

}  // namespace dwell::tool
