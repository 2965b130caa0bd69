#include "backend/cpu/loaded_operator.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <dwell/error.hpp>

namespace dwell::backend {

LoadedOperator::LoadedOperator(std::span<const std::byte> object, const std::string& symbol) {
  // From memory, not from a file: nobody else can put their bytes in between. The descriptor stays open as long as the object is
  // loaded, because the loader takes two objects with one path for the same.
  file_ = memfd_create(symbol.substr(0, 200).c_str(), MFD_CLOEXEC);
  if (file_ < 0) throw Error(errc::link_failed, "cannot make a file in memory for operator " + symbol + ": " + std::strerror(errno));
  try {
    std::size_t written = 0;
    while (written < object.size()) {
      const ssize_t n = ::write(file_, object.data() + written, object.size() - written);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw Error(errc::link_failed, "cannot write operator " + symbol + " into memory: " + std::strerror(errno));
      written += static_cast<std::size_t>(n);
    }
    const std::string path = "/proc/self/fd/" + std::to_string(file_);
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) {
      const char* const problem = dlerror();
      throw Error(errc::link_failed, "operator " + symbol + " does not load: " + (problem != nullptr ? problem : "?"));
    }
    entry_ = dlsym(handle_, symbol.c_str());
    if (entry_ == nullptr) throw Error(errc::link_failed, "operator " + symbol + " has no entry of that name");
  } catch (...) {
    unload();
    throw;
  }
}

LoadedOperator::~LoadedOperator() { unload(); }

void LoadedOperator::unload() {
  if (handle_ != nullptr) dlclose(handle_);
  if (file_ >= 0) ::close(file_);
}

}  // namespace dwell::backend
