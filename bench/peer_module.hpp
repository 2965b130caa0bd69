// Peers with libraries of their own: shared objects beside the program.
#pragma once

#include <string>

namespace dwell::bench {

// The function `name` of the module NAME.so, which stays open. Nothing, and why, when there is no such module.
void* find_in_module(const std::string& name, std::string* why);

template <class Function>
Function* find_in_module(const std::string& name, std::string* why) {
  return reinterpret_cast<Function*>(find_in_module(name, why));
}

}  // namespace dwell::bench
