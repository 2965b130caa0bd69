#include "bench/peer_module.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "bench/process.hpp"

namespace dwell::bench {

void* find_in_module(const std::string& name, std::string* why) {
  const std::string file = (std::filesystem::path(own_file()).parent_path() / (name + ".so")).string();
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const function = library == nullptr ? nullptr : dlsym(library, name.c_str());
  if (function == nullptr) {
    const char* const reason = dlerror();
    *why = reason != nullptr ? reason : file + " is not a module of the benchmarks";
  }
  return function;
}

}  // namespace dwell::bench
