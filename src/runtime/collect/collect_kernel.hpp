// The parts of collections and moves on a GPU: kernels beside the loop do them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include <dwell/compile_options.hpp>
#include <dwell/kernel.hpp>
#include <dwell/operator.hpp>

#include "backend/backend.hpp"

namespace dwell::detail {
struct ModuleState;
}

namespace dwell::runtime {

// Tasks of the loop would wait for those before them in the ring, which may wait for the collection. Called by one thread at a time.
class CollectKernel {
 public:
  using Module = std::shared_ptr<detail::ModuleState>;
  struct Kernels {
    backend::Backend& backend;  // outlives this
    std::function<Module(const Source& source, const CompileOptions& options)> compile;
    // Launches the only kernel of a program, and returns when it has ended.
    std::function<void(const Module& module, const LaunchConfig& config, std::span<const detail::LaunchArgument> arguments)> run;
  };
  // What it does parts of: a collection, or a move (device/heap_parts.hpp).
  enum class Work : std::uint8_t { collect, move };
  CollectKernel(Kernels kernels, Work work) : kernels_(std::move(kernels)), work_(work) {}
  ~CollectKernel();
  CollectKernel(const CollectKernel&) = delete;
  CollectKernel& operator=(const CollectKernel&) = delete;

  // As device::Collect.
  struct Part {
    std::uint32_t verb;
    std::uint32_t ticks;
    std::uint64_t first;
    std::uint64_t end;
    std::span<const std::uint32_t> units;
  };
  // Does a part in `groups` groups on the heap at this address, with the arena at `arena` if the part needs it, and writes what it tells.
  // Prepares it. Throws errc::compile_failed, errc::out_of_memory, errc::device_lost, errc::closed.
  void run(const Part& part, std::uint32_t groups, std::uint64_t heap, std::uint64_t arena, std::span<std::uint64_t> told);
  // Compiles and loads the kernel, unless it is there. Throws errc::compile_failed, errc::device_lost, errc::closed.
  void prepare();
  // Its text, and how it is compiled.
  static Source source(Work work);
  static CompileOptions options();
  // Releases the program. Nothing runs.
  void drop() noexcept;

 private:
  const Kernels kernels_;
  const Work work_;
  Module module_;
  void* stream_ = nullptr;
  std::unique_ptr<backend::Allocation> told_;
  std::unique_ptr<backend::Allocation> units_;
};

}  // namespace dwell::runtime
