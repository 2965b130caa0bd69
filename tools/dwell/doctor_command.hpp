// dwell doctor: the devices and compilers of this machine, missing parts, and how to get them.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "failure.hpp"

namespace dwell::tool {

// Prints what was found to `out`. Exit::failed when no device works.
Exit doctor_command(bool json, std::ostream& out);

// Prints what the image in `file` takes, and how many workers fit when each has `scratch_bytes` for Group::shared. Throws Failure when the
// file is none.
void doctor_image_command(const std::filesystem::path& file, unsigned scratch_bytes, bool json, std::ostream& out);

}  // namespace dwell::tool
