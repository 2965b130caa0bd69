#include "bench/cuda_kernels.hpp"

#include <stdexcept>

#ifdef DWELL_WITH_CUDA

#include <dlfcn.h>
#include <nvJitLink.h>
#include <nvrtc.h>

#include <cstdlib>
#include <filesystem>

// The folder in which the build found NVIDIA's libraries; may be empty.
#ifndef DWELL_CUDA_LIBRARY_HINT
#define DWELL_CUDA_LIBRARY_HINT ""
#endif

namespace dwell::bench {

namespace {

namespace fs = std::filesystem;

// The add has the same steps as the operator in operators.hpp.
constexpr const char* kSource = R"(
extern "C" __global__ void dwell_bench_empty() {}

extern "C" __global__ void dwell_bench_set(unsigned* to, unsigned value) { *to = value; }

static __device__ __forceinline__ float4 plus(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

static __device__ __forceinline__ void add(const float* first, const float* second, float* sum, unsigned count) {
  const float4* const a = reinterpret_cast<const float4*>(first);
  const float4* const b = reinterpret_cast<const float4*>(second);
  float4* const c = reinterpret_cast<float4*>(sum);
  const unsigned fours = count / 4;
  unsigned i = threadIdx.x;
  for (; i + blockDim.x < fours; i += 2 * blockDim.x) {
    const float4 a0 = a[i], b0 = b[i], a1 = a[i + blockDim.x], b1 = b[i + blockDim.x];
    c[i] = plus(a0, b0);
    c[i + blockDim.x] = plus(a1, b1);
  }
  if (i < fours) c[i] = plus(a[i], b[i]);
}

extern "C" __global__ void __launch_bounds__(128) dwell_bench_add(const float* first, const float* second, float* sum, unsigned count) {
  add(first, second, sum, count);
}

// Programmatic dependent launch: lets the next kernel start early; it waits for the end of this one before it reads.
static __device__ __forceinline__ void overlap() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

extern "C" __global__ void dwell_bench_empty_overlapped() { overlap(); }

extern "C" __global__ void __launch_bounds__(128)
    dwell_bench_add_overlapped(const float* first, const float* second, float* sum, unsigned count) {
  overlap();
  add(first, second, sum, count);
}

// Implements Work::visit (graph_side.hpp).
extern "C" __global__ void dwell_bench_visit(unsigned* cells, unsigned node, unsigned a, unsigned b, unsigned c, unsigned d) {
  if (threadIdx.x != 0) return;
  const unsigned launches = cells[node];
  const unsigned counts[] = {cells[a], cells[b], cells[c], cells[d]};
  const unsigned rounds = cells[0];
  const bool correct = (a == 0 || counts[0] == launches + 1) && (b == 0 || counts[1] == launches + 1) &&
                       (c == 0 || counts[2] == launches + 1) && (d == 0 || counts[3] == launches + 1);
  unsigned busy = node;
  for (unsigned round = 0; round < rounds; ++round) {
    busy ^= busy << 13;
    busy ^= busy >> 17;
    busy ^= busy << 5;
  }
  cells[node] = correct && busy != 0 ? launches + 1 : 1u << 31;
}

// The barrier of cooperative groups' grid.sync(): the top bit flips when all blocks have arrived.
static __device__ __forceinline__ void sync_grid(unsigned* arrived) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned mine = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
    __threadfence();
    const unsigned before = atomicAdd(arrived, mine);
    unsigned now;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
    while (((before ^ now) & 0x80000000u) == 0);
  }
  __syncthreads();
}

static __device__ __forceinline__ void sweep_step(const unsigned* from, unsigned* to) {
  if (threadIdx.x != 0) return;
  const unsigned me = blockIdx.x, n = gridDim.x;
  to[me] = from[me == 0 ? n - 1 : me - 1] + from[me] * 3 + from[me + 1 == n ? 0 : me + 1];
}

extern "C" __global__ void dwell_bench_sweep(unsigned* even, unsigned* odd, unsigned steps, unsigned* barrier) {
  for (unsigned step = 0; step < steps; ++step) {
    if (step % 2 == 0)
      sweep_step(even, odd);
    else
      sweep_step(odd, even);
    sync_grid(barrier);
  }
}

extern "C" __global__ void dwell_bench_sweep_step_overlapped(const unsigned* from, unsigned* to) {
  overlap();
  sweep_step(from, to);
}

extern "C" __global__ void dwell_bench_ping_pong(const unsigned* in, unsigned* out) {
  unsigned seen = 0;
  for (;;) {
    unsigned value;
    do asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(in) : "memory");
    while (value == seen);
    seen = value;
    asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(out), "r"(seen) : "memory");
    if (seen == ~0U) return;
  }
}
)";

