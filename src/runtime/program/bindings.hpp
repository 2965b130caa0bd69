// Which versions are bound anew when others become current, and to what.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/program/definition.hpp"

namespace dwell::runtime {

// A version that becomes the current one of its definition.
struct Move {
  detail::DefinitionState* definition = nullptr;
  Version* version = nullptr;
};

// One version that becomes current, or stays so and is bound anew.
struct Step {
  detail::DefinitionState* definition = nullptr;
  Version* version = nullptr;
  Binding* binding = nullptr;      // that becomes the definition's
  Binding* before = nullptr;       // the definition's until then, of a step before this one too; or null
  std::unique_ptr<Binding> fresh;  // `binding`, where it is not in the image yet: without opcodes

  // What each of the fresh binding's uses is bound to: an entry of a binding.
  struct Target {
    const Binding* binding = nullptr;
    std::uint32_t index = 0;
  };
  std::vector<Target> targets;
};

// Whether a binding of this version stays right whatever becomes current: it uses no operator but its own, which is called `name`.
bool is_bound_for_good(const Version& version, const std::string& name);

// What `moves` make necessary: a step for each of them, in their order, then one for each other operator that uses one of these, directly
// or through others. Several moves may name one definition: its last one counts for the operators that use it. `definitions` holds all that
// have versions, and those of `moves`. Throws errc::operator_not_found when a version uses an operator that has no version, and
// errc::signature_mismatch when that does not take what the version declares.
std::vector<Step> steps_for(std::span<const Move> moves, std::span<detail::DefinitionState* const> definitions);

}  // namespace dwell::runtime
