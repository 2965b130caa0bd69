#include "jit/cuda/nvrtc.hpp"

#include <nvrtc.h>

namespace dwell::jit {

namespace {

CudaVersion nvrtc_version(const DynamicLibrary& library) {
  CudaVersion version;
  library.get<decltype(nvrtcVersion)>("nvrtcVersion", errc::compiler_unavailable)(&version.major, &version.minor);
  return version;
}

}  // namespace

// The NVRTC functions that a compilation uses, looked up in `library`.
struct Nvrtc::Functions {
  explicit Functions(const DynamicLibrary& from) : library(from) {}

  template <class Function>
  Function* at(const char* name) const {
    return library.get<Function>(name, errc::compiler_unavailable);
  }
  void check(nvrtcResult result, const char* what) const {
    if (result == NVRTC_SUCCESS) return;
    throw Error(errc::compile_failed,
                std::string("NVRTC: ") + what + " failed: " + at<decltype(nvrtcGetErrorString)>("nvrtcGetErrorString")(result));
  }

  const DynamicLibrary& library;
};

#define DWELL_NVRTC(name) functions.at<decltype(name)>(#name)

const Nvrtc& Nvrtc::get() {
  static const Nvrtc* const library = new Nvrtc(cuda_library_candidates("nvrtc"));
  return *library;
}

Nvrtc::Nvrtc(const std::vector<std::string>& candidates)
    : library_(open_cuda_library("NVRTC", "nvidia-cuda-nvrtc", candidates, kOldestCuda, nvrtc_version)), version_(nvrtc_version(library_)) {
  // Open this library now. NVRTC opens it by name at the first compilation; in a folder that the loader does not search, that works only if
  // it is open already.
  if (const auto file = builtins_file(); !file.empty())
    builtins_.emplace_back(file, DynamicLibrary::Scope::global, errc::compiler_unavailable);
}

std::filesystem::path Nvrtc::builtins_file() const {
  const auto file = library_.file().parent_path() / ("libnvrtc-builtins.so." + version_.text());
  std::error_code error;
  return std::filesystem::exists(file, error) ? file : std::filesystem::path();
}

std::filesystem::path Nvrtc::include_folder() const {
  const auto folder = library_.file().parent_path();
  // A toolkit has lib64 or targets/x86_64-linux/lib, a package has lib; each has include next to it.
  for (const auto& candidate : {folder.parent_path() / "include", folder.parent_path().parent_path().parent_path() / "include"}) {
    std::error_code error;
    if (std::filesystem::exists(candidate / "cuda_fp16.h", error)) return candidate;
  }
  return {};
}

std::vector<int> Nvrtc::architectures() const {
  const Functions functions(library_);
  int count = 0;
  functions.check(DWELL_NVRTC(nvrtcGetNumSupportedArchs)(&count), "counting architectures");
  std::vector<int> list(static_cast<std::size_t>(count));
  functions.check(DWELL_NVRTC(nvrtcGetSupportedArchs)(list.data()), "listing architectures");
  return list;
}

NvrtcResult Nvrtc::compile(const std::string& text, const std::string& file, std::span<const Header> headers,
                           const std::vector<std::string>& options, Form form, std::span<const std::string> expressions) const {
  const Functions functions(library_);
  std::vector<const char*> texts;
  std::vector<const char*> names;
  for (const Header& header : headers) {
    texts.push_back(header.text);
    names.push_back(header.name);
  }
  struct Program {
    const Functions& functions;
    nvrtcProgram handle = nullptr;
    ~Program() {
      if (handle != nullptr) DWELL_NVRTC(nvrtcDestroyProgram)(&handle);
    }
  } program{functions};
  functions.check(DWELL_NVRTC(nvrtcCreateProgram)(&program.handle, text.c_str(), file.c_str(), static_cast<int>(headers.size()),
                                                  texts.data(), names.data()),
                  "creating a program");
  for (const std::string& expression : expressions)
    functions.check(DWELL_NVRTC(nvrtcAddNameExpression)(program.handle, expression.c_str()), "adding a name expression");

  std::vector<const char*> arguments;
  for (const std::string& option : options) arguments.push_back(option.c_str());
  // Turn off NVRTC's own cache, which it uses if there is a driver. Its key leaves out -maxrregcount, ftz, prec-div and prec-sqrt (13.0),
  // and it returns no assembler log.
  if (version_ >= CudaVersion{12, 9}) arguments.push_back("--no-cache");
  const nvrtcResult outcome = DWELL_NVRTC(nvrtcCompileProgram)(program.handle, static_cast<int>(arguments.size()), arguments.data());
  if (outcome != NVRTC_ERROR_COMPILATION && outcome != NVRTC_ERROR_INVALID_OPTION) functions.check(outcome, "compiling");

  NvrtcResult result;
  std::size_t size = 0;
  functions.check(DWELL_NVRTC(nvrtcGetProgramLogSize)(program.handle, &size), "reading the log");
  result.log.resize(size);
  functions.check(DWELL_NVRTC(nvrtcGetProgramLog)(program.handle, result.log.data()), "reading the log");
  while (!result.log.empty() && result.log.back() == '\0') result.log.pop_back();
  if (outcome == NVRTC_ERROR_INVALID_OPTION) {
    throw Error(errc::invalid_argument, "NVRTC " + version_.text() + " does not take these options:\n" + result.log);
  }
  if (outcome != NVRTC_SUCCESS) return result;

  const auto read = [&](auto* size_of, auto* bytes_of) {
    functions.check(size_of(program.handle, &size), "reading the code");
    result.bytes.resize(size);
    functions.check(bytes_of(program.handle, reinterpret_cast<char*>(result.bytes.data())), "reading the code");
  };
  if (form == Form::lto) {
    read(DWELL_NVRTC(nvrtcGetLTOIRSize), DWELL_NVRTC(nvrtcGetLTOIR));
  } else {
    read(DWELL_NVRTC(nvrtcGetCUBINSize), DWELL_NVRTC(nvrtcGetCUBIN));
    functions.check(DWELL_NVRTC(nvrtcGetPTXSize)(program.handle, &size), "reading the PTX");
    result.ptx.resize(size);
    functions.check(DWELL_NVRTC(nvrtcGetPTX)(program.handle, result.ptx.data()), "reading the PTX");
    while (!result.ptx.empty() && result.ptx.back() == '\0') result.ptx.pop_back();
  }
  for (const std::string& expression : expressions) {
    const char* symbol = nullptr;  // owned by the program
    functions.check(DWELL_NVRTC(nvrtcGetLoweredName)(program.handle, expression.c_str(), &symbol), "looking up a name expression");
    result.lowered.emplace_back(symbol);
  }
  result.ok = true;
  return result;
}

}  // namespace dwell::jit
