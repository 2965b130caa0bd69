#include "doctor_command.hpp"

#include <algorithm>
#include <iostream>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/costs.hpp>
#include <dwell/doctor.hpp>
#include <dwell/error.hpp>
#include <nlohmann/json.hpp>

#include "base/utf8.hpp"
#include "costs_table.hpp"
#include "json.hpp"
#include "resource_table.hpp"

namespace dwell::tool {

namespace {

void print_text(std::ostream& out, const std::vector<Finding>& findings) {
  std::size_t what = 0;
  std::size_t state = 0;
  for (const Finding& finding : findings) {
    what = std::max(what, finding.what.size());
    state = std::max(state, finding.state.size());
  }
  const std::string indent(what + state + 4, ' ');
  for (const Finding& finding : findings) {
    out << finding.what << std::string(what - finding.what.size() + 2, ' ') << finding.state
        << std::string(state - finding.state.size() + 2, ' ') << finding.detail << '\n';
    if (!finding.advice.empty()) out << indent << "-> " << finding.advice << '\n';
  }
}

void print_json(std::ostream& out, const std::vector<Finding>& findings, const std::vector<DeviceCosts>& costs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"what", finding.what}, {"state", finding.state}, {"detail", finding.detail}, {"advice", finding.advice}});
  }
  nlohmann::ordered_json of_devices = nlohmann::ordered_json::array();
  for (const DeviceCosts& device : costs) of_devices.push_back(json_of(device));
  out << json_text({{"version", DWELL_VERSION}, {"findings", list}, {"costs", of_devices}}) << '\n';
}

// The costs of each CUDA device that works.
std::vector<DeviceCosts> costs_of_devices(const std::vector<Finding>& findings, CostsRequest request) {
  const auto warn = [](std::string_view line) { std::cerr << printable(line) << '\n'; };
  std::vector<DeviceCosts> all;
  for (const Finding& finding : findings) {
    constexpr std::string_view kDevice = "device ";
    if (!finding.what.starts_with("device cuda:") || finding.state != "ok") continue;
    const std::string device = finding.what.substr(kDevice.size());
    if (request == CostsRequest::forget) forget_costs(device, warn);
    all.push_back(request == CostsRequest::measure ? measure_costs(device, warn) : costs_of(device, warn));
    if (request == CostsRequest::measure && !all.back().kept)
      warn("dwell: the costs of " + device + " could not be kept, or DWELL_COSTS is off: programs are planned by the defaults");
  }
  if (all.empty() && request != CostsRequest::show)
    throw Failure(Exit::failed, "dwell: error: no CUDA device works whose costs could be measured");
  return all;
}

}  // namespace

Exit doctor_command(bool json, CostsRequest request, std::ostream& out) {
  const std::vector<Finding> findings = examine();
  if (!json) print_text(out, findings);
  std::vector<DeviceCosts> costs;
  try {
    costs = costs_of_devices(findings, request);
  } catch (const Error& error) {
    throw Failure(Exit::failed, "dwell: error: " + error.message());
  }
  if (json)
    print_json(out, findings, costs);
  else
    for (const DeviceCosts& device : costs) print_text(out, device);
  const bool works = std::any_of(findings.begin(), findings.end(),
                                 [](const Finding& finding) { return finding.what.starts_with("device ") && finding.state == "ok"; });
  return works ? Exit::success : Exit::failed;
}

void doctor_image_command(const std::filesystem::path& file, unsigned scratch_bytes, bool json, std::ostream& out) {
  ImageReport report;
  try {
    report = examine_image(file, scratch_bytes);
  } catch (const Error& error) {
    throw Failure(Exit::mistake, "dwell: error: " + error.message());
  }
  if (json) {
    print_json(out, report);
  } else {
    print_text(out, report);
  }
}

}  // namespace dwell::tool
