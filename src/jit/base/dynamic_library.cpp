#include "jit/base/dynamic_library.hpp"

#include <dlfcn.h>
#include <link.h>

namespace dwell::jit {

DynamicLibrary::DynamicLibrary(const std::string& path, Scope scope, errc failure)
    : name_(path), handle_(dlopen(path.c_str(), RTLD_NOW | (scope == Scope::global ? RTLD_GLOBAL : RTLD_LOCAL))) {
  if (handle_ != nullptr) return;
  const char* const reason = dlerror();
  throw Error(failure, reason != nullptr ? std::string(reason) : "cannot open " + path);
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* DynamicLibrary::address(const char* name) const noexcept { return handle_ == nullptr ? nullptr : dlsym(handle_, name); }

std::filesystem::path DynamicLibrary::file() const {
  link_map* map = nullptr;
  if (handle_ == nullptr || dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map->l_name == nullptr || *map->l_name == 0) return name_;
  std::error_code error;
  const auto resolved = std::filesystem::canonical(map->l_name, error);
  return error ? std::filesystem::path(map->l_name) : resolved;
}

}  // namespace dwell::jit
