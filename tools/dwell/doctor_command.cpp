#include "doctor_command.hpp"

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <dwell/doctor.hpp>
#include <dwell/error.hpp>
#include <nlohmann/json.hpp>

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

void print_json(std::ostream& out, const std::vector<Finding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"what", finding.what}, {"state", finding.state}, {"detail", finding.detail}, {"advice", finding.advice}});
  }
  out << json_text({{"version", DWELL_VERSION}, {"findings", list}}) << '\n';
}

}  // namespace

Exit doctor_command(bool json, std::ostream& out) {
  const std::vector<Finding> findings = examine();
  if (json) {
    print_json(out, findings);
  } else {
    print_text(out, findings);
  }
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
