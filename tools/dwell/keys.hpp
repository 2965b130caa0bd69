// What a person presses, from the bytes that a terminal sends for it.
#pragma once

#include <string>
#include <vector>

namespace dwell::tool {

// A character of ASCII, or one of these.
enum Key : int { key_up = 256, key_down, key_left, key_right, key_page_up, key_page_down, key_home, key_end };

// The keys that begin and end in `bytes`, which it takes out: half of a sequence stays for the next call. Keys that are not known are left
// out.
std::vector<int> take_keys(std::string& bytes);

}  // namespace dwell::tool
