#include "runtime/program/argument_check.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

namespace dwell::runtime {

void check_arguments(const char* kind, const std::string& name, const Signature& signature, std::span<const Parameter> given,
                     Accepts accepts) {
  const std::vector<Parameter>& declared = signature.parameters();
  std::size_t fit = 0;
  while (fit < given.size() && fit < declared.size() && accepts(declared[fit], given[fit])) ++fit;
  if (fit == given.size() && fit == declared.size()) return;
  ErrorFields fields{kind, name};
  std::string why;
  if (given.size() != declared.size()) {
    why = std::to_string(declared.size()) + " arguments are needed, " + std::to_string(given.size()) + " were given";
    fields.value = given.size();
    fields.limit = declared.size();
  } else {
    why = "argument " + std::to_string(fit + 1) + " is " + text_of(given[fit]) + " where " + text_of(declared[fit]) + " is needed";
  }
  throw Error(errc::signature_mismatch,
              std::string(kind) + " '" + name + "' takes " + signature.text() + ", not " +
                  Signature(std::vector<Parameter>(given.begin(), given.end())).text() + ": " + why,
              std::move(fields));
}

}  // namespace dwell::runtime
