// Compiles one header alone with NVRTC, like the resident loop and operators. Needs no GPU.
//   nvrtc_check [NVRTC OPTION...] HEADER
#include <dlfcn.h>
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// The newest library in the toolkit's folder with this prefix.
std::string find_library(const std::string& stem) {
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator(DWELL_CUDA_LIBRARY_HINT)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(stem) && name.find(".alt.") == std::string::npos && entry.path().string() > found) found = entry.path().string();
  }
  if (found.empty()) throw std::runtime_error(stem + " is not in " DWELL_CUDA_LIBRARY_HINT);
  return found;
}

void* open(const std::string& stem) {
  void* library = dlopen(find_library(stem).c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return library;
}

template <class Function>
Function* resolve(void* library, const char* name) {
  void* address = dlsym(library, name);
  if (address == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function*>(address);
}

int compile(const std::string& header, const std::vector<const char*>& options) {
  // NVRTC opens its builtins by their bare name, so they must already be loaded.
  open("libnvrtc-builtins.so");
  void* nvrtc = open("libnvrtc.so");
  const auto create = resolve<decltype(nvrtcCreateProgram)>(nvrtc, "nvrtcCreateProgram");
  const auto compile_program = resolve<decltype(nvrtcCompileProgram)>(nvrtc, "nvrtcCompileProgram");
  const auto log_size = resolve<decltype(nvrtcGetProgramLogSize)>(nvrtc, "nvrtcGetProgramLogSize");
  const auto get_log = resolve<decltype(nvrtcGetProgramLog)>(nvrtc, "nvrtcGetProgramLog");
  const auto describe = resolve<decltype(nvrtcGetErrorString)>(nvrtc, "nvrtcGetErrorString");

  const std::string source = "#include <" + header + ">\n";
  nvrtcProgram program = nullptr;
  if (const nvrtcResult result = create(&program, source.c_str(), "alone.cu", 0, nullptr, nullptr); result != NVRTC_SUCCESS) {
    throw std::runtime_error(describe(result));
  }
  const nvrtcResult result = compile_program(program, static_cast<int>(options.size()), options.data());
  std::size_t size = 0;
  log_size(program, &size);
  std::string log(size, '\0');
  get_log(program, log.data());
  if (size > 1) std::fprintf(stderr, "%s\n", log.c_str());
  if (result != NVRTC_SUCCESS) std::fprintf(stderr, "nvrtc_check: %s: %s\n", header.c_str(), describe(result));
  return result == NVRTC_SUCCESS && size <= 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: nvrtc_check [NVRTC OPTION...] HEADER\n");
    return 2;
  }
  std::vector<const char*> options = {"--gpu-architecture=compute_90", "--relocatable-device-code=true"};
  options.insert(options.end(), argv + 1, argv + argc - 1);
  try {
    return compile(argv[argc - 1], options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nvrtc_check: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
