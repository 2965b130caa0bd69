// dwell demo: processes a photograph in chains of tiny tasks, and redefines an operator meanwhile.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

#include "failure.hpp"

namespace dwell::tool {

struct DemoOptions {
  std::filesystem::path image;  // JPEG or PNG
  std::filesystem::path output = "dwell-demo.png";
  std::string device = "auto";
  bool json = false;
};

// Runs the demonstration, writes before and after side by side, and prints the measurements to `out`. Returns Exit::failed if a task was
// lost or a tile is wrong. Throws Failure.
Exit demo_command(const DemoOptions& options, std::ostream& out);

}  // namespace dwell::tool
