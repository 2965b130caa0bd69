// dwell doctor: the devices and compilers of this machine, missing parts, and how to get them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>

#include "failure.hpp"

namespace dwell::tool {

// What to do with the costs of each CUDA device that works, before they are printed.
enum class CostsRequest : std::uint8_t { show, measure, forget };

// Prints the findings, and the costs of devices, to `out`. Returns Exit::failed if no device works. Throws Failure if costs cannot be
// measured.
Exit doctor_command(bool json, CostsRequest request, std::ostream& out);

// Prints the resources of the image in `file`, and how many workers fit if each has `scratch_bytes` for Group::shared. Throws Failure if
// the file is no image.
void doctor_image_command(const std::filesystem::path& file, unsigned scratch_bytes, bool json, std::ostream& out);

}  // namespace dwell::tool
