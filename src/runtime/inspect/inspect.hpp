// A runtime's own structures, by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <dwell/diagnosis.hpp>
#include <dwell/inspect.hpp>
#include <dwell/metrics.hpp>
#include <dwell/runtime.hpp>

namespace dwell::runtime {

// A snapshot of a runtime's state.
struct Known {
  const Metrics& metrics;
  const RuntimeInfo& info;
  const Diagnosis& diagnosis;
};

// Returns the values of "ring", "queue", "held", "workers", "leases", "image", "graphs", "memory", or of an operator, by version if it has
// several. Nothing for any other name.
std::optional<Inspection> inspect(std::string_view name, const Known& known);
bool is_structure(std::string_view name);
// "ring, queue, ..."
std::string structure_names();

}  // namespace dwell::runtime
