#include "jit/source/source.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

#include "jit/source/identifier.hpp"
#include "jit/source/parameters.hpp"

namespace dwell::jit {

namespace {

constexpr std::string_view kExport = "<dwell export of ";
constexpr std::size_t kLongestLine = 400;
constexpr std::size_t kLongestLog = 16384;

std::string file_of(const Unit& unit) { return unit.file.empty() ? "<" + unit.name + ">" : unit.file; }

// Reads the lines of a text while they contain only blanks, comments and directives.
class Prelude {
 public:
  // Returns whether `line` (without its line end) contains nothing else.
  bool take(std::string_view line) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const bool goes_on = !line.empty() && line.back() == '\\';
    if (goes_on) line.remove_suffix(1);
    if (!scan(line)) return false;
    if (!goes_on) in_directive_ = in_line_comment_ = false;
    continued_ = goes_on;
    return true;
  }
  // Returns whether a declaration may follow here.
  bool settled() const { return depth_ == 0 && !in_comment_ && !continued_; }

 private:
  bool scan(std::string_view line) {
    char quote = 0;
    for (std::size_t i = 0; i < line.size() && !in_line_comment_; ++i) {
      const std::string_view two = line.substr(i, 2);
      if (in_comment_) {
        if (two == "*/") in_comment_ = false, ++i;
      } else if (quote != 0) {
        if (line[i] == '\\')
          ++i;
        else if (line[i] == quote)
          quote = 0;
      } else if (two == "/*") {
        in_comment_ = true, ++i;
      } else if (two == "//") {
        in_line_comment_ = true;
      } else if (in_directive_) {
        if (line[i] == '"' || line[i] == '\'') quote = line[i];
      } else if (line[i] == '#' && !continued_) {
        in_directive_ = true;
        nest(line.substr(i + 1));
      } else if (std::isspace(static_cast<unsigned char>(line[i])) == 0) {
        return false;
      }
    }
    return true;
  }

  // Follows #if and #endif; `rest` is what comes after the number sign.
  void nest(std::string_view rest) {
    const std::size_t start = std::min(rest.find_first_not_of(" \t"), rest.size());
    rest.remove_prefix(start);
    if (rest.starts_with("if")) ++depth_;
    if (rest.starts_with("endif") && depth_ > 0) --depth_;
  }

  int depth_ = 0;
  bool in_comment_ = false;
  bool in_line_comment_ = false;
  bool in_directive_ = false;
  bool continued_ = false;
};

// Returns the number (from 1) of the first #include line after the leading part, or 0. Such a header would be included inside a namespace,
// with unreadable errors.
int late_include(std::string_view text) {
  const std::size_t start = leading_part(text);
  int number = static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(start), '\n'));
  for (std::size_t at = start; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    ++number;
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.starts_with('#')) {
      line.remove_prefix(1);
      line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      if (line.starts_with("include")) return number;
    }
    at = end + 1;
  }
  return 0;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
}

bool is_error(std::string_view line) {
  return line.find(": error") != std::string_view::npos || line.find("fatal error:") != std::string_view::npos ||
         line.find("undefined reference") != std::string_view::npos;
}

// Returns whether `line` is an error at the export or in dwell's headers; compilers put the location first.
bool is_own_error(const Unit& unit, std::string_view line) {
  if (!is_error(line) || line.starts_with(file_of(unit))) return false;
  const std::size_t header = std::min(line.find("dwell/device/"), line.find("dwell/device.hpp"));
  return line.starts_with(kExport) || header < line.find(": error");
}

bool is_missing_operator(const Unit& unit, std::string_view line) {
  const std::size_t at = line.find("dwell_operator_" + unit.name);
  if (at == std::string_view::npos || !is_own_error(unit, line)) return false;
  for (const std::string_view phrase : {"undefined", "not declared", "undeclared"}) {
    if (line.find(phrase) != std::string_view::npos) return true;
  }
  return false;
}

// Returns the names in DWELL_OPERATOR(name) in `text`, for a hint.
std::string operators_in(std::string_view text) {
  std::string names;
  constexpr std::string_view macro = "DWELL_OPERATOR(";
  for (std::size_t at = 0; (at = text.find(macro, at)) != std::string_view::npos;) {
    at += macro.size();
    const std::string_view name = text.substr(at, std::min(text.find(')', at), text.size()) - at);
    if (!is_identifier(name)) continue;
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

// A name expression is put on a line of its own: it must not end the line or the construct around it.
void check_expression(const Unit& unit, const std::string& expression) {
  const auto refuse = [&](const std::string& why) {
    throw Error(errc::invalid_argument, "'" + expression + "' names no instance of operator " + unit.name + ": " + why + "; write " +
                                            unit.name + " or " + unit.name + "<...>");
  };
  if (!expression.starts_with(unit.name)) refuse("it does not begin with the operator's name");
  const std::string_view rest = std::string_view(expression).substr(unit.name.size());
  const std::size_t start = std::min(rest.find_first_not_of(' '), rest.size());
  if (start == rest.size()) return;
  if (rest[start] != '<' || rest.back() != '>') refuse("the template arguments are not in angle brackets");
  int depth = 0;
  for (const char c : rest) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0 || c == '#' || c == ';' || c == '{' || c == '}')
      refuse("it holds what no name has");
    if (c == '(') ++depth;
    if (c == ')' && --depth < 0) refuse("its parentheses do not match");
  }
  if (depth != 0) refuse("its parentheses do not match");
}

