// dwell demo: a photograph through chains of tiny tasks, with an operator redefined in mid-stream.
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

// Runs the demonstration, writes before and after side by side, and prints what was measured to `out`. Exit::failed when a task was
// lost or a tile is wrong. Throws Failure.
Exit demo_command(const DemoOptions& options, std::ostream& out);

}  // namespace dwell::tool
