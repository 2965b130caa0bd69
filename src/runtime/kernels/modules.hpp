// Programs of ordinary kernels: compiled, loaded beside the image, and launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/compile_options.hpp>
#include <dwell/kernel.hpp>
#include <dwell/operator.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "jit/compiler.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/kernels/launches.hpp"

namespace dwell::detail {

struct Shell;

// Shared by the handles of a program and of its kernels, and by its launches in flight. Unloads the program.
struct ModuleState {
  Shell* shell = nullptr;
  jit::ModuleObject object;
  std::shared_ptr<backend::LoadedModule> loaded;  // guarded by Modules; null once the runtime is closed

  ModuleState() = default;
  ModuleState(const ModuleState&) = delete;
  ModuleState& operator=(const ModuleState&) = delete;
  ~ModuleState();
};

}  // namespace dwell::detail

namespace dwell::runtime {

// Returns the index in object.kernels of the kernel `name` (see Module::kernel). Throws errc::operator_not_found.
std::size_t find_kernel(const jit::ModuleObject& object, std::string_view name);

// Returns each kernel's shortest name that is unique for find_kernel.
std::vector<std::string> kernel_names(const jit::ModuleObject& object);

// The programs of a runtime. Members may be called from any thread.
class Modules {
 public:
  Modules(jit::Compiler& compiler, backend::Backend& backend, Keeper& keeper, Launches& launches, detail::Shell* shell)
      : compiler_(compiler), backend_(backend), keeper_(keeper), launches_(launches), shell_(shell) {}

  // Throws as Runtime::compile.
  std::shared_ptr<detail::ModuleState> compile(const Source& source, const CompileOptions& options,
                                               const std::vector<std::string>& expressions);
  // Launches kernel `index` and returns the launch's number. The caller has checked that the arguments belong to the runtime. Throws as
  // Kernel<>::launch.
  std::uint64_t launch(const std::shared_ptr<detail::ModuleState>& module, std::size_t index, const LaunchConfig& config,
                       const detail::LaunchArgument* arguments, std::size_t count);
  // As launch, without the launch.
  std::unique_ptr<backend::PreparedLaunch> prepare(const std::shared_ptr<detail::ModuleState>& module, std::size_t index,
                                                   const LaunchConfig& config, const detail::LaunchArgument* arguments, std::size_t count);
  // Unloads a program without handles.
  void release(detail::ModuleState& module);
  // Unloads all programs. No launch is in flight, and the device is idle.
  void close() noexcept;

 private:
  // Calls use(loaded, launch) with the launch, once it has been checked. Errors name the kernel.
  template <class Use>
  auto with_checked(const std::shared_ptr<detail::ModuleState>& module, std::size_t index, const LaunchConfig& config,
                    const detail::LaunchArgument* arguments, std::size_t count, const Use& use);
  void unload(std::shared_ptr<backend::LoadedModule> loaded);

  jit::Compiler& compiler_;
  backend::Backend& backend_;
  Keeper& keeper_;
  Launches& launches_;
  detail::Shell* shell_;

  Mutex mutex_;
  bool closed_ DWELL_GUARDED_BY(mutex_) = false;
  std::set<detail::ModuleState*> modules_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
