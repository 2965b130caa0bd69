// Decodes keys from the bytes that a terminal sends.
#pragma once

#include <string>
#include <vector>

namespace dwell::tool {

// A key is an ASCII character, or one of these.
enum Key : int { key_up = 256, key_down, key_left, key_right, key_page_up, key_page_down, key_home, key_end };

// Removes complete keys from `bytes` and returns them; a partial sequence stays for the next call. Leaves out unknown keys.
std::vector<int> take_keys(std::string& bytes);

}  // namespace dwell::tool
