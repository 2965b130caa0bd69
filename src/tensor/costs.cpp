#include <dwell/costs.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/devices.hpp>
#include <dwell/dwell.hpp>

#include "tensor/gang/compiled_gang.hpp"
#include "tensor/gang/device_costs.hpp"
#include "tensor/gang/device_probes.hpp"

namespace dwell {

namespace {

using Warn = std::function<void(std::string_view)>;
using tensor::gang::CostTimes;
using tensor::gang::KnownCosts;

DeviceSummary summary_of(std::string_view device) {
  const std::vector<DeviceSummary> all = devices();
  const auto found = std::ranges::find(all, device, &DeviceSummary::device);
  if (found == all.end()) throw Error(errc::invalid_argument, "there is no device '" + std::string(device) + "' here");
  if (!device.starts_with("cuda")) throw Error(errc::unsupported, "programs on a CPU are planned without costs");
  return *found;
}

DeviceCosts told(const DeviceSummary& device, const KnownCosts& costs) {
  const tensor::gang::CostModel usual;
  DeviceCosts told{.device = device.device, .name = device.name, .measured = costs.measured, .kept = costs.measured, .figures = {}};
  for (const tensor::gang::CostTime& time : tensor::gang::kCostTimes)
    told.figures.push_back({time.name, costs.model.times.*time.value, usual.times.*time.value, time.what});
  for (const tensor::gang::CostLimit& limit : tensor::gang::kCostLimits)
    told.figures.push_back(
        {limit.name, static_cast<double>(costs.model.*limit.value), static_cast<double>(usual.*limit.value), limit.what});
  return told;
}

}  // namespace

DeviceCosts costs_of(std::string_view device, const Warn& warn) {
  const DeviceSummary summary = summary_of(device);
  return told(summary, tensor::gang::known_costs(summary, warn));
}

DeviceCosts measure_costs(std::string_view device, const Warn& warn) {
  const DeviceSummary summary = summary_of(device);
  const tensor::gang::Limits limits = tensor::gang::limits_of(summary);
  if (limits.most_members < 2) throw Error(errc::unsupported, "a device of one multiprocessor has no exchanges to measure");
  Options options;
  options.device = summary.device;
  if (warn) options.warn = warn;
  Runtime runtime(options);
  const CostTimes times = tensor::gang::measure_times(runtime, limits);
  const bool kept = tensor::gang::keep_times(summary, times, warn);
  DeviceCosts costs = told(summary, {.model = tensor::gang::measured_model(times), .measured = true});
  costs.kept = kept && tensor::gang::known_costs(summary, warn).measured;
  return costs;
}

bool forget_costs(std::string_view device, const Warn& warn) { return tensor::gang::forget_times(summary_of(device), warn); }

}  // namespace dwell
