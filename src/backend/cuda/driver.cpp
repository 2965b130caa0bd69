#include "backend/cuda/driver.hpp"

#include <dlfcn.h>

#define DWELL_STRINGIZE(name) #name

namespace dwell::backend {

namespace {

void* look_up(void* library, const std::string& file, const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) {
    throw Error(errc::device_unavailable, file + " has no function " + name +
                                              ": it is not NVIDIA's driver library, or is too old; install driver " +
                                              "550 or newer (CUDA " + cuda_version_text(Driver::kOldest) + ")");
  }
  return found;
}

// Returns the errc of a failure after which the device still works.
errc kind_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return errc::out_of_memory;
    case CUDA_ERROR_INVALID_HANDLE:  // the user's stream
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    case CUDA_ERROR_INVALID_VALUE: return errc::invalid_argument;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_MPS_CONNECTION_FAILED:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
    case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED: return errc::device_unavailable;
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
    case CUDA_ERROR_SHARED_OBJECT_INIT_FAILED:
    case CUDA_ERROR_NOT_FOUND: return errc::link_failed;
    case CUDA_ERROR_NOT_SUPPORTED: return errc::unsupported;
    default: return errc::device_lost;
  }
}

}  // namespace

std::string cuda_version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

const Driver& Driver::get() {
  static const Driver* const driver = new Driver("libcuda.so.1");
  return *driver;
}

Driver::Driver(const std::string& library) : file(library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    throw Error(errc::device_unavailable, "no NVIDIA driver: " + (reason != nullptr ? std::string(reason) : "cannot open " + library) +
                                              "; install driver 550 or newer (CUDA " + cuda_version_text(kOldest) + ")");
  }
  // Check the version first: it needs no cuInit, and explains more than a missing function.
  void* const version_of = look_up(handle, file, "cuDriverGetVersion");
  if (Dl_info place; dladdr(version_of, &place) != 0 && place.dli_fname != nullptr) file = place.dli_fname;
  const CUresult answer = reinterpret_cast<decltype(::cuDriverGetVersion)*>(version_of)(&version);
  if (answer == CUDA_SUCCESS && version < kOldest) {
    throw Error(errc::device_unavailable, file + " is a driver for CUDA " + cuda_version_text(version) + ", CUDA " +
                                              cuda_version_text(kOldest) + " is needed; install driver 550 or newer");
  }
#define DWELL_CUDA_LOOK_UP(name) this->name = reinterpret_cast<decltype(::name)*>(look_up(handle, file, DWELL_STRINGIZE(name)));
  DWELL_CUDA_FUNCTIONS(DWELL_CUDA_LOOK_UP)
#undef DWELL_CUDA_LOOK_UP
  const CUresult started = answer != CUDA_SUCCESS ? answer : cuInit(0);
  if (started != CUDA_SUCCESS) throw Error(errc::device_unavailable, file + " does not start: " + text(started));
}

std::string Driver::text(CUresult result) const {
  const char* name = nullptr;
  const char* sentence = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) return "CUDA error " + std::to_string(static_cast<int>(result));
  if (cuGetErrorString(result, &sentence) != CUDA_SUCCESS || sentence == nullptr) return name;
  return std::string(sentence) + " (" + name + ")";
}

void Driver::refuse_captured(CUstream stream, const char* why) const {
  if (is_captured(stream)) throw Error(errc::invalid_argument, std::string("the stream is being captured into a graph: ") + why);
}

void Driver::fail(CUresult result, const std::string& what) const { throw Error(kind_of(result), what + " failed: " + text(result)); }

}  // namespace dwell::backend
