#include "bench/cuda_peer.hpp"

#ifdef DWELL_WITH_CUDA

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>

#include "bench/cuda_chain.hpp"
#include "bench/cuda_kernels.hpp"
#include "bench/cuda_parts.hpp"
#include "bench/operators.hpp"

namespace dwell::bench {

namespace {

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

CUdevice device_of(const CudaDriver& driver, int ordinal) {
  CUdevice device = 0;
  DWELL_BENCH_CUDA(driver, cuDeviceGet, &device, ordinal);
  return device;
}

std::string arch_of(const CudaDriver& driver, CUdevice device) {
  int major = 0;
  int minor = 0;
  DWELL_BENCH_CUDA(driver, cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  DWELL_BENCH_CUDA(driver, cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

class PeerAdds final : public CudaAdds {
 public:
  PeerAdds(const CudaDriver& driver, const Kernels& kernels, std::size_t floats)
      : driver_(driver),
        kernels_(kernels),
        slices_(floats / Adds::kFloats),
        first_(driver, floats * sizeof(float)),
        second_(driver, floats * sizeof(float)),
        sums_(driver, floats * sizeof(float)),
        stream_(driver),
        chunk_(std::min<std::size_t>(floats, std::size_t{1} << 22U)) {
    for (std::size_t from = 0; from < floats; from += chunk_.size()) {
      fill_first(chunk_, from);
      CU(cuMemcpyHtoD, first_.address() + from * sizeof(float), chunk_.data(), chunk_.size() * sizeof(float));
      fill_second(chunk_, from);
      CU(cuMemcpyHtoD, second_.address() + from * sizeof(float), chunk_.data(), chunk_.size() * sizeof(float));
    }
    poison();  // waits for the copies above too
  }
  ~PeerAdds() override { drop_graph(); }
  PeerAdds(const PeerAdds&) = delete;
  PeerAdds& operator=(const PeerAdds&) = delete;

  std::size_t slices() const override { return slices_; }

  void launch(std::size_t task) override {
    const std::size_t at = offset(task);
    AddParameters parameters(first_.address() + at, second_.address() + at, sums_.address() + at);
    kernels_.launch(kernels_.add, kThreads, stream_.get(), parameters.list);
  }

  void synchronise() override { stream_.synchronise(); }

  double make_graph(std::size_t nodes) override {
    drop_graph();
    CU(cuGraphCreate, &graph_, 0);
    const std::size_t step = std::max<std::size_t>(slices_ / nodes, 1);
    for (std::size_t i = 0; i < nodes; ++i) {
      const std::size_t at = offset(i * step);
      AddParameters parameters(first_.address() + at, second_.address() + at, sums_.address() + at);
      const CUDA_KERNEL_NODE_PARAMS node = node_of(kernels_.add, parameters.list);
      CUgraphNode made = nullptr;
      CU(cuGraphAddKernelNode, &made, graph_, nullptr, 0, &node);
    }
    const Clock::time_point start = Clock::now();
    CU(cuGraphInstantiate, &executable_, graph_, 0);
    const double time = nanoseconds_since(start);
    CU(cuGraphUpload, executable_, stream_.get());
    synchronise();
    return time;
  }

  void replay() override {
    CU(cuGraphLaunch, executable_, stream_.get());
    synchronise();
  }

  void poison() override {
    fill_poison(chunk_);
    for (std::size_t from = 0; from < slices_ * Adds::kFloats; from += chunk_.size())
      CU(cuMemcpyHtoD, sums_.address() + from * sizeof(float), chunk_.data(), chunk_.size() * sizeof(float));
    // A copy from pageable memory may still be on its way when its call returns, and our stream does not wait for the default one.
    CU(cuStreamSynchronize, nullptr);
  }

  std::size_t wrong(std::size_t slices, std::size_t step) override {
    std::size_t wrong = 0;
    if (step == 1) {
      const std::size_t floats = slices * Adds::kFloats;
      for (std::size_t from = 0; from < floats; from += chunk_.size()) {
        const std::span<float> part(chunk_.data(), std::min(chunk_.size(), floats - from));
        CU(cuMemcpyDtoH, part.data(), sums_.address() + from * sizeof(float), part.size_bytes());
        wrong += count_wrong(part, from);
      }
      return wrong;
    }
    const std::span<float> slice(chunk_.data(), Adds::kFloats);
    for (std::size_t i = 0; i < slices; ++i) {
      const std::size_t at = offset(i * step);
      CU(cuMemcpyDtoH, slice.data(), sums_.address() + at, slice.size_bytes());
      wrong += count_wrong(slice, at / sizeof(float));
    }
    return wrong;
  }

 private:
  std::size_t offset(std::size_t task) const { return (task & (slices_ - 1)) * Adds::kFloats * sizeof(float); }

  void drop_graph() noexcept {
    if (executable_ != nullptr) driver_.cuGraphExecDestroy(executable_);
    if (graph_ != nullptr) driver_.cuGraphDestroy(graph_);
    executable_ = nullptr;
    graph_ = nullptr;
  }

  const CudaDriver& driver_;
  const Kernels& kernels_;
  std::size_t slices_;
  DeviceMemory first_;
  DeviceMemory second_;
  DeviceMemory sums_;
  Stream stream_;
  std::vector<float> chunk_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

class PeerPingPong final : public CudaPingPong {
 public:
  PeerPingPong(const CudaDriver& driver, const Kernels& kernels) : driver_(driver), stream_(driver) {
    void* memory = nullptr;
    CU(cuMemHostAlloc, &memory, kBytes, CU_MEMHOSTALLOC_DEVICEMAP);
    flags_ = static_cast<std::uint32_t*>(memory);
    std::fill_n(flags_, kBytes / sizeof(std::uint32_t), 0U);
    CUdeviceptr in = 0;
    CU(cuMemHostGetDevicePointer, &in, memory, 0);
    CUdeviceptr out = in + kAnswer * sizeof(std::uint32_t);
    void* parameters[] = {&in, &out};
    kernels.launch(kernels.ping_pong, 1, stream_.get(), parameters);
  }
  ~PeerPingPong() override {
    std::atomic_ref<std::uint32_t>(flags_[0]).store(~0U, std::memory_order_release);
    driver_.cuStreamSynchronize(stream_.get());
    driver_.cuMemFreeHost(flags_);
  }
  PeerPingPong(const PeerPingPong&) = delete;
  PeerPingPong& operator=(const PeerPingPong&) = delete;

  void round() override {
    ++round_;
    std::atomic_ref<std::uint32_t>(flags_[0]).store(round_, std::memory_order_release);
    const std::atomic_ref<std::uint32_t> answer(flags_[kAnswer]);
    for (std::uint64_t looks = 0; answer.load(std::memory_order_acquire) != round_; ++looks) {
      if (looks > kMostLooks) throw std::runtime_error("the kernel does not answer the flag");
    }
  }

 private:
  static constexpr std::size_t kBytes = 4096;
  static constexpr std::size_t kAnswer = 64;                   // on a line of its own
  static constexpr std::uint64_t kMostLooks = 4'000'000'000U;  // seconds

  const CudaDriver& driver_;
  Stream stream_;
  std::uint32_t* flags_ = nullptr;
  std::uint32_t round_ = 0;
};

class Peer final : public CudaPeer {
 public:
  explicit Peer(int ordinal) : driver_(CudaDriver::get()), device_(device_of(driver_, ordinal)) {
    CU(cuDevicePrimaryCtxRetain, &context_, device_);
    try {
      enter();
      cubin_ = compile_cuda_kernels(arch_of(driver_, device_));
      kernels_ = std::make_unique<Kernels>(driver_, cubin_);
      stream_ = std::make_unique<Stream>(driver_);
    } catch (...) {
      leave();
      throw;
    }
  }
  ~Peer() override { leave(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  std::string version() const override {
    int version = 0;
    CU(cuDriverGetVersion, &version);
    return version_text(version);
  }

  std::string bus() const override {
    char text[64] = {};
    CU(cuDeviceGetPCIBusId, text, sizeof(text), device_);
    return text;
  }

  std::span<const std::byte> cubin() const override { return cubin_; }

  void enter() override { CU(cuCtxSetCurrent, context_); }

  void warm_up() override {
    for (const Clock::time_point until = Clock::now() + std::chrono::milliseconds(100); Clock::now() < until;) launch_and_synchronise();
  }

  void launch_and_synchronise() override {
    kernels_->launch(kernels_->empty, kThreads, stream_->get(), nullptr);
    stream_->synchronise();
  }

  void compile_and_run(unsigned value) override {
    const std::string source = "extern \"C\" __global__ void dwell_bench_fresh(unsigned* to) { *to = " + std::to_string(value) + "; }\n";
    const std::vector<std::byte> fresh = compile_cuda(source, arch_of(driver_, device_));
    CUmodule module = nullptr;
    CU(cuModuleLoadData, &module, fresh.data());
    CUfunction function = nullptr;
    CU(cuModuleGetFunction, &function, module, "dwell_bench_fresh");
    const DeviceMemory memory(driver_, sizeof(unsigned));
    CUdeviceptr to = memory.address();
    void* parameters[] = {&to};
    kernels_->launch(function, 1, stream_->get(), parameters);
    stream_->synchronise();
    unsigned seen = 0;
    CU(cuMemcpyDtoH, &seen, to, sizeof(seen));
    CU(cuModuleUnload, module);
    if (seen != value) throw std::runtime_error("the kernel left a wrong value");
  }

  std::unique_ptr<CudaPingPong> ping_pong() override { return std::make_unique<PeerPingPong>(driver_, *kernels_); }

  std::unique_ptr<CudaAdds> adds(std::size_t floats) override { return std::make_unique<PeerAdds>(driver_, *kernels_, floats); }

  std::unique_ptr<CudaChain> chain(std::size_t nodes, bool adds) override { return make_cuda_chain(driver_, *kernels_, nodes, adds); }

  double copy_bandwidth(std::size_t bytes) override {
    constexpr int kTimes = 10;
    const DeviceMemory from(driver_, bytes);
    const DeviceMemory to(driver_, bytes);
    const auto copy = [&] { CU(cuMemcpyDtoDAsync, to.address(), from.address(), bytes, stream_->get()); };
    copy();
    stream_->synchronise();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kTimes; ++i) copy();
    stream_->synchronise();
    return 2.0 * kTimes * static_cast<double>(bytes) / nanoseconds_since(start);
  }

  std::vector<CudaCall> calls() override;

 private:
  void leave() noexcept {
    stream_.reset();
    kernels_.reset();
    driver_.cuCtxSetCurrent(nullptr);
    driver_.cuDevicePrimaryCtxRelease(device_);
  }

  const CudaDriver& driver_;
  CUdevice device_;
  CUcontext context_ = nullptr;
  std::vector<std::byte> cubin_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Stream> stream_;
};

// What the calls below work on.
struct CallState {
  explicit CallState(const CudaDriver& driver) : memory(driver, kBytes), stream(driver), pageable(kBytes), copied(kBytes) {
    for (std::size_t i = 0; i < kBytes; ++i) pageable[i] = static_cast<unsigned char>(i * 7 + i / 251);
  }
  static constexpr std::size_t kBytes = 1U << 20U;

  DeviceMemory memory;
  Stream stream;
  std::vector<unsigned char> pageable;
  std::vector<unsigned char> copied;
  CUdeviceptr address = 0;
  void* host = nullptr;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  CUstream other = nullptr;
  CUevent event = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  std::size_t stack = 0;
  unsigned value = 0;
};

std::vector<CudaCall> Peer::calls() {
  const auto state = std::make_shared<CallState>(driver_);
  CallState* const s = state.get();
  const auto nothing = [] {};
  const auto alloc = [this, s] { CU(cuMemAlloc, &s->address, CallState::kBytes); };
  const auto free = [this, s] { CU(cuMemFree, s->address); };
  const auto host_alloc = [this, s] { CU(cuMemHostAlloc, &s->host, CallState::kBytes, CU_MEMHOSTALLOC_DEVICEMAP); };
  const auto host_free = [this, s] { CU(cuMemFreeHost, s->host); };
  const auto pin = [this, s] { CU(cuMemHostRegister, s->pageable.data(), CallState::kBytes, CU_MEMHOSTREGISTER_DEVICEMAP); };
  const auto unpin = [this, s] { CU(cuMemHostUnregister, s->pageable.data()); };
  const auto load = [this, s] { CU(cuModuleLoadData, &s->module, cubin_.data()); };
  const auto unload = [this, s] { CU(cuModuleUnload, s->module); };
  const auto load_library = [this, s] { CU(cuLibraryLoadData, &s->library, cubin_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0); };
  const auto unload_library = [this, s] { CU(cuLibraryUnload, s->library); };
  const auto set = [this, s](CUfunction function) {
    CUdeviceptr to = s->memory.address();
    unsigned value = ++s->value;
    void* parameters[] = {&to, &value};
    kernels_->launch(function, 1, s->stream.get(), parameters);
    s->stream.synchronise();
  };
  const auto check_set = [this, s] {
    unsigned seen = 0;
    CU(cuMemcpyDtoH, &seen, s->memory.address(), sizeof(seen));
    if (seen != s->value) throw std::runtime_error("a kernel left " + std::to_string(seen) + " instead of " + std::to_string(s->value));
  };
  const auto upload = [this, s] { CU(cuMemcpyHtoD, s->memory.address(), s->pageable.data(), CallState::kBytes); };
  const auto download = [this, s] { CU(cuMemcpyDtoH, s->copied.data(), s->memory.address(), CallState::kBytes); };
  const auto check_copied = [s] {
    if (s->copied != s->pageable) throw std::runtime_error("what was copied to the device and back is not what it was");
    std::fill(s->copied.begin(), s->copied.end(), static_cast<unsigned char>(0));
  };

  std::vector<CudaCall> list;
  list.push_back({"cuMemAlloc", false, nothing, alloc, free});
  list.push_back({"cuMemFree", true, alloc, free, nothing});
  list.push_back({"cuMemAllocAsync + synchronise", false, nothing,
                  [this, s] {
                    CU(cuMemAllocAsync, &s->address, CallState::kBytes, s->stream.get());
                    s->stream.synchronise();
                  },
                  [this, s] {
                    CU(cuMemFreeAsync, s->address, s->stream.get());
                    s->stream.synchronise();
                  }});
  list.push_back({"cuMemHostAlloc", false, nothing, host_alloc, host_free});
  list.push_back({"cuMemFreeHost", true, host_alloc, host_free, nothing});
  list.push_back({"cuMemHostRegister", false, nothing, pin, unpin});
  list.push_back({"cuMemHostUnregister", true, pin, unpin, nothing});
  list.push_back({"cuModuleLoadData", true, nothing, load, [this, s, set, check_set, unload] {
                    CU(cuModuleGetFunction, &s->function, s->module, kKernelSet);
                    set(s->function);
                    check_set();
                    unload();
                  }});
  list.push_back({"cuModuleUnload", true, load, unload, nothing});
  list.push_back({"first launch of a kernel + synchronise", true,
                  [this, s, load] {
                    load();
                    CU(cuModuleGetFunction, &s->function, s->module, kKernelSet);
                  },
                  [s, set] { set(s->function); },
                  [check_set, unload] {
                    check_set();
                    unload();
                  }});
  list.push_back({"cuLibraryLoadData", true, nothing, load_library, unload_library});
  list.push_back({"cuKernelGetFunction", true,
                  [this, s, load_library] {
                    load_library();
                    CU(cuLibraryGetKernel, &s->kernel, s->library, kKernelSet);
                  },
                  [this, s] { CU(cuKernelGetFunction, &s->function, s->kernel); },
                  [s, set, check_set, unload_library] {
                    set(s->function);
                    check_set();
                    unload_library();
                  }});
  list.push_back({"cuLibraryUnload", true, load_library, unload_library, nothing});
  list.push_back({"cuCtxSynchronize", true, nothing, [this] { CU(cuCtxSynchronize); }, nothing});
  list.push_back({"cuCtxSetLimit(stack size)", true, [this, s] { CU(cuCtxGetLimit, &s->stack, CU_LIMIT_STACK_SIZE); },
                  [this, s] { CU(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, s->stack + 1024); },
                  [this, s] { CU(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, s->stack); }});
  list.push_back({"launch of a loaded kernel + synchronise", false, nothing, [this, set] { set(kernels_->set); }, check_set});
  list.push_back({"cuMemcpyHtoD, 1 MiB pageable", false, nothing, upload, [download, check_copied] {
                    download();
                    check_copied();
                  }});
  list.push_back({"cuMemcpyDtoH, 1 MiB pageable", false, upload, download, check_copied});
  list.push_back({"cuStreamCreate", false, nothing, [this, s] { CU(cuStreamCreate, &s->other, CU_STREAM_NON_BLOCKING); },
                  [this, s] { CU(cuStreamDestroy, s->other); }});
  list.push_back({"cuStreamDestroy", false, [this, s] { CU(cuStreamCreate, &s->other, CU_STREAM_NON_BLOCKING); },
                  [this, s] { CU(cuStreamDestroy, s->other); }, nothing});
  list.push_back({"event: create, record, synchronise, destroy", false, nothing,
                  [this, s] {
                    CU(cuEventCreate, &s->event, CU_EVENT_DEFAULT);
                    CU(cuEventRecord, s->event, s->stream.get());
                    CU(cuEventSynchronize, s->event);
                    CU(cuEventDestroy, s->event);
                  },
                  nothing});
  list.push_back({"graph of one kernel: instantiate, launch, synchronise", false,
                  [this, s] {
                    CUdeviceptr to = s->memory.address();
                    unsigned value = ++s->value;
                    void* parameters[] = {&to, &value};
                    CUDA_KERNEL_NODE_PARAMS node{};
                    node.func = kernels_->set;
                    node.gridDimX = node.gridDimY = node.gridDimZ = 1;
                    node.blockDimX = node.blockDimY = node.blockDimZ = 1;
                    node.kernelParams = static_cast<void**>(parameters);
                    CUgraphNode made = nullptr;
                    CU(cuGraphCreate, &s->graph, 0);
                    CU(cuGraphAddKernelNode, &made, s->graph, nullptr, 0, &node);
                  },
                  [this, s] {
                    CU(cuGraphInstantiate, &s->executable, s->graph, 0);
                    CU(cuGraphLaunch, s->executable, s->stream.get());
                    s->stream.synchronise();
                  },
                  [this, s, check_set] {
                    check_set();
                    CU(cuGraphExecDestroy, s->executable);
                    CU(cuGraphDestroy, s->graph);
                  }});
  // The state lives as long as the last of them.
  for (CudaCall& call : list) call.undo = [state, undo = std::move(call.undo)] { undo(); };
  return list;
}

}  // namespace

std::unique_ptr<CudaPeer> open_cuda_peer(int ordinal, std::string* why) {
  try {
    return std::make_unique<Peer>(ordinal);
  } catch (const std::runtime_error& problem) {
    *why = problem.what();
    return nullptr;
  }
}

std::shared_ptr<void> open_cuda_context(int ordinal, std::string* why) {
  try {
    const CudaDriver& driver_ = CudaDriver::get();
    const CUdevice device = device_of(driver_, ordinal);
    CUcontext context = nullptr;
    CU(cuDevicePrimaryCtxRetain, &context, device);
    CU(cuCtxSetCurrent, context);
    return {context, [&driver_, device](void*) {
              driver_.cuCtxSetCurrent(nullptr);
              driver_.cuDevicePrimaryCtxRelease(device);
            }};
  } catch (const std::runtime_error& problem) {
    *why = problem.what();
    return nullptr;
  }
}

CudaStart start_cuda(int ordinal, std::span<const std::byte> cubin) {
  const CudaDriver& driver_ = CudaDriver::get();
  const CUdevice device = device_of(driver_, ordinal);
  CudaStart start;
  CUcontext context = nullptr;
  CU(cuDevicePrimaryCtxRetain, &context, device);
  CU(cuCtxSetCurrent, context);
  start.context = Clock::now();
  const Kernels kernels(driver_, cubin);
  start.loaded = Clock::now();
  constexpr unsigned kValue = 4711;
  const DeviceMemory memory(driver_, sizeof(unsigned));
  CUdeviceptr to = memory.address();
  unsigned value = kValue;
  void* parameters[] = {&to, &value};
  kernels.launch(kernels.set, 1, nullptr, parameters);
  unsigned seen = 0;
  CU(cuMemcpyDtoH, &seen, to, sizeof(seen));
  start.done = Clock::now();
  if (seen != kValue) throw std::runtime_error("the kernel left a wrong value");
  return start;
}

}  // namespace dwell::bench

#else

#include <stdexcept>

namespace dwell::bench {

std::unique_ptr<CudaPeer> open_cuda_peer(int, std::string* why) {
  *why = "built without CUDA's headers";
  return nullptr;
}

std::shared_ptr<void> open_cuda_context(int, std::string* why) {
  *why = "built without CUDA's headers";
  return nullptr;
}

CudaStart start_cuda(int, std::span<const std::byte>) { throw std::runtime_error("built without CUDA's headers"); }

}  // namespace dwell::bench

#endif
