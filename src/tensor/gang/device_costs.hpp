// The planner's constants for a device: measured ones that are kept on disk, else the defaults.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <dwell/devices.hpp>

#include "tensor/gang/cost_model.hpp"

namespace dwell::tensor::gang {

struct KnownCosts {
  CostModel model;
  bool measured = false;
};

using CostsWarn = std::function<void(std::string_view)>;

// Returns those by which this process plans for a device of this kind. Reads the disk once for each kind. Any thread.
KnownCosts known_costs(const DeviceSummary& device, const CostsWarn& warn);
// Keeps measured times on disk, and uses them from now on. Returns whether they are kept; if not, nothing changes. Any thread.
bool keep_times(const DeviceSummary& device, const CostTimes& times, const CostsWarn& warn);
// Goes back to the defaults. Returns whether there were others on disk. Any thread.
bool forget_times(const DeviceSummary& device, const CostsWarn& warn);

// Reads the disk again, as another process would. For tests.
void forget_known_costs();

}  // namespace dwell::tensor::gang
