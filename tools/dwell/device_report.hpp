// What a runtime runs on, in one line and as JSON.
#pragma once

#include <dwell/runtime.hpp>
#include <nlohmann/json.hpp>

#include <string>

namespace dwell::tool {

inline std::string text_of(const RuntimeInfo& info) {
  return info.device + " (" + info.device_name + "), " + std::to_string(info.workers) + (info.workers == 1 ? " worker" : " workers");
}

inline nlohmann::ordered_json json_of(const RuntimeInfo& info) {
  return {{"device", info.device}, {"name", info.device_name}, {"compiler", info.compiler}, {"workers", info.workers}};
}

}  // namespace dwell::tool
