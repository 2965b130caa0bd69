// Finds the files that a text includes, as a preprocessor does, without evaluating conditionals and macros.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dwell::jit {

// One included name.
struct Inclusion {
  std::string name;
  bool quoted = false;  // "name", else <name>
  bool next = false;    // #include_next: any of the files of that name

  bool operator==(const Inclusion&) const = default;
};

// The names in #include, #include_next, #import, #embed and __has_include of `text`, in order. Comments, strings and spliced lines are
// read as the compiler reads them; conditionals are not evaluated.
struct Inclusions {
  std::vector<Inclusion> list;
  bool by_macro = false;      // a name comes from a macro
  bool by_assembler = false;  // inline assembly may read a file: .include, .incbin, or a text beyond plain string literals
};
Inclusions inclusions_of(std::string_view text);

}  // namespace dwell::jit