// Implements tree.hpp: each task is a kernel of one thread, complete when the kernels it launched are.
constexpr const char* kTreeSource = R"(
extern "C" __global__ void dwell_bench_tree(unsigned char* cells, unsigned first, unsigned count, unsigned mark, unsigned* failures) {
  cells[first] = static_cast<unsigned char>(mark);
  if (count == 1) return;
  const unsigned left = (count - 1) / 2;
  const cudaStream_t fire_and_forget = reinterpret_cast<cudaStream_t>(4);
  if (left != 0) dwell_bench_tree<<<1, 1, 0, fire_and_forget>>>(cells, first + 1, left, mark, failures);
  if (cudaGetLastError() != cudaSuccess) atomicAdd(failures, 1u);
  dwell_bench_tree<<<1, 1, 0, fire_and_forget>>>(cells, first + 1 + left, count - 1 - left, mark, failures);
  if (cudaGetLastError() != cudaSuccess) atomicAdd(failures, 1u);
}
)";

void* open_first(const std::vector<std::string>& candidates) {
  for (const std::string& candidate : candidates) {
    if (void* const library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL); library != nullptr) return library;
  }
  return nullptr;
}

// Returns the folders in which dwell looks for NVIDIA's compilers (see jit/cuda/cuda_library.hpp); "": the system's search path.
std::vector<std::string> compiler_folders() {
  std::vector<std::string> folders;
  if (const char* const set = secure_getenv("DWELL_CUDA_PATH"); set != nullptr && *set != 0)
    for (const char* const below : {"", "lib64", "lib"}) folders.push_back(fs::path(set) / below);
  if (constexpr std::string_view hint = DWELL_CUDA_LIBRARY_HINT; !hint.empty()) folders.emplace_back(hint);
  folders.emplace_back("");
  folders.emplace_back("/usr/local/cuda/lib64");
  return folders;
}

// Opens a library by its name without the version: "libnvrtc.so".
void* open_compiler(const std::string& name) {
  std::vector<std::string> candidates;
  for (const fs::path folder : compiler_folders())
    for (const char* const version : {".13", ".12"}) candidates.push_back(folder / (name + version));
  return open_first(candidates);
}

// Returns the folder of the library that has this function; empty if unknown.
fs::path folder_of(void* function) {
  Dl_info place{};
  if (dladdr(function, &place) == 0 || place.dli_fname == nullptr) return {};
  return fs::path(place.dli_fname).parent_path();
}

