#include "backend/cpu/loaded_object.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <dwell/error.hpp>

namespace dwell::backend {

namespace {

// Returns a path under which the loader, and later a debugger, can open `file`. A debugger gets the loader's path, and would resolve "self"
// to itself. If /proc belongs to another PID namespace, only "self" works.
std::string path_of(int file) {
  const std::string end = "/fd/" + std::to_string(file);
  std::string path = "/proc/" + std::to_string(getpid()) + end;
  struct stat meant {};
  struct stat found {};
  const bool same =
      fstat(file, &meant) == 0 && stat(path.c_str(), &found) == 0 && meant.st_dev == found.st_dev && meant.st_ino == found.st_ino;
  return same ? path : "/proc/self" + end;
}

}  // namespace

LoadedObject::LoadedObject(std::span<const std::byte> bytes, const std::string& name) {
  // Load from memory: a file could be replaced by others. The descriptor stays open while the object is loaded, because the loader takes
  // two objects with one path for the same.
  file_ = memfd_create(name.substr(0, 200).c_str(), MFD_CLOEXEC);
  if (file_ < 0) throw Error(errc::link_failed, "cannot make a file in memory for operator " + name + ": " + std::strerror(errno));
  try {
    std::size_t written = 0;
    while (written < bytes.size()) {
      const ssize_t n = ::write(file_, bytes.data() + written, bytes.size() - written);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw Error(errc::link_failed, "cannot write operator " + name + " into memory: " + std::strerror(errno));
      written += static_cast<std::size_t>(n);
    }
    handle_ = dlopen(path_of(file_).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) {
      const char* const problem = dlerror();
      throw Error(errc::link_failed, "operator " + name + " does not load: " + (problem != nullptr ? problem : "?"));
    }
  } catch (...) {
    unload();
    throw;
  }
}

LoadedObject::~LoadedObject() { unload(); }

const void* LoadedObject::entry(const std::string& symbol) const {
  const void* const found = find(symbol);
  if (found == nullptr) throw Error(errc::link_failed, "operator " + symbol + " has no entry of that name");
  return found;
}

const void* LoadedObject::find(const std::string& symbol) const noexcept { return dlsym(handle_, symbol.c_str()); }

void LoadedObject::unload() {
  if (handle_ != nullptr) dlclose(handle_);
  if (file_ >= 0) ::close(file_);
}

}  // namespace dwell::backend
