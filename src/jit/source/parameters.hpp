// Reads an operator's parameters from its source, for one-line errors in place of a compiler's page.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dwell::jit {

// `text` without its comments and directives.
std::string declarations_in(std::string_view text);

// One parameter as it is written: "const float& a", of type "const float&".
struct WrittenParameter {
  std::string text;
  std::string type;
};

// Returns the parameters after DWELL_OPERATOR(name). Nothing if the text has no such declaration.
std::optional<std::vector<WrittenParameter>> parameters_in(std::string_view text, std::string_view name);

// Returns why an operator's parameters are invalid. `log`: the compiler's text, with all errors at the export or in dwell's own headers.
// Nothing if there is another cause.
std::optional<std::string> wrong_parameter(std::string_view text, std::string_view name, std::string_view log);

}  // namespace dwell::jit
