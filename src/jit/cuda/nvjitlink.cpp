#include "jit/cuda/nvjitlink.hpp"

#include <nvJitLink.h>

#include <algorithm>

namespace dwell::jit {

namespace {

CudaVersion nvjitlink_version(const DynamicLibrary& library) {
  unsigned major = 0;
  unsigned minor = 0;
  library.get<nvJitLinkResult(unsigned*, unsigned*)>("nvJitLinkVersion", errc::compiler_unavailable)(&major, &minor);
  return {static_cast<int>(major), static_cast<int>(minor)};
}

// One link; the destructor frees its handle.
class Session {
 public:
  Session(const DynamicLibrary& library, const std::string& arch, bool optimise) : library_(library) {
    const std::string target = "-arch=" + arch;
    // Turn off the linker's own cache: see Nvrtc::compile.
    const char* options[] = {target.c_str(), "-lto", "-verbose", "-Xptxas=-v", "-no-cache"};
    const auto create = at<nvJitLinkResult(nvJitLinkHandle*, std::uint32_t, const char**)>("nvJitLinkCreate");
    check(create(&handle_, optimise ? 5 : 1, options), "starting a link for " + arch);
  }
  ~Session() {
    if (handle_ != nullptr) at<nvJitLinkResult(nvJitLinkHandle*)>("nvJitLinkDestroy")(&handle_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void add(const NvJitLink::Input& input) {
    const auto function =
        at<nvJitLinkResult(nvJitLinkHandle, nvJitLinkInputType, const void*, std::size_t, const char*)>("nvJitLinkAddData");
    check(function(handle_, type_of(input.kind), input.bytes.data(), input.bytes.size(), input.name.c_str()), "reading " + input.name);
  }

  NvJitLink::Output complete() {
    check(at<nvJitLinkResult(nvJitLinkHandle)>("nvJitLinkComplete")(handle_), "linking");
    if (const std::string log = errors(); log.find_first_not_of(" \n\t") != std::string::npos) fail("linking", log);
    std::size_t size = 0;
    check(at<nvJitLinkResult(nvJitLinkHandle, std::size_t*)>("nvJitLinkGetLinkedCubinSize")(handle_, &size), "reading the image");
    Bytes bytes(size);
    check(at<nvJitLinkResult(nvJitLinkHandle, void*)>("nvJitLinkGetLinkedCubin")(handle_, bytes.data()), "reading the image");
    return {std::move(bytes), log_of("nvJitLinkGetInfoLogSize", "nvJitLinkGetInfoLog")};
  }

 private:
  static nvJitLinkInputType type_of(NvJitLink::Input::Kind kind) {
    switch (kind) {
      case NvJitLink::Input::Kind::ptx: return NVJITLINK_INPUT_PTX;
      case NvJitLink::Input::Kind::lto_ir: return NVJITLINK_INPUT_LTOIR;
      default: return NVJITLINK_INPUT_CUBIN;
    }
  }
  template <class Function>
  Function* at(const char* name) const {
    return library_.get<Function>(name, errc::compiler_unavailable);
  }
  std::string log_of(const char* sizes, const char* contents) const {
    if (handle_ == nullptr) return {};
    std::size_t size = 0;
    at<nvJitLinkResult(nvJitLinkHandle, std::size_t*)>(sizes)(handle_, &size);
    std::string log(size, '\0');
    if (size != 0) at<nvJitLinkResult(nvJitLinkHandle, char*)>(contents)(handle_, log.data());
    return log.substr(0, log.find('\0'));
  }
  std::string errors() const { return log_of("nvJitLinkGetErrorLogSize", "nvJitLinkGetErrorLog"); }
  [[noreturn]] static void fail(const std::string& what, const std::string& log) {
    throw Error(errc::link_failed, "nvJitLink: " + what + " failed:\n" + log);
  }
  void check(nvJitLinkResult result, const std::string& what) const {
    if (result == NVJITLINK_SUCCESS) return;
    const std::string log = errors();
    fail(what, log.empty() ? "error " + std::to_string(static_cast<int>(result)) : log);
  }

  const DynamicLibrary& library_;
  nvJitLinkHandle handle_ = nullptr;
};

}  // namespace

NvJitLink& NvJitLink::get() {
  static NvJitLink* const library = new NvJitLink(cuda_library_candidates("nvJitLink"));
  return *library;
}

NvJitLink::NvJitLink(const std::vector<std::string>& candidates)
    : library_(open_cuda_library("nvJitLink", "nvidia-nvjitlink", candidates, kOldestCuda, nvjitlink_version)),
      version_(nvjitlink_version(library_)) {}

NvJitLink::Output NvJitLink::link(const std::string& arch, std::span<const Input> inputs) {
  const Lock lock(mutex_);
  const auto is_ir = [](const Input& input) { return input.kind == Input::Kind::lto_ir; };
  Session session(library_, arch, std::any_of(inputs.begin(), inputs.end(), is_ir));
  for (const Input& input : inputs) session.add(input);
  return session.complete();
}

}  // namespace dwell::jit
