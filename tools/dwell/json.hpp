// JSON as the tool prints it.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace dwell::tool {

// Over several lines. Bytes that are no UTF-8, as names of files may have them, become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace dwell::tool
