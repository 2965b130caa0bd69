// What a runtime knows of one thing, in words.
#pragma once

#include <string>
#include <string_view>

#include <dwell/metrics.hpp>
#include <dwell/runtime.hpp>

namespace dwell::runtime {

// `name` is an operator, or one of "ring", "queue", "workers", "leases", "image", "memory". Throws errc::operator_not_found for any other,
// naming those that there are.
std::string inspect(std::string_view name, const Metrics& metrics, const RuntimeInfo& info);

}  // namespace dwell::runtime
