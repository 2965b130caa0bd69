// What an operator's parameters are by its source's text, to say in one line what is wrong with them: compilers take a page.
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

// Those behind DWELL_OPERATOR(name). Nothing where the text has no such declaration.
std::optional<std::vector<WrittenParameter>> parameters_in(std::string_view text, std::string_view name);

// Why an operator cannot have the parameters it has; `log` is the compiler's text, whose errors are all at the export or in dwell's own
// headers. Nothing where something else is to blame.
std::optional<std::string> wrong_parameter(std::string_view text, std::string_view name, std::string_view log);

}  // namespace dwell::jit
