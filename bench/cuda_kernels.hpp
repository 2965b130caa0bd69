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

// Of nodes of a graph with programmatic dependent launch.
inline constexpr const char* kKernelEmptyOverlapped = "dwell_bench_empty_overlapped";  // as kKernelEmpty
inline constexpr const char* kKernelAddOverlapped = "dwell_bench_add_overlapped";      // as kKernelAdd
// Of nodes that Work::visit describes: cell of the node, and of four predecessors, 0 for none.
inline constexpr const char* kKernelVisit = "dwell_bench_visit";  // (unsigned* cells, unsigned node, unsigned a, ... unsigned d)
// Of CudaSweep: all steps, launched cooperatively, and one, a node of a graph.
inline constexpr const char* kKernelSweep = "dwell_bench_sweep";  // (unsigned* even, unsigned* odd, unsigned steps, unsigned* barrier)
inline constexpr const char* kKernelSweepStepOverlapped = "dwell_bench_sweep_step_overlapped";  // (const unsigned* from, unsigned* to)

// Compiles them with NVRTC for an architecture ("sm_90"). Needs no GPU. Throws std::runtime_error.
std::vector<std::byte> compile_cuda_kernels(const std::string& arch);
// The kernel of CudaTree, linked with CUDA's device runtime: needs nvJitLink and libcudadevrt.a, which CUDA's compilers bring.
inline constexpr const char* kKernelTree = "dwell_bench_tree";  // (unsigned char* cells, unsigned first, unsigned count, unsigned mark,
                                                                //  unsigned* failures)
std::vector<std::byte> compile_cuda_tree(const std::string& arch);
// The same as the first for any source.
std::vector<std::byte> compile_cuda(const std::string& source, const std::string& arch);

}  // namespace dwell::bench
