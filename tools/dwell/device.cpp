#include "device.hpp"

#include <iostream>
#include <string_view>

#include "base/utf8.hpp"
#include "failure.hpp"

namespace dwell::tool {

Options options_for(const std::string& device) {
  Options options;
  options.device = device;
  options.warn = [](std::string_view line) { std::cerr << "dwell: warning: " + printable(line, "\n\t") + "\n"; };
  return options;
}

Runtime open_runtime(const std::string& device, unsigned workers) {
  try {
    Options options = options_for(device);
    options.workers = workers;
    return Runtime(options);
  } catch (const Error& error) {
    throw Failure(Exit::mistake, "dwell: error: " + error.message());
  }
}

std::string text_of(const RuntimeInfo& info) {
  return info.device + " (" + info.device_name + "), " + std::to_string(info.workers) + (info.workers == 1 ? " worker" : " workers");
}

nlohmann::ordered_json json_of(const RuntimeInfo& info) {
  return {{"device", info.device}, {"name", info.device_name}, {"compiler", info.compiler}, {"workers", info.workers}};
}

}  // namespace dwell::tool
