#include "runtime/collect/collect_kernel.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "jit/source/embedded.hpp"

namespace dwell::runtime {

namespace {

// A program has one kernel, so that what marks objects needs no more registers than that takes. 12 groups a multiprocessor: 40 registers a
// thread, which are free beside the loop.
constexpr const char* kText = R"(#include "device/heap_collect.hpp"
#include "device/heap_context.hpp"

extern "C" __global__ void __launch_bounds__(dwell::kGroupThreads, 12)
dwell_@(dwell::u64 heap, dwell::u64 arena, dwell::u64 first, dwell::u64 end, const dwell::u32* units, dwell::u64 unit_count,
        dwell::u64* told, dwell::u32 verb, dwell::u32 ticks) {
  __shared__ dwell::device::Context context;
  for (dwell::u32 word = threadIdx.x; word < sizeof(context) / 4; word += dwell::kGroupThreads)
    reinterpret_cast<dwell::u32*>(&context)[word] = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    context.arena = arena;
    dwell::device::heap::begin(&context, heap, 0);
  }
  __syncthreads();
  dwell::device::heap::@(&context, {verb, blockIdx.x, gridDim.x, ticks, first, end, units, unit_count, told});
}
)";
constexpr std::uint32_t kThreads = 128;  // kGroupThreads on CUDA

// Makes room for `bytes` of host memory that a device reads or writes.
void hold(backend::Backend& backend, std::unique_ptr<backend::Allocation>* memory, std::size_t bytes) {
  if (*memory == nullptr || (*memory)->bytes() < bytes) *memory = backend.allocate_host(std::max<std::size_t>(bytes, 4096));
}

}  // namespace

Source CollectKernel::source(Work work) {
  const std::string name = work == Work::collect ? "collect" : "move_objects";
  std::string text;
  for (const char each : std::string_view(kText)) each == '@' ? text += name : text += each;
  return Source(text, "dwell/heap_" + name + ".cu");
}

CompileOptions CollectKernel::options() {
  CompileOptions options{.flags = {"--device-as-default-execution-space"}};
  // The loop's own headers, which operators lack.
  for (const jit::EmbeddedFile& file : jit::embedded_headers())
    if (!file.is_for_operators()) options.headers[std::string(file.name)] = std::string(file.text);
  return options;
}

CollectKernel::~CollectKernel() { drop(); }

void CollectKernel::drop() noexcept {
  module_ = nullptr;
  if (stream_ != nullptr) kernels_.backend.drop_stream(std::exchange(stream_, nullptr));
}

void CollectKernel::prepare() {
  if (module_ == nullptr) module_ = kernels_.compile(source(work_), options());
}

void CollectKernel::run(const Part& part, std::uint32_t groups, std::uint64_t heap, std::uint64_t arena, std::span<std::uint64_t> told) {
  prepare();
  if (stream_ == nullptr) stream_ = kernels_.backend.make_stream();
  hold(kernels_.backend, &told_, told.size_bytes());
  hold(kernels_.backend, &units_, part.units.size_bytes());
  if (!part.units.empty()) std::memcpy(units_->host(), part.units.data(), part.units.size_bytes());
  const std::uint64_t units = units_->device();
  const std::uint64_t count = part.units.size();
  const std::uint64_t result = told_->device();
  constexpr Parameter kNumber = detail::kernel_parameter<std::uint64_t>();
  constexpr Parameter kWord = detail::kernel_parameter<std::uint32_t>();
  const detail::LaunchArgument arguments[] = {{kNumber, &heap, nullptr},
                                              {kNumber, &arena, nullptr},
                                              {kNumber, &part.first, nullptr},
                                              {kNumber, &part.end, nullptr},
                                              {detail::kernel_parameter<const std::uint32_t*>(), &units, nullptr},
                                              {kNumber, &count, nullptr},
                                              {detail::kernel_parameter<std::uint64_t*>(), &result, nullptr},
                                              {kWord, &part.verb, nullptr},
                                              {kWord, &part.ticks, nullptr}};
  kernels_.run(module_, LaunchConfig{.grid = {groups}, .block = {kThreads}, .stream = stream_}, arguments);
  std::memcpy(told.data(), told_->host(), told.size_bytes());
}

}  // namespace dwell::runtime
