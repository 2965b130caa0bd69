#include "jit/host/dependencies.hpp"

#include <algorithm>

namespace dwell::jit {

std::vector<std::string> prerequisites_of(std::string_view rule) {
  rule.remove_prefix(std::min(rule.find(": "), rule.size()));
  rule.remove_prefix(std::min<std::size_t>(1, rule.size()));
  std::vector<std::string> files;
  std::string file;
  const auto end_file = [&] {
    if (!file.empty()) files.push_back(std::move(file));
    file.clear();
  };
  for (std::size_t i = 0; i < rule.size(); ++i) {
    const char c = rule[i];
    if (c == ' ' || c == '\t' || c == '\n') {
      end_file();
    } else if (c == '$' && rule.substr(i).starts_with("$$")) {
      file += '$';
      ++i;
    } else if (c == '\\') {
      // Backslashes are doubled only before a blank, which is escaped by one more.
      const std::size_t next = std::min(rule.find_first_not_of('\\', i), rule.size());
      const std::size_t count = next - i;
      const char behind = next < rule.size() ? rule[next] : '\n';
      if (behind == '\n') {
        file.append(count - 1, '\\');
        end_file();
        i = next;
      } else if (behind == ' ' || behind == '\t') {
        file.append(count / 2, '\\');
        if (count % 2 == 0)
          end_file();
        else
          file += behind;
        i = next;
      } else if (behind == '#') {
        file.append(count - 1, '\\');
        file += '#';
        i = next;
      } else {
        file.append(count, '\\');
        i = next - 1;
      }
    } else {
      file += c;
    }
  }
  end_file();
  return files;
}

}  // namespace dwell::jit
