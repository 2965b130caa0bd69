#include "backend/cpu/loaded_operator.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <dwell/error.hpp>

namespace dwell::backend {

LoadedOperator::LoadedOperator(std::span<const std::byte> object, const std::string& symbol) {
  // From memory, not from a file: nobody else can put their bytes in between.
  const int file = memfd_create(symbol.c_str(), MFD_CLOEXEC);
  if (file < 0) throw Error(errc::link_failed, "cannot make a file in memory for operator " + symbol + ": " + std::strerror(errno));
  std::size_t written = 0;
  while (written < object.size()) {
    const ssize_t n = ::write(file, object.data() + written, object.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int why = errno;
      ::close(file);
      throw Error(errc::link_failed, "cannot write operator " + symbol + " into memory: " + std::strerror(why));
    }
    written += static_cast<std::size_t>(n);
  }
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const problem = handle_ == nullptr ? dlerror() : nullptr;
  ::close(file);
  if (handle_ == nullptr) throw Error(errc::link_failed, "operator " + symbol + " does not load: " + (problem != nullptr ? problem : "?"));
  entry_ = dlsym(handle_, symbol.c_str());
  if (entry_ == nullptr) {
    dlclose(handle_);
    throw Error(errc::link_failed, "operator " + symbol + " has no entry of that name");
  }
}

LoadedOperator::~LoadedOperator() {
  if (handle_ != nullptr) dlclose(handle_);
}

}  // namespace dwell::backend
