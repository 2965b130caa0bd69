#include "runtime/program/bindings.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <dwell/error.hpp>

namespace dwell::runtime {

namespace {

// Returns the definition's binding after these steps, or null.
Binding* binding_of(const detail::DefinitionState& definition, std::span<const Step> steps) {
  const auto last = std::find_if(steps.rbegin(), steps.rend(), [&](const Step& step) { return step.definition == &definition; });
  if (last != steps.rend()) return last->binding;
  const Version* const current = definition.current_version();
  return current == nullptr ? nullptr : current->bindings.back().get();
}

bool uses_any(const Version& version, std::span<const Step> steps) {
  return std::ranges::any_of(version.object.uses, [&](const jit::Use& use) {
    return std::ranges::any_of(steps, [&](const Step& step) { return step.definition->name == use.name; });
  });
}

// Returns the binding of the operator that `step` uses as `use`, and its definition.
std::pair<const Binding*, const detail::DefinitionState*> used_by(const Step& step, const jit::Use& use, std::span<const Step> steps,
                                                                  std::span<detail::DefinitionState* const> definitions) {
  if (use.name == step.definition->name) return {step.binding, step.definition};
  const auto at = std::ranges::find(definitions, use.name, &detail::DefinitionState::name);
  if (at != definitions.end()) return {binding_of(**at, steps), *at};
  throw Error(errc::operator_not_found,
              "operator '" + step.definition->name + "' uses '" + use.name + "', which is not defined: define '" + use.name + "' first",
              {"operator", use.name});
}

// Returns the entry of `definition` that accepts the arguments declared by `use`.
std::uint32_t entry_for(const jit::Use& use, const detail::DefinitionState& definition, const std::string& user) {
  const auto refuse = [&](const std::string& why) {
    throw Error(errc::signature_mismatch,
                "operator '" + user + "' declares DWELL_USES of '" + use.name + "' with " + use.signature.text() + ", " + why,
                {"operator", use.name});
  };
  const auto fits = [&](const detail::OperatorState& instance) { return instance.signature == use.signature; };
  const auto& instances = definition.instances;
  const auto at = std::ranges::find_if(instances, fits);
  if (at == instances.end()) {
    std::string taken;
    for (const detail::OperatorState& instance : instances)
      taken += (taken.empty() ? "" : "; ") + (instance.name + " takes " + instance.signature.text());
    refuse(taken + ": name the types of its parameters behind its name");
  }
  if (std::find_if(std::next(at), instances.end(), fits) != instances.end())
    refuse("and more than one instance takes these: define the one that is meant under a name of its own");
  return static_cast<std::uint32_t>(at - instances.begin());
}

}  // namespace

bool is_bound_for_good(const Version& version, const std::string& name) {
  return std::ranges::all_of(version.object.uses, [&](const jit::Use& use) { return use.name == name; });
}

std::vector<Step> steps_for(std::span<const Move> moves, std::span<detail::DefinitionState* const> definitions) {
  std::vector<Step> steps;
  const auto add = [&](detail::DefinitionState* definition, Version* version, Binding* again) {
    Binding* const before = binding_of(*definition, steps);
    Step& step = steps.emplace_back();
    step.definition = definition;
    step.version = version;
    step.before = before;
    if (again == nullptr) {
      step.fresh = std::make_unique<Binding>();
      step.fresh->version = version;
    }
    step.binding = again != nullptr ? again : step.fresh.get();
  };
  for (const auto& [definition, version] : moves) {
    const bool stays = !version->bindings.empty() && is_bound_for_good(*version, definition->name);
    add(definition, version, stays ? version->bindings.back().get() : nullptr);
  }
  for (std::size_t known = 0; known != steps.size();) {
    known = steps.size();
    for (detail::DefinitionState* const definition : definitions) {
      Version* const current = definition->current_version();
      const bool has_step = std::ranges::find(steps, definition, &Step::definition) != steps.end();
      if (current != nullptr && !has_step && uses_any(*current, steps)) add(definition, current, nullptr);
    }
  }
  for (Step& step : steps) {
    if (step.fresh == nullptr) continue;
    for (const jit::Use& use : step.version->object.uses) {
      const auto [binding, definition] = used_by(step, use, steps, definitions);
      step.targets.push_back({binding, entry_for(use, *definition, step.definition->name)});
    }
  }
  return steps;
}

}  // namespace dwell::runtime
