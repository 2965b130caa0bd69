#include "runtime/tasks/failed_launches.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace dwell::runtime {

SubmissionQueue::Launches failed_launches(backend::Backend& backend, const LoopMemory& memory, const Graphs& graphs) {
  // Returns an operator's exception, or access out of bounds, for a task or node as numbered by Backend::thrown.
  const auto why_of = [&](std::uint64_t of, std::int32_t status) {
    return status == status::out_of_bounds ? memory.overrun(of) : backend.thrown(of);
  };
  const auto failed_node = [&, why_of](std::uint64_t position, std::uint64_t head,
                                       std::int32_t status) -> std::pair<std::string, std::string> {
    if (head == 0) return {"", why_of(static_cast<std::uint32_t>(position), status)};
    const std::uint32_t cell = memory.failed_node(position);
    std::uint64_t base = 0;
    const std::shared_ptr<const Exec> exec = graphs.find(head, &base).first;
    if (exec == nullptr) return {};
    // The exception of the node's callback, or of its operator.
    std::string why = exec->why(position, cell);
    if (why.empty()) why = why_of((base / device::kCell + cell) | device::InFlight::kNode, status);
    return {exec->node_at(cell), std::move(why)};
  };
  const auto failed_inside = [&](std::uint64_t position) -> Failure::Inside {
    const std::optional<device::Quad> found = memory.failed_inside(position);
    if (!found) return {};
    const std::shared_ptr<const Exec> exec = graphs.numbered(found->word[1]);
    if (exec == nullptr) return {};
    const std::string of = exec->name().empty() ? "" : " of " + title_of(exec->name());
    return {exec->node_at(found->word[2]) + of, static_cast<std::int32_t>(found->word[0]), exec->why(position, found->word[2])};
  };
  const auto names = [&](std::uint64_t head, std::uint64_t begin, std::uint64_t end) {
    const std::shared_ptr<const Exec> exec = graphs.find(head).first;
    return exec != nullptr && exec->names(begin, end);
  };
  return {failed_node, [&](std::uint64_t head) { return title_of(graphs.name_of(head)); }, failed_inside, names};
}

}  // namespace dwell::runtime