class Nvrtc {
 public:
  Nvrtc() : library_(open_compiler("libnvrtc.so")) {
    if (library_ == nullptr) throw std::runtime_error("NVRTC cannot be opened");
    // Open the builtins now: NVRTC opens them by their bare name, which works if the library is open already.
    int major = 0;
    int minor = 0;
    check(find<decltype(nvrtcVersion)>("nvrtcVersion")(&major, &minor), "nvrtcVersion");
    open_first({folder() / ("libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor))});
  }

  fs::path folder() const { return folder_of(dlsym(library_, "nvrtcVersion")); }

  template <class Function>
  Function* find(const char* name) const {
    auto* const found = reinterpret_cast<Function*>(dlsym(library_, name));
    if (found == nullptr) throw std::runtime_error(std::string("NVRTC has no function ") + name);
    return found;
  }

  void check(nvrtcResult result, const char* what) const {
    if (result != NVRTC_SUCCESS) throw std::runtime_error(std::string(what) + " failed: NVRTC error " + std::to_string(result));
  }

 private:
  void* library_;  // never closed: its exit handlers may run before ours
};

#define DWELL_BENCH_NVRTC(function, ...) nvrtc.check(nvrtc.find<decltype(function)>(#function)(__VA_ARGS__), #function)

const Nvrtc& open_nvrtc() {
  static const Nvrtc nvrtc;
  return nvrtc;
}

std::vector<std::byte> compile(const std::string& source, const std::string& arch, bool relocatable) {
  const Nvrtc& nvrtc = open_nvrtc();
  nvrtcProgram program = nullptr;
  DWELL_BENCH_NVRTC(nvrtcCreateProgram, &program, source.c_str(), "dwell_bench.cu", 0, nullptr, nullptr);
  const std::string target = "--gpu-architecture=" + arch;
  const char* const options[] = {target.c_str(), "--std=c++17", relocatable ? "--relocatable-device-code=true" : ""};
  if (nvrtc.find<decltype(nvrtcCompileProgram)>("nvrtcCompileProgram")(program, relocatable ? 3 : 2, options) != NVRTC_SUCCESS) {
    std::size_t size = 0;
    DWELL_BENCH_NVRTC(nvrtcGetProgramLogSize, program, &size);
    std::string log(size, '\0');
    DWELL_BENCH_NVRTC(nvrtcGetProgramLog, program, log.data());
    throw std::runtime_error("the kernels of the CUDA peers do not compile: " + log);
  }
  std::size_t size = 0;
  DWELL_BENCH_NVRTC(nvrtcGetCUBINSize, program, &size);
  std::vector<std::byte> cubin(size);
  DWELL_BENCH_NVRTC(nvrtcGetCUBIN, program, reinterpret_cast<char*>(cubin.data()));
  DWELL_BENCH_NVRTC(nvrtcDestroyProgram, &program);
  return cubin;
}

// Links a relocatable cubin with CUDA's device runtime.
std::vector<std::byte> link_with_device_runtime(const std::vector<std::byte>& cubin, const std::string& arch) {
  void* const library = open_compiler("libnvJitLink.so");
  if (library == nullptr) throw std::runtime_error("nvJitLink cannot be opened");
  std::string runtime;
  std::vector<std::string> folders = compiler_folders();
  folders.insert(folders.begin(), open_nvrtc().folder());
  for (const fs::path folder : folders) {
    if (runtime.empty() && !folder.empty() && fs::exists(folder / "libcudadevrt.a")) runtime = folder / "libcudadevrt.a";
  }
  if (runtime.empty()) throw std::runtime_error("there is no libcudadevrt.a beside CUDA's compilers");
  nvJitLinkHandle link = nullptr;
  // Use the names without a version: those in the header are inline functions.
  const auto call = [&]<class... Arguments>(const char* name, Arguments... arguments) {
    auto* const function = reinterpret_cast<nvJitLinkResult (*)(Arguments...)>(dlsym(library, name));
    if (function == nullptr || function(arguments...) != NVJITLINK_SUCCESS)
      throw std::runtime_error(std::string("linking the tree of the CUDA peer failed: ") + name);
  };
  const std::string target = "-arch=" + arch;
  const char* options[] = {target.c_str()};
  call("nvJitLinkCreate", &link, std::uint32_t{1}, static_cast<const char**>(options));
  call("nvJitLinkAddData", link, NVJITLINK_INPUT_CUBIN, static_cast<const void*>(cubin.data()), cubin.size(), "dwell_bench_tree");
  call("nvJitLinkAddFile", link, NVJITLINK_INPUT_LIBRARY, runtime.c_str());
  call("nvJitLinkComplete", link);
  std::size_t size = 0;
  call("nvJitLinkGetLinkedCubinSize", link, &size);
  std::vector<std::byte> linked(size);
  call("nvJitLinkGetLinkedCubin", link, static_cast<void*>(linked.data()));
  call("nvJitLinkDestroy", &link);
  return linked;
}

}  // namespace

std::vector<std::byte> compile_cuda_kernels(const std::string& arch) { return compile_cuda(kSource, arch); }
std::vector<std::byte> compile_cuda(const std::string& source, const std::string& arch) { return compile(source, arch, false); }
std::vector<std::byte> compile_cuda_tree(const std::string& arch) {
  return link_with_device_runtime(compile(kTreeSource, arch, true), arch);
}

}  // namespace dwell::bench

#else

namespace dwell::bench {

std::vector<std::byte> compile_cuda_kernels(const std::string& arch) { return compile_cuda({}, arch); }
std::vector<std::byte> compile_cuda_tree(const std::string& arch) { return compile_cuda({}, arch); }
std::vector<std::byte> compile_cuda(const std::string&, const std::string&) { throw std::runtime_error("built without CUDA's headers"); }

}  // namespace dwell::bench

#endif
