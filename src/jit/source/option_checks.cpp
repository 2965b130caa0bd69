#include "jit/source/option_checks.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "jit/source/embedded.hpp"
#include "jit/source/identifier.hpp"

namespace dwell::jit {

namespace fs = std::filesystem;

namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Returns whether `name` is a macro name, with or without parameters.
bool is_macro(std::string_view name) {
  const std::size_t open = name.find('(');
  if (open == std::string_view::npos) return is_identifier(name);
  if (!is_identifier(name.substr(0, open)) || name.back() != ')') return false;
  std::string_view parameters = trimmed(name.substr(open + 1, name.size() - open - 2));
  while (!parameters.empty()) {
    const std::size_t comma = std::min(parameters.find(','), parameters.size());
    const std::string_view one = trimmed(parameters.substr(0, comma));
    const bool last = comma == parameters.size();
    if (!is_identifier(one) && !(last && one == "...")) return false;
    parameters = last ? std::string_view() : parameters.substr(comma + 1);
    if (!last && trimmed(parameters).empty()) return false;
  }
  return true;
}

bool is_one_line(std::string_view text) { return text.find_first_of(std::string_view("\n\r\0", 3)) == std::string_view::npos; }

}  // namespace

Error option_error(errc code, std::string_view option, const std::string& message) {
  const std::string name = "CompileOptions::" + std::string(option);
  return Error(code, name + ": " + message, {"option", name});
}

void check_standard(const CompileOptions& options) {
  if (options.standard == 14 || options.standard == 17 || options.standard == 20) return;
  throw option_error(errc::invalid_argument, "standard",
                     "no support for C++" + std::to_string(options.standard) + " here; use 14, 17 or 20");
}

std::vector<std::string> checked_defines(const CompileOptions& options) {
  std::vector<std::string> list;
  for (const auto& [name, value] : options.defines) {
    if (!is_macro(name)) {
      throw option_error(errc::invalid_argument, "defines",
                         "'" + name + "' is not the name of a macro; use an identifier, or one with parameters such as SQUARE(x)");
    }
    if (!is_one_line(value)) throw option_error(errc::invalid_argument, "defines", "the value of " + name + " is not one line");
    list.push_back(name + "=" + value);
  }
  return list;
}

std::vector<std::string> checked_include_paths(const CompileOptions& options) {
  std::vector<std::string> list;
  for (const std::string& path : options.include_paths) {
    std::error_code error;
    const fs::path found = fs::canonical(path, error);
    const bool folder = !path.empty() && !error && fs::is_directory(found, error);
    if (!folder || !is_one_line(path)) {
      throw option_error(errc::invalid_argument, "include_paths",
                         "no such folder: '" + path + "' (relative ones are taken from " + fs::current_path(error).string() + ")");
    }
    list.push_back(found.string());
  }
  return list;
}

void check_headers(const CompileOptions& options) {
  for (const auto& [name, text] : options.headers) {
    const fs::path path(name);
    const auto leaves = [](const fs::path& part) { return part == ".." || part == "."; };
    if (name.empty() || path.is_absolute() || !path.has_filename() || path.lexically_normal().string() != name || !is_one_line(name) ||
        std::any_of(path.begin(), path.end(), leaves)) {
      throw option_error(errc::invalid_argument, "headers",
                         "'" + name + "' is not a valid header name: use a relative path such as tile/sizes.h");
    }
    if (is_operator_header(name)) {
      throw option_error(errc::invalid_argument, "headers", name + " is a header of dwell itself; choose another name");
    }
    if (text.find('\0') != std::string::npos) {
      throw option_error(errc::invalid_argument, "headers", "the text of " + name + " holds a null character");
    }
  }
}

void check_flags(const CompileOptions& options, std::span<const RefusedFlag> refused) {
  for (const std::string& flag : options.flags) {
    if (flag.size() < 2 || flag.front() != '-' || !is_one_line(flag)) {
      throw option_error(errc::invalid_argument, "flags",
                         "'" + flag + "' is not a flag; each begins with a dash, and has its value joined to it (--name=value)");
    }
    const bool two_dashes = flag[1] == '-';
    const std::string_view body = std::string_view(flag).substr(two_dashes ? 2 : 1);
    const std::string_view name = body.substr(0, body.find('='));
    for (const RefusedFlag& one : refused) {
      if (name == one.name || (one.joined && !two_dashes && body.starts_with(one.name))) {
        throw option_error(errc::invalid_argument, "flags", "'" + flag + "' is not possible here: " + std::string(one.reason));
      }
    }
  }
}

}  // namespace dwell::jit
