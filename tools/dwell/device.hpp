// Opens and describes the tool's runtime.
#pragma once

#include <string>

#include <dwell/runtime.hpp>
#include <nlohmann/json.hpp>

namespace dwell::tool {

// Returns options for `device`; warnings go to standard error.
Options options_for(const std::string& device);

// Opens a runtime with `workers`; 0: the device's default. Throws Failure if there is no such device, or it does not support this.
Runtime open_runtime(const std::string& device, unsigned workers = 0);

// "cuda:0 (NVIDIA H200), 528 workers"
std::string text_of(const RuntimeInfo& info);
nlohmann::ordered_json json_of(const RuntimeInfo& info);

}  // namespace dwell::tool
