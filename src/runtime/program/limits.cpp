#include "runtime/program/limits.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "jit/object/occupancy.hpp"

namespace dwell::runtime {

namespace {

// One figure of an image: its member, its limit, and its texts.
struct Figure {
  std::uint32_t jit::Resources::*value;
  unsigned Limits::*limit;
  const char* option;
  const char* unit;
  const char* advice;
  bool adds_up;  // sums over operators, or over loop and operator; else their maximum
};
constexpr Figure kFigures[] = {
    {&jit::Resources::registers, &Limits::registers, "registers", "registers a thread", "compile with fewer (max_registers)", false},
    {&jit::Resources::stack_bytes, &Limits::stack_bytes, "stack_bytes", "bytes of stack a thread", "use smaller arrays within the operator",
     true},
    {&jit::Resources::shared_bytes, &Limits::shared_bytes, "shared_bytes", "bytes of static shared memory a worker",
     "use smaller tiles, or Group::shared, which operators have in common", true},
    {&jit::Resources::constant_bytes, &Limits::constant_bytes, "constant_bytes", "bytes of constants",
     "use smaller __constant__ tables, or a buffer", true},
    {&jit::Resources::barriers, &Limits::barriers, "barriers", "barriers a worker", "name lower barriers, or use Group::sync", false},
};

// Returns the resources of a newcomer by itself; null if the image does not list them.
const jit::Resources* own(const Proposal& proposal, const Newcomer& newcomer) {
  const auto at = std::ranges::find(proposal.image.entries, newcomer.symbol, &jit::EntryResources::symbol);
  return at == proposal.image.entries.end() ? nullptr : &at->resources;
}

// Returns the figures of all newcomers: "'tile' 4896".
std::string own_shares(const Proposal& proposal, const Figure& figure) {
  std::string text;
  for (const Newcomer& newcomer : proposal.newcomers)
    if (const jit::Resources* const takes = own(proposal, newcomer))
      text += (text.empty() ? "'" : ", '") + newcomer.name + "' " + std::to_string(takes->*figure.value);
  return text;
}

// Returns whether one of them exceeds the limit by itself, or its figure is unknown.
bool newcomer_exceeds(const Proposal& proposal, const Figure& figure, unsigned limit) {
  return proposal.newcomers.empty() || std::ranges::any_of(proposal.newcomers, [&](const Newcomer& newcomer) {
           const jit::Resources* const takes = own(proposal, newcomer);
           return takes == nullptr || takes->*figure.value > limit;
         });
}

// "264 registers a thread ('crowded' 254)"
std::string figure_text(const Proposal& proposal, const Figure& figure) {
  const std::string shares = own_shares(proposal, figure);
  return std::to_string(proposal.image.resources.*figure.value) + " " + figure.unit + (shares.empty() ? "" : " (" + shares + ")");
}

std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

std::string workers_text(std::uint32_t workers) {
  if (workers == 0) return "no worker";
  return std::to_string(workers) + (workers == 1 ? " worker" : " workers");
}

std::string subject(const Proposal& proposal) {
  if (proposal.newcomers.empty()) return "the image with its operators inlined is refused: ";
  std::vector<std::string> names;
  for (const Newcomer& newcomer : proposal.newcomers) names.push_back("'" + newcomer.name + "'");
  const bool one = names.size() == 1;
  return (one ? "operator " : "operators ") + joined(names, ", ") + (one ? " is" : " are") + " refused: ";
}

constexpr const char* kStays = ". The image that runs stays.";

// The error for too few workers. Lists every figure that determines the number.
Error too_few(const Limits& limits, const Proposal& proposal, std::uint32_t least) {
  std::string text = subject(proposal) + "the device would hold " + workers_text(*proposal.workers_after);
  if (proposal.workers_before != 0) text += ", it holds " + std::to_string(proposal.workers_before) + " now";
  text += "; the least is " + std::to_string(least) + (limits.min_workers == 0 ? "" : " (the option limits.min_workers)");
  std::vector<std::string> takes;
  std::vector<std::string> advice;
  for (const Figure& figure : kFigures) {
    // Stack and constants do not reduce the workers.
    if (figure.limit == &Limits::stack_bytes || figure.limit == &Limits::constant_bytes) continue;
    if (proposal.image.resources.*figure.value == 0) continue;
    takes.push_back(figure_text(proposal, figure));
    advice.emplace_back(figure.advice);
  }
  if (!takes.empty()) {
    takes.push_back(std::to_string(proposal.scratch_bytes) + " bytes for Group::shared (the option scratch_bytes)");
    advice.emplace_back("lower the option scratch_bytes");
    text += ". The image takes " + joined(takes, ", ");
  }
  if (limits.min_workers > 1) advice.emplace_back("lower the limit");
  if (!advice.empty()) text += ". To change that: " + joined(advice, "; ");
  return {errc::resource_limit, text + kStays, {"option", "Options::limits.min_workers", *proposal.workers_after, least}};
}

}  // namespace

std::optional<std::uint32_t> room_for(const jit::Image& image, const backend::DeviceInfo& device, std::uint32_t scratch_bytes) {
  const auto fit = jit::occupancy(jit::architecture_of(device.target), image.resources, scratch_bytes);
  if (!fit || device.multiprocessors == 0) return std::nullopt;
  return fit->workers * device.multiprocessors;
}

std::optional<Error> refusal(const Limits& limits, const Proposal& proposal) {
  std::vector<std::string> beyond;
  std::vector<std::string> advice;
  ErrorFields first;
  for (const Figure& figure : kFigures) {
    const unsigned limit = limits.*figure.limit;
    if (limit == 0 || proposal.image.resources.*figure.value <= limit) continue;
    const std::string option = std::string("limits.") + figure.option;
    if (beyond.empty()) first = {"option", "Options::" + option, proposal.image.resources.*figure.value, limit};
    beyond.push_back(figure_text(proposal, figure) + ", the option " + option + " is " + std::to_string(limit));
    if (figure.adds_up || newcomer_exceeds(proposal, figure, limit)) {
      advice.emplace_back(figure.advice);
    } else {
      beyond.back() += ", which the loop itself exceeds";
    }
  }
  if (!beyond.empty()) {
    advice.emplace_back("raise the limit");
    return Error(
        errc::resource_limit,
        subject(proposal) + "the image would take " + joined(beyond, ", and ") + ". To change that: " + joined(advice, "; ") + kStays,
        std::move(first));
  }
  const std::uint32_t least = std::max(limits.min_workers, 1U);
  if (proposal.workers_after && *proposal.workers_after < least) return too_few(limits, proposal, least);
  return std::nullopt;
}

}  // namespace dwell::runtime
