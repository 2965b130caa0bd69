// JSON output of the tool.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace dwell::tool {

// Returns indented JSON. Replaces invalid UTF-8, as in names of files, by U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace dwell::tool
