// How the tool opens a runtime, and what it says of it.
#pragma once

#include <string>

#include <dwell/runtime.hpp>
#include <nlohmann/json.hpp>

namespace dwell::tool {

// Options for `device`; warnings go to standard error.
Options options_for(const std::string& device);

// With `workers`; 0: as many as the device likes best. Throws Failure when there is no such device, or it cannot be used so.
Runtime open_runtime(const std::string& device, unsigned workers = 0);

// "cuda:0 (NVIDIA H200), 528 workers"
std::string text_of(const RuntimeInfo& info);
nlohmann::ordered_json json_of(const RuntimeInfo& info);

}  // namespace dwell::tool
