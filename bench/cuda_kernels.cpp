#include "bench/cuda_kernels.hpp"

#include <stdexcept>

#ifdef DWELL_WITH_CUDA

#include <dlfcn.h>
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

// The add does what the operator in operators.hpp does, in the same steps.
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

// Programmatic dependent launch: the next kernel comes as soon as this one has started, and waits for its end before it reads.
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

// What Work::visit says.
extern "C" __global__ void dwell_bench_visit(unsigned* cells, unsigned node, unsigned a, unsigned b, unsigned c, unsigned d) {
  if (threadIdx.x != 0) return;
  const unsigned launches = cells[node];
  const unsigned counts[] = {cells[a], cells[b], cells[c], cells[d]};
  const unsigned rounds = cells[0];
  const bool right = (a == 0 || counts[0] == launches + 1) && (b == 0 || counts[1] == launches + 1) && (c == 0 || counts[2] == launches + 1) &&
               (d == 0 || counts[3] == launches + 1);
  unsigned busy = node;
  for (unsigned round = 0; round < rounds; ++round) {
    busy ^= busy << 13;
    busy ^= busy >> 17;
    busy ^= busy << 5;
  }
  cells[node] = right && busy != 0 ? launches + 1 : 1u << 31;
}

// The barrier of cooperative groups' grid.sync(): arrivals turn over the top bit when all have come.
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

void* open_first(const std::vector<std::string>& candidates) {
  for (const std::string& candidate : candidates) {
    if (void* const library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL); library != nullptr) return library;
  }
  return nullptr;
}

// NVRTC, from the places where the library itself looks (see jit/cuda/cuda_library.hpp).
void* open_nvrtc() {
  std::vector<std::string> folders;
  if (const char* const set = secure_getenv("DWELL_CUDA_PATH"); set != nullptr && *set != 0)
    for (const char* const below : {"", "lib64", "lib"}) folders.push_back(fs::path(set) / below);
  if (constexpr std::string_view hint = DWELL_CUDA_LIBRARY_HINT; !hint.empty()) folders.emplace_back(hint);
  std::vector<std::string> candidates;
  const auto add = [&](const fs::path& folder) {
    for (const char* const name : {"libnvrtc.so.13", "libnvrtc.so.12"}) candidates.push_back(folder / name);
  };
  for (const std::string& folder : folders) add(folder);
  add("");
  add("/usr/local/cuda/lib64");
  return open_first(candidates);
}

class Nvrtc {
 public:
  Nvrtc() : library_(open_nvrtc()) {
    if (library_ == nullptr) throw std::runtime_error("NVRTC cannot be opened");
    // NVRTC opens its builtins by their bare name: a library that is open already is found everywhere.
    int major = 0;
    int minor = 0;
    check(find<decltype(nvrtcVersion)>("nvrtcVersion")(&major, &minor), "nvrtcVersion");
    Dl_info place{};
    if (dladdr(dlsym(library_, "nvrtcVersion"), &place) != 0 && place.dli_fname != nullptr) {
      const std::string name = "libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor);
      open_first({fs::path(place.dli_fname).parent_path() / name});
    }
  }

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

}  // namespace

std::vector<std::byte> compile_cuda_kernels(const std::string& arch) { return compile_cuda(kSource, arch); }

std::vector<std::byte> compile_cuda(const std::string& source, const std::string& arch) {
  static const Nvrtc nvrtc;
  nvrtcProgram program = nullptr;
  DWELL_BENCH_NVRTC(nvrtcCreateProgram, &program, source.c_str(), "dwell_bench.cu", 0, nullptr, nullptr);
  const std::string target = "--gpu-architecture=" + arch;
  const char* const options[] = {target.c_str(), "--std=c++17"};
  if (nvrtc.find<decltype(nvrtcCompileProgram)>("nvrtcCompileProgram")(program, 2, options) != NVRTC_SUCCESS) {
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

}  // namespace dwell::bench

#else

namespace dwell::bench {

std::vector<std::byte> compile_cuda_kernels(const std::string& arch) { return compile_cuda({}, arch); }
std::vector<std::byte> compile_cuda(const std::string&, const std::string&) { throw std::runtime_error("built without CUDA's headers"); }

}  // namespace dwell::bench

#endif
