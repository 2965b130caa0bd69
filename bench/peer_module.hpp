// Peers with their own libraries: shared objects next to the program.
#pragma once

#include <string>

namespace dwell::bench {

// Returns the function `name` of the module NAME.so, which stays open. Null, with the reason in `why`, if there is no such module.
void* find_in_module(const std::string& name, std::string* why);

template <class Function>
Function* find_in_module(const std::string& name, std::string* why) {
  return reinterpret_cast<Function*>(find_in_module(name, why));
}

}  // namespace dwell::bench
