#include "tensor/gang/device_costs.hpp"

#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

#include <dwell/detail/kept_values.hpp>

#include "base/mutex.hpp"

namespace dwell::tensor::gang {

namespace {

// A change of the times' meaning is a new one.
constexpr const char* kSchema = "costs of gangs, 1";

using Key = std::vector<std::string>;

Key key_of(const DeviceSummary& device) {
  return {kSchema, DWELL_VERSION, device.name, device.target, std::to_string(device.multiprocessors), device.driver};
}

struct Known {
  Mutex mutex;
  std::map<Key, KnownCosts> all DWELL_GUARDED_BY(mutex);
};

Known& known_of_process() {
  static Known* const all = new Known;  // leaked: plans may be made at the end of the process
  return *all;
}

bool is_off() {
  const char* const value = secure_getenv("DWELL_COSTS");
  return value != nullptr && std::string_view(value) == "off";
}

KnownCosts read(const Key& key, const DeviceSummary& device, const CostsWarn& warn) {
  if (is_off()) return {};
  const std::optional<std::string> text = detail::KeptValue(key, warn).load();
  if (!text) return {};
  if (const std::optional<CostTimes> times = times_of(*text)) return {measured_model(*times), true};
  if (warn)
    warn("dwell: the measured costs of " + device.name + " cannot be read: the defaults are used; dwell doctor --measure measures them");
  return {};
}

}  // namespace

KnownCosts known_costs(const DeviceSummary& device, const CostsWarn& warn) {
  const Key key = key_of(device);
  Known& known = known_of_process();
  const Lock lock(known.mutex);
  const auto found = known.all.find(key);
  if (found != known.all.end()) return found->second;
  return known.all.emplace(key, read(key, device, warn)).first->second;
}

bool keep_times(const DeviceSummary& device, const CostTimes& times, const CostsWarn& warn) {
  const Key key = key_of(device);
  Known& known = known_of_process();
  const Lock lock(known.mutex);
  if (!detail::KeptValue(key, warn).store(text_of(times), "costs of " + device.name)) return false;
  known.all[key] = read(key, device, warn);
  return true;
}

bool forget_times(const DeviceSummary& device, const CostsWarn& warn) {
  const Key key = key_of(device);
  Known& known = known_of_process();
  const Lock lock(known.mutex);
  known.all[key] = {};
  return detail::KeptValue(key, warn).remove();
}

void forget_known_costs() {
  Known& known = known_of_process();
  const Lock lock(known.mutex);
  known.all.clear();
}

}  // namespace dwell::tensor::gang
