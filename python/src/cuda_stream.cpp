#include "cuda_stream.hpp"

#include <dlfcn.h>

#include <string>

#include <dwell/error.hpp>

namespace dwell::python {

namespace {

// The driver's own signatures, of which no header is needed here: CUresult and CUdevice are ints, contexts and streams are pointers.
struct Driver {
  int (*device_get)(int*, int) = nullptr;
  int (*context_retain)(void**, int) = nullptr;
  int (*context_release)(int) = nullptr;
  int (*context_push)(void*) = nullptr;
  int (*context_pop)(void**) = nullptr;
  int (*stream_synchronize)(void*) = nullptr;

  Driver() {
    // Stays open: the runtime's own handle does too.
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw Error(errc::device_unavailable, "libcuda.so.1 cannot be opened", {"file", "libcuda.so.1"});
    find(library, "cuDeviceGet", device_get);
    find(library, "cuDevicePrimaryCtxRetain", context_retain);
    find(library, "cuDevicePrimaryCtxRelease_v2", context_release);
    find(library, "cuCtxPushCurrent_v2", context_push);
    find(library, "cuCtxPopCurrent_v2", context_pop);
    find(library, "cuStreamSynchronize", stream_synchronize);
  }

 private:
  template <class Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) throw Error(errc::device_unavailable, std::string("libcuda.so.1 has no ") + name, {"file", "libcuda.so.1"});
  }
};

void check(int result, const char* call) {
  if (result != 0)
    throw Error(errc::device_lost,
                std::string(call) + " failed with CUDA error " + std::to_string(result) + " while waiting for the stream of an array");
}

}  // namespace

void wait_for_stream(int ordinal, std::uintptr_t stream) {
  static const Driver driver;
  int device = 0;
  void* context = nullptr;
  check(driver.device_get(&device, ordinal), "cuDeviceGet");
  check(driver.context_retain(&context, device), "cuDevicePrimaryCtxRetain");
  int result = driver.context_push(context);
  if (result == 0) {
    result = driver.stream_synchronize(reinterpret_cast<void*>(stream));
    void* popped = nullptr;
    static_cast<void>(driver.context_pop(&popped));
  }
  static_cast<void>(driver.context_release(device));
  check(result, "cuStreamSynchronize");
}

}  // namespace dwell::python
