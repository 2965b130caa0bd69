// What a source reads besides itself: every file that one of its #include lines can name.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dwell::jit {

// Where #include looks, in this order: #include "x" in a file first looks in that file's folder; then come `headers` by their very name,
// `folders`, and `system_folders`. The functions are called when first needed, by the thread that scans.
struct IncludeSearch {
  const std::map<std::string, std::string>& headers;  // in memory: name to text
  const std::vector<std::string>& folders;            // the user's own
  std::function<std::vector<std::string>()> system_folders = [] { return std::vector<std::string>(); };
  // Where NVRTC looks for #include "x" of a header in memory before `folders`: as if that header lay below the folder in which the process
  // is. Empty: nowhere.
  std::string current_folder = {};
  // Names that are known otherwise (dwell's own headers) and not looked for.
  std::function<bool(std::string_view)> is_known = [](std::string_view) { return false; };
};

// A digest of the names and contents of all files that `text` and its headers may include, directly or by others: whatever conditionals
// allow, so it is the same for two compiles only if both read the same. What cannot be found is in it as missing. Empty when there are
// none. Nothing at all when it cannot be told: an #include that is a macro, or .incbin, in a file outside of the system's folders. A file
// is read once in the life of the process, as long as its stamp stays. What a header of the system leads to (hundreds of files for one of
// C++) is looked at again after a second, not earlier. May be called from several threads at once.
std::optional<std::string> digest_of_includes(std::string_view text, const IncludeSearch& search);

}  // namespace dwell::jit
