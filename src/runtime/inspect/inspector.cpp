#include "runtime/inspect/inspector.hpp"

#include <optional>
#include <utility>

#include <dwell/error.hpp>

#include "runtime/inspect/inspect.hpp"

namespace dwell::runtime {

Inspection Inspector::inspect(std::string_view name) {
  // A structure's name takes precedence; its operator's name qualifies a variable.
  if (is_structure(name)) return *runtime::inspect(name, {tell_.metrics(), tell_.info(), tell_.diagnosis()});
  try {
    if (std::optional<Inspection> found = variables_.read(name)) return *std::move(found);
  } catch (const Error& error) {
    throw keeper_.explain(error);
  }
  const Metrics counts = tell_.metrics();
  if (std::optional<Inspection> found = runtime::inspect(name, {counts, tell_.info(), {}})) return *std::move(found);
  std::string names = structure_names();
  for (const OperatorMetrics& op : counts.operators)
    if (names.find(", " + op.name) == std::string::npos) names += ", " + op.name;
  for (const std::string& variable : variables_.names()) names += ", " + variable;
  throw Error(errc::invalid_argument, "nothing is called '" + std::string(name) + "': there are " + names, {"name", std::string(name)});
}

std::shared_ptr<WatchState> Inspector::watch(std::string name, std::chrono::nanoseconds every, Watches::Callback callback) {
  if (every < std::chrono::microseconds(1)) throw Error(errc::invalid_argument, "watch: the interval must be at least 1 us");
  if (!callback) throw Error(errc::invalid_argument, "watch: the callback is empty");
  static_cast<void>(inspect(name));
  return watches_.start([this, name = std::move(name)] { return inspect(name); }, every, std::move(callback));
}

void Inspector::assign(std::string_view name, const Parameter& type, std::size_t count, std::span<const std::byte> bytes) {
  try {
    if (variables_.write(name, type, count, bytes)) return;
  } catch (const Error& error) {
    throw keeper_.explain(error);
  }
  std::string names;
  for (const std::string& variable : variables_.names()) names += (names.empty() ? "" : ", ") + variable;
  throw Error(errc::invalid_argument,
              "no operator shows a variable '" + std::string(name) + "' with DWELL_INSPECT" + (names.empty() ? "" : ": there are " + names),
              {"name", std::string(name)});
}

}  // namespace dwell::runtime
