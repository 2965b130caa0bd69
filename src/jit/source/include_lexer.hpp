// Reads #include lines as a preprocessor does, up to the evaluation of conditionals.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dwell::jit {

// One thing that a text asks for.
struct Inclusion {
  std::string name;
  bool quoted = false;  // "name", else <name>
  bool next = false;    // #include_next: any of the files of that name

  bool operator==(const Inclusion&) const = default;
};

// What `text` asks for in #include, #include_next, #import, #embed and __has_include, in order. Comments, strings and spliced lines are
// read as the compiler reads them; conditionals are not.
struct Inclusions {
  std::vector<Inclusion> list;
  bool can_be_told = true;  // no name comes from a macro, and no .incbin reads a file
};
Inclusions inclusions_of(std::string_view text);

}  // namespace dwell::jit
