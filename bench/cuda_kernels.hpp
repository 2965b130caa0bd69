// The kernels of the CUDA peers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dwell::bench {

// Names of the kernels, extern "C".
inline constexpr const char* kKernelEmpty = "dwell_bench_empty";         // ()
inline constexpr const char* kKernelAdd = "dwell_bench_add";             // (const float*, const float*, float*, unsigned count)
inline constexpr const char* kKernelSet = "dwell_bench_set";             // (unsigned* to, unsigned value)
inline constexpr const char* kKernelPingPong = "dwell_bench_ping_pong";  // (const unsigned* in, unsigned* out): until in is ~0

// For nodes of a graph with programmatic dependent launch.
inline constexpr const char* kKernelEmptyOverlapped = "dwell_bench_empty_overlapped";  // as kKernelEmpty
inline constexpr const char* kKernelAddOverlapped = "dwell_bench_add_overlapped";      // as kKernelAdd
// For nodes of Work::visit: the node's cell, and those of four predecessors, 0 for none.
inline constexpr const char* kKernelVisit = "dwell_bench_visit";  // (unsigned* cells, unsigned node, unsigned a, ... unsigned d)
// For CudaSweep: all steps in a cooperative launch; one step as a node of a graph.
inline constexpr const char* kKernelSweep = "dwell_bench_sweep";  // (unsigned* even, unsigned* odd, unsigned steps, unsigned* barrier)
inline constexpr const char* kKernelSweepStepOverlapped = "dwell_bench_sweep_step_overlapped";  // (const unsigned* from, unsigned* to)

// Compiles the kernels with NVRTC for an architecture ("sm_90"). Needs no GPU. Throws std::runtime_error.
std::vector<std::byte> compile_cuda_kernels(const std::string& arch);
// The kernel of CudaTree, linked with CUDA's device runtime. Needs nvJitLink and libcudadevrt.a, which come with CUDA's compilers.
inline constexpr const char* kKernelTree = "dwell_bench_tree";  // (unsigned char* cells, unsigned first, unsigned count, unsigned mark,
                                                                //  unsigned* failures)
std::vector<std::byte> compile_cuda_tree(const std::string& arch);
// Compiles any source, as compile_cuda_kernels.
std::vector<std::byte> compile_cuda(const std::string& source, const std::string& arch);

}  // namespace dwell::bench