// Returns whether the text defines the operator as a template: its declaration begins with that word.
bool is_template(const Unit& unit) {
  const std::string text = declarations_in(unit.text);
  const std::size_t end = text.find("DWELL_OPERATOR(" + unit.name + ")");
  if (end == std::string::npos || end == 0) return false;
  const std::size_t before = text.find_last_of(";{}", end - 1);
  const std::size_t start = text.find_first_not_of(" \t\r\n", before == std::string::npos ? 0 : before + 1);
  return text.compare(start, 8, "template") == 0;
}

}  // namespace

void check_operator_name(std::string_view name) {
  if (!is_identifier(name))
    throw Error(errc::invalid_argument, "'" + std::string(name) + "' is not a valid operator name: use letters, digits and _",
                {"operator", std::string(name)});
}

void check_text(const Unit& unit) {
  if (unit.text.find('\0') != std::string::npos)
    throw Error(errc::invalid_argument, "the source " + file_of(unit) + " contains a null character");
}

std::string line_directive(int line, std::string_view file) {
  std::string text = "#line " + std::to_string(std::max(line, 1)) + " \"";
  for (const char c : file) {
    if (c == '"' || c == '\\') text += '\\';
    text += std::iscntrl(static_cast<unsigned char>(c)) != 0 ? '?' : c;
  }
  return text + "\"\n";
}

std::size_t leading_part(std::string_view text) {
  Prelude prelude;
  std::size_t settled = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    // Leave a last line without a line end to the rest, which then starts on its own line.
    if (end == std::string_view::npos || !prelude.take(text.substr(at, end - at))) break;
    at = end + 1;
    if (prelude.settled()) settled = at;
  }
  return settled;
}

std::string wrapped_source(const Unit& unit) {
  check_operator_name(unit.name);
  for (const Export& one : unit.exports) {
    if (!is_identifier(one.symbol)) throw Error(errc::invalid_argument, "'" + one.symbol + "' is not a valid symbol: use a C identifier");
    check_expression(unit, one.expression);
  }
  check_text(unit);
  const std::size_t start = leading_part(unit.text);
  const std::string_view lead = std::string_view(unit.text).substr(0, start);
  const int lines = static_cast<int>(std::count(lead.begin(), lead.end(), '\n'));
  const std::string file = file_of(unit);
  const std::string at_export = line_directive(1, std::string(kExport) + unit.name + ">");

  std::string text = "#include <dwell/device.hpp>\n";
  text += line_directive(unit.line, file);
  text += lead;
  // A user's helper may be recursive, which g++ refuses to inline always.
  text += "#undef DWELL_DEVICE\n#define DWELL_DEVICE DWELL_DEVICE_HELPER\n";
  text += "namespace {\n";
  text += line_directive(unit.line + lines, file);
  text += unit.text.substr(start);
  // Two line ends: a backslash may swallow the first.
  text += "\n\n" + at_export + "}\n" + at_export;
  for (const Export& one : unit.exports) text += "DWELL_EXPORT(" + one.symbol + ", " + one.expression + ")\n";
  if (!unit.exports.empty()) {
    const std::string& first = unit.exports.front().symbol;
    text += "DWELL_EXPORT_USES(" + first + ")\nDWELL_EXPORT_INSPECTS(" + first + ")\n";
  }
  return text;
}

std::string readable_log(const Unit& unit, std::string_view log) {
  std::string text;
  bool user_error = false;
  for (const std::string_view line : lines_of(log)) {
    // Stop at the export's errors after an error of the user's: they come last, and are noise.
    if (user_error && (line.starts_with(kExport) || is_own_error(unit, line))) break;
    user_error = user_error || (is_error(line) && !is_own_error(unit, line));
    text += line.substr(0, kLongestLine);
    if (line.size() > kLongestLine) text += " ...";
    text += '\n';
    if (text.size() > kLongestLog) {
      text += "...\n";
      break;
    }
  }
  replace_all(text, "dwell_operator_" + unit.name, unit.name);
  replace_all(text, "{anonymous}::", "");
  replace_all(text, "(anonymous namespace)::", "");
  replace_all(text, "<unnamed>::", "");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Error compile_error(const Unit& unit, std::string_view log) {
  const auto lines = lines_of(log);
  const bool user_error =
      std::any_of(lines.begin(), lines.end(), [&](std::string_view line) { return is_error(line) && !is_own_error(unit, line); });
  const bool missing = std::any_of(lines.begin(), lines.end(), [&](std::string_view line) { return is_missing_operator(unit, line); });
  if (missing && !user_error) {
    std::string message = file_of(unit) + " does not define DWELL_OPERATOR(" + unit.name + ")";
    const std::string others = operators_in(unit.text);
    message += others.empty() ? "" : "; it defines " + others;
    return Error(errc::operator_not_found, message, {"operator", unit.name});
  }
  if (!user_error) {
    if (const auto why = wrong_parameter(unit.text, unit.name, log))
      return Error(errc::compile_failed, "operator " + unit.name + " does not compile: " + *why, {"operator", unit.name});
  }
  std::string message = "operator " + unit.name + " does not compile:\n" + readable_log(unit, log);
  if (const int line = late_include(unit.text); line != 0) {
    message += "\nnote: the #include on line " + std::to_string(line + std::max(unit.line, 1) - 1) + " of " + file_of(unit) +
               " must stand before the first declaration";
  }
  const auto names_all = [&](const Export& one) { return one.expression.find('<') == std::string::npos; };
  if (is_template(unit) && std::any_of(unit.exports.begin(), unit.exports.end(), names_all)) {
    message +=
        "\nnote: " + unit.name + " is a template: name those to make in `instances` where it is defined, such as " + unit.name + "<float>";
  }
  return Error(errc::compile_failed, message, {"operator", unit.name});
}

}  // namespace dwell::jit
