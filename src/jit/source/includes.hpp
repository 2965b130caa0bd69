// The files that a source reads besides itself: every file that one of its #include lines can name.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dwell::jit {

// Where #include looks, in this order: #include "x" in a file first looks in that file's folder; then come `headers` by their very name,
// `folders`, and `system_folders`. And what is known of the compiler that will read the source. The functions are called when first
// needed, by the thread that scans.
struct IncludeSearch {
  const std::map<std::string, std::string>& headers;  // in memory: name to text
  const std::vector<std::string>& folders;            // the user's own
  std::function<std::vector<std::string>()> system_folders = [] { return std::vector<std::string>(); };
  // Where NVRTC looks for #include "x" of a header in memory before `folders`: as if that header lay below the folder in which the process
  // is. Empty: nowhere.
  std::string current_folder = {};
  // Names that are known otherwise (dwell's own headers) and not looked for.
  std::function<bool(std::string_view)> is_known = [](std::string_view) { return false; };
  // Files that the compiler was seen to read and that no #include names.
  std::span<const std::string> unnamed_files = {};
  // Whether the compiler tells what it has read (see `unnamed_among`).
  bool compiler_tells = false;
  // Whether inline assembly can read files.
  bool assembler_reads = false;
};

// A digest of the names and contents of all files that `text` and its headers may include, directly or by others, and of
// `search.unnamed_files`. Conditionals are not evaluated, so it is the same for two compilations only if both read the same. Names that are
// not found are in it as missing. Empty when there is nothing to read.
//
// Nothing at all when it cannot be told: a name in #include comes from a macro, inline assembly may read a file, or a file has more than
// 256 MiB. In a file of the system's folders assembly is passed over, and so is a macro if the compiler tells what it has read.
//
// A file is read once in the life of the process, as long as its stamp stays. The files behind a header of the system (hundreds for one of
// C++) are looked at again after a second, not earlier. May be called from several threads at once.
std::optional<std::string> digest_of_includes(std::string_view text, const IncludeSearch& search);

// Those of `files`, which a compiler says that it has read, that digest_of_includes(text, search) did not see. Names that lead to one file
// count as the same.
std::vector<std::string> unnamed_among(std::span<const std::string> files, std::string_view text, const IncludeSearch& search);

}  // namespace dwell::jit
