// Computes rebindings of versions when others become current.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/program/definition.hpp"

namespace dwell::runtime {

// A version that becomes current in its definition.
struct Move {
  detail::DefinitionState* definition = nullptr;
  Version* version = nullptr;
};

// One version that becomes current, or stays current and is rebound.
struct Step {
  detail::DefinitionState* definition = nullptr;
  Version* version = nullptr;
  Binding* binding = nullptr;      // the definition's new binding
  Binding* before = nullptr;       // the definition's previous binding, possibly from an earlier step; or null
  std::unique_ptr<Binding> fresh;  // owns `binding` if it is not in the image yet; without opcodes

  // The target of one of the fresh binding's uses: an entry of a binding.
  struct Target {
    const Binding* binding = nullptr;
    std::uint32_t index = 0;
  };
  std::vector<Target> targets;
};

// Returns whether a binding of this version never changes: it uses no operator but its own, `name`.
bool is_bound_for_good(const Version& version, const std::string& name);

// Returns the steps for `moves`: one for each move, in order, then one for each other operator that uses one of these, directly or through
// others. If several moves name one definition, its users are bound to the last one. `definitions` holds all that have versions, and those
// of `moves`. Throws errc::operator_not_found when a version uses an operator without a version, and errc::signature_mismatch when that
// operator does not accept the declared arguments.
std::vector<Step> steps_for(std::span<const Move> moves, std::span<detail::DefinitionState* const> definitions);

}  // namespace dwell::runtime
