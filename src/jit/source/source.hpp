// From an operator's source to the text that is compiled, and from the compiler's text to what its author is told.
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

// The #line directive, with its line end, behind which the text is line `line` of `file`.
std::string line_directive(int line, std::string_view file);

// The length of the leading part of `text`: whole lines of nothing but blanks, comments and preprocessor directives, with every #if of
// the part closed in it.
std::size_t leading_part(std::string_view text);

// The compiler's text as the author of `unit` should read it: without the decoration of wrapped_source, without the errors that only
// follow from earlier ones at the export, bounded in length.
std::string readable_log(const Unit& unit, std::string_view log);

// The error of a compile of wrapped_source(unit) that failed with `log`: errc::operator_not_found when the only trouble is that the
// text does not define the operator, else errc::compile_failed.
Error compile_error(const Unit& unit, std::string_view log);

}  // namespace dwell::jit
