// The files that a source may include, directly or indirectly.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dwell::jit {

// The search order of #include, and properties of the compiler. #include "x" first searches the including file's folder; then follow
// `headers` by exact name, `folders`, and `system_folders`. The scanning thread calls the functions when first needed.
struct IncludeSearch {
  const std::map<std::string, std::string>& headers;  // in memory: name to text
  const std::vector<std::string>& folders;            // the user's own
  std::function<std::vector<std::string>()> system_folders = [] { return std::vector<std::string>(); };
  // The folder that NVRTC searches before `folders` for #include "x" of a header in memory: as if the header were below the process's
  // current folder. Empty: none.
  std::string current_folder = {};
  // Names that are not searched (dwell's own headers).
  std::function<bool(std::string_view)> is_known = [](std::string_view) { return false; };
  // Files that the compiler has read without an #include.
  std::span<const std::string> unnamed_files = {};
  // Whether the compiler reports the files it has read (see `unnamed_among`).
  bool compiler_tells = false;
  // Whether inline assembly can read files.
  bool assembler_reads = false;
};

// Returns a digest of the names and contents of all files that `text` and its headers may include, directly or indirectly, and of
// `search.unnamed_files`. Conditionals are not evaluated, so equal digests imply that two compilations read the same. Names that are not
// found are included as missing. Empty if there are no files.
//
// Returns nothing if the files cannot be determined: a name in #include comes from a macro, inline assembly may read a file, or a file has
// more than 256 MiB. Files of the system's folders may contain assembly, and macros if the compiler reports the files it has read.
//
// Reads a file once per process while its stamp is unchanged. Files included by a system header (hundreds for one of C++) are checked again
// after a second at the earliest. May be called from several threads at once.
std::optional<std::string> digest_of_includes(std::string_view text, const IncludeSearch& search);

// Returns those of `files`, read by a compiler, that digest_of_includes(text, search) did not see. Different names of one file count as
// equal.
std::vector<std::string> unnamed_among(std::span<const std::string> files, std::string_view text, const IncludeSearch& search);

}  // namespace dwell::jit
