#include "jit/source/parameters.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace dwell::jit {

namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Returns `text` with runs of blanks collapsed, and none at the ends.
std::string tidy(std::string_view text) {
  std::string tidied;
  for (const char c : text) {
    if (!is_space(c))
      tidied += c;
    else if (!tidied.empty() && tidied.back() != ' ')
      tidied += ' ';
  }
  while (!tidied.empty() && tidied.back() == ' ') tidied.pop_back();
  return tidied;
}

// Returns a parameter's declaration without its name and default.
std::string type_in(std::string_view declaration) {
  std::string text = tidy(declaration.substr(0, declaration.find('=')));
  std::size_t name = text.size();
  while (name > 0 && is_letter(text[name - 1])) --name;
  std::string type = tidy(std::string_view(text).substr(0, name));
  if (name == text.size() || type.empty() || type.ends_with("::")) return text;
  constexpr std::array<std::string_view, 10> kTypes = {"bool",  "char",   "short",  "int",      "long",
                                                       "float", "double", "signed", "unsigned", "auto"};
  constexpr std::array<std::string_view, 4> kNoTypes = {"const", "volatile", "struct", "typename"};
  const std::string_view last = std::string_view(text).substr(name);
  if (std::ranges::find(kTypes, last) != kTypes.end() || std::ranges::find(kNoTypes, type) != kNoTypes.end()) return text;
  return type;
}

// Returns whether a type's text names dwell::Group, by value.
bool is_group(std::string_view type) { return type.ends_with("Group") || type.ends_with("Group const"); }

// References to const are allowed: they refer to the task's arguments.
bool is_wrong_reference(std::string_view type) {
  return type.ends_with("&&") || (type.ends_with('&') && !type.starts_with("const ") && type.find(" const") == std::string_view::npos);
}

// Returns the message of a failed static_assert on `line`: after a colon or in quotes at the end, depending on the compiler.
std::string_view assertion_in(std::string_view line) {
  const std::size_t failed = std::min(line.find("static assertion failed"), line.find("static_assert failed"));
  if (failed == std::string_view::npos) return {};
  line.remove_prefix(failed);
  if (line.ends_with('"')) {
    line.remove_suffix(1);
    return line.substr(line.rfind('"') + 1);
  }
  const std::size_t requirement = line.find("': ");
  const std::size_t words = line.find(": ", requirement == std::string_view::npos ? 0 : requirement);
  return words == std::string_view::npos ? std::string_view() : line.substr(words + 2);
}

// Returns the message of a static_assert in dwell's headers of signatures.
std::string_view fault_in(std::string_view log) {
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    const bool own = line.find("dwell/device/signature.hpp") != std::string_view::npos ||
                     line.find("dwell/device/operator.hpp") != std::string_view::npos;
    if (const std::string_view words = assertion_in(line); own && !words.empty()) return words;
    log.remove_prefix(std::min(line.size() + 1, log.size()));
  }
  return {};
}

// Returns T in "Describe<std::vector<float> >" or "Describe<T> [with T=std::vector<float>]".
std::string_view described_in(std::string_view log) {
  std::size_t at = log.find("Describe<T> [with T");
  if (at != std::string_view::npos) {
    const std::size_t start = std::min(log.find_first_not_of(" =", at + 19), log.size());
    return log.substr(start, log.find('\n', start) - start);
  }
  at = log.find("Describe<");
  return at == std::string_view::npos ? std::string_view() : log.substr(at + 9, log.find('\n', at) - at - 9);
}

// Returns "vector" for "std::vector<float>".
std::string_view base_name_of(std::string_view type) {
  type = type.substr(0, type.find_first_of("<&*"));
  while (!type.empty() && !is_letter(type.back())) type.remove_suffix(1);
  std::size_t start = type.size();
  while (start > 0 && is_letter(type[start - 1])) --start;
  return type.substr(start);
}

}  // namespace

std::string declarations_in(std::string_view text) {
  std::string rest;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view two = text.substr(at, 2);
    const std::size_t last = rest.find_last_not_of(" \t");
    const bool line_start = last == std::string::npos || rest[last] == '\n';
    if (two == "/*") {
      at = std::min(text.find("*/", at + 2), text.size() - 2) + 2;
    } else if (two == "//" || (text[at] == '#' && line_start)) {
      at = std::min(text.find('\n', at), text.size());
    } else {
      rest += text[at++];
    }
  }
  return rest;
}

std::optional<std::vector<WrittenParameter>> parameters_in(std::string_view text, std::string_view name) {
  const std::string rest = declarations_in(text);
  const std::string macro = "DWELL_OPERATOR(" + std::string(name) + ")";
  std::size_t at = rest.find(macro);
  if (at == std::string::npos) return std::nullopt;
  at = rest.find_first_not_of(" \t\r\n", at + macro.size());
  if (at == std::string::npos || rest[at] != '(') return std::nullopt;
  std::vector<WrittenParameter> parameters;
  std::string one;
  int depth = 0;
  for (++at; at < rest.size(); ++at) {
    const char c = rest[at];
    if (depth == 0 && (c == ',' || c == ')')) {
      if (c == ',' || !parameters.empty() || !tidy(one).empty()) parameters.push_back({tidy(one), type_in(one)});
      one.clear();
      if (c == ')') return parameters;
      continue;
    }
    if (c == '(' || c == '<' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == '>' || c == ']' || c == '}') --depth;
    one += c;
  }
  return std::nullopt;
}

std::optional<std::string> wrong_parameter(std::string_view text, std::string_view name, std::string_view log) {
  const auto parameters = parameters_in(text, name);
  if (!parameters) return std::nullopt;
  const std::string_view fault = fault_in(log);
  const std::string_view described = described_in(log);
  // Only a signature without a group fails this way. The signature of a template is unknown, and the user's alias may stand for the group.
  const bool no_group = log.find("Export<void") != std::string_view::npos && fault.empty() && described.empty();
  if (no_group && parameters->empty()) return "its first parameter must be dwell::Group, it has none";
  if (no_group && !is_group(parameters->front().type)) return "its first parameter must be dwell::Group, it is " + parameters->front().type;
  for (const WrittenParameter& one : *parameters)
    if (is_wrong_reference(one.type)) return "'" + one.text + "' is a reference: take a value, or a dwell::Span to write to";
  if (fault.empty()) return std::nullopt;
  for (const WrittenParameter& one : *parameters)
    if (const std::string_view known = base_name_of(one.type); !known.empty() && described.find(known) != std::string_view::npos)
      return "'" + one.text + "': " + std::string(fault);
  return std::string(fault);
}

}  // namespace dwell::jit
