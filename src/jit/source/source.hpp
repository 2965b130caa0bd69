// Wraps an operator's source for the compiler, and rewrites the compiler's text for the source's author.
#pragma once

#include <string>
#include <string_view>

#include <dwell/error.hpp>

#include "jit/compiler.hpp"

namespace dwell::jit {

// Throws dwell::Error with errc::invalid_argument unless `name` is an identifier.
void check_operator_name(std::string_view name);
// Throws dwell::Error with errc::invalid_argument when the text of `unit` contains a null character.
void check_text(const Unit& unit);

// The text to compile for `unit`. It includes dwell/device.hpp, gives everything the user defines internal linkage (two versions of an
// operator with the same helper functions must link into one image), keeps the user's file and lines in diagnostics, and exports
// the operator's instances under their symbols. #include lines must stand before the first declaration of the user's text.
// Throws dwell::Error with errc::invalid_argument when name or a symbol is no C identifier, an expression is no instance of the operator,
// or the text holds a null character.
std::string wrapped_source(const Unit& unit);

// Returns the #line directive, with its line end, after which the text is line `line` of `file`.
std::string line_directive(int line, std::string_view file);

// The length of the leading part of `text`: whole lines of nothing but blanks, comments and preprocessor directives, with every #if of
// the part closed in it.
std::size_t leading_part(std::string_view text);

// Returns the compiler's text for the author of `unit`: without the decoration of wrapped_source and the follow-up errors at the export,
// bounded in length.
std::string readable_log(const Unit& unit, std::string_view log);

// Returns the error of a compile of wrapped_source(unit) that failed with `log`: errc::operator_not_found if the text merely does not
// define the operator, else errc::compile_failed.
Error compile_error(const Unit& unit, std::string_view log);

}  // namespace dwell::jit
