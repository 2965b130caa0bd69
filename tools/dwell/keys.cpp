#include "keys.hpp"

#include <cstddef>
#include <string_view>

namespace dwell::tool {

namespace {

constexpr char kEscape = '\x1b';

struct Sequence {
  std::string_view text;  // after the escape
  int key;
};

// Sequences of terminals in normal and in application mode.
constexpr Sequence kSequences[] = {
    {"[A", key_up},    {"[B", key_down}, {"[C", key_right},    {"[D", key_left},       {"OA", key_up},   {"OB", key_down},
    {"OC", key_right}, {"OD", key_left}, {"[5~", key_page_up}, {"[6~", key_page_down}, {"[H", key_home}, {"[F", key_end},
    {"OH", key_home},  {"OF", key_end},  {"[1~", key_home},    {"[4~", key_end},
};

// Returns the length of the sequence after an escape: [ parameters letter, or O letter. 0 if it is incomplete.
std::size_t length_of(std::string_view text) {
  if (text.empty()) return 0;
  if (text[0] == 'O') return text.size() < 2 ? 0 : 2;
  if (text[0] != '[') return 1;
  for (std::size_t i = 1; i < text.size(); ++i)
    if (text[i] >= '@' && text[i] <= '~') return i + 1;
  return 0;
}

}  // namespace

std::vector<int> take_keys(std::string& bytes) {
  std::vector<int> keys;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    if (rest[0] != kEscape) {
      if (static_cast<unsigned char>(rest[0]) < 0x80) keys.push_back(rest[0]);
      rest.remove_prefix(1);
      continue;
    }
    const std::size_t length = length_of(rest.substr(1));
    if (length == 0) break;
    for (const Sequence& sequence : kSequences)
      if (rest.substr(1, length) == sequence.text) keys.push_back(sequence.key);
    rest.remove_prefix(1 + length);
  }
  bytes = std::string(rest);
  return keys;
}

}  // namespace dwell::tool
