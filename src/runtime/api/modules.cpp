// The handles of programs of kernels.
#include <dwell/module.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/arguments.hpp>
#include <dwell/error.hpp>
#include <dwell/runtime.hpp>

#include "runtime/core.hpp"
#include "runtime/generation/shell.hpp"
#include "runtime/kernels/modules.hpp"
#include "runtime/program/argument_check.hpp"

namespace dwell {

namespace detail {

namespace {

ModuleState& require_module(const std::shared_ptr<ModuleState>& state) {
  if (!state) throw Error(errc::invalid_argument, "the handle is empty: make one with `compile` and `kernel`");
  return *state;
}

// Returns why a handle's runtime is no longer available.
Error gone(const ModuleState& state, const std::string& handle) { return state.shell->gone(handle, "compile it again"); }

}  // namespace

ModuleState::~ModuleState() {
  if (shell == nullptr || shell->lineage->is_forked()) return;
  if (const auto core = shell->core()) core->modules().release(*this);
}

const std::string& KernelBase::name() const { return require_module(module_).object.kernels[index_].name; }
const std::string& KernelBase::symbol() const { return require_module(module_).object.kernels[index_].symbol; }
const Signature& KernelBase::signature() const { return require_module(module_).object.kernels[index_].signature; }

void KernelBase::require(const Signature& signature) const {
  runtime::check_arguments("kernel", name(), this->signature(), signature.parameters(), kernel_accepts);
}

Ticket KernelBase::launch_list(const LaunchConfig& config, const LaunchArgument* arguments, std::size_t count) const {
  Shell* const shell = require_module(module_).shell;
  const auto core = shell->core();
  if (core == nullptr) throw gone(*module_, "kernel '" + name() + "'");
  for (std::size_t i = 0; i < count; ++i) {
    const LaunchArgument& argument = arguments[i];
    if (argument.use != nullptr && argument.use->shell != shell) throw_unusable_buffer(argument.use, shell);
  }
  try {
    return Ticket(shell, core->launch(module_, index_, config, arguments, count) | kLaunch);
  } catch (const Error& error) {
    if (error.kind() != errc::closed) throw;  // it was closed meanwhile
  }
  throw gone(*module_, "kernel '" + name() + "'");
}

struct PreparedState {
  std::shared_ptr<ModuleState> module;  // keeps the kernel loaded
  std::unique_ptr<backend::PreparedLaunch> launch;
  std::vector<std::vector<std::byte>> values;
  std::vector<void*> parameters;  // to them
};

PreparedLaunch KernelBase::prepare_list(const LaunchConfig& config, const LaunchArgument* arguments, std::size_t count) const {
  Shell* const shell = require_module(module_).shell;
  const auto core = shell->core();
  if (core == nullptr) throw gone(*module_, "kernel '" + name() + "'");
  for (std::size_t i = 0; i < count; ++i)
    if (arguments[i].use != nullptr && arguments[i].use->shell != shell) throw_unusable_buffer(arguments[i].use, shell);
  auto state = std::make_shared<PreparedState>();
  state->module = module_;
  state->launch = core->prepare(module_, index_, config, arguments, count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const value = static_cast<const std::byte*>(arguments[i].value);
    const std::size_t bytes = is_pointer(arguments[i].type) ? sizeof(void*) : arguments[i].type.bytes;
    state->values.emplace_back(value, value + bytes);
  }
  for (std::vector<std::byte>& value : state->values) state->parameters.push_back(value.data());
  return PreparedLaunch(std::move(state));
}

}  // namespace detail

void PreparedLaunch::enqueue(void* stream) const {
  if (state_ == nullptr) throw Error(errc::invalid_argument, "the prepared launch is empty: make one with Kernel::prepare");
  // Its runtime's backend is gone with it.
  if (state_->module->shell->core() == nullptr) throw detail::gone(*state_->module, "a prepared launch");
  state_->launch->enqueue(stream, state_->parameters);
}

Ticket Kernel<>::launch(const LaunchConfig& config, const Arguments& arguments) const {
  const auto& list = arguments.list_;
  if ((list.flags & ~(detail::kSystem | detail::kMemory)) != 0 || list.groups != 1)
    throw Error(errc::invalid_argument, "the launch of a kernel takes the kernel's own arguments, without modifiers", {"kernel", name()});
  const std::vector<Parameter>& types = arguments.parameters();
  std::vector<std::uint64_t> addresses(types.size());
  std::vector<detail::LaunchArgument> passed;
  passed.reserve(types.size());
  std::uint32_t word = 0;
  auto use = arguments.uses_.begin();
  for (std::size_t i = 0; i < types.size(); ++i) {
    Parameter type = types[i];
    const void* value = list.word.data() + word;
    const detail::BufferUse* of = nullptr;
    word += device::words_of(type);
    if (type.kind == Kind::span || type.kind == Kind::const_span) {
      const std::uint32_t* const span = list.word.data() + word - 3;
      addresses[i] = span[0] | static_cast<std::uint64_t>(span[1] & 0xFFFFFU) << 32U;
      value = &addresses[i];
      // A bare span has no use; its buffer is found by its address.
      if (use != arguments.uses_.end() && use->words.address() == addresses[i]) of = (use++)->use;
      type.kind = type.kind == Kind::span ? Kind::pointer : Kind::const_pointer;
      if (type.element == Kind::structure) type.bytes = 0;  // as kernel_parameter has it
    }
    passed.push_back({type, value, of});
  }
  return launch_list(config, passed.data(), passed.size());
}

Kernel<> Module::kernel(std::string_view name) const {
  const detail::ModuleState& state = detail::require_module(state_);
  if (state.shell->core() == nullptr) throw detail::gone(state, "a program of kernels");
  return Kernel<>(state_, runtime::find_kernel(state.object, name));
}

std::string Module::lowered_name(std::string_view name) const {
  const jit::ModuleObject& object = detail::require_module(state_).object;
  return object.kernels[runtime::find_kernel(object, name)].symbol;
}

std::vector<std::string> Module::kernels() const { return runtime::kernel_names(detail::require_module(state_).object); }
std::span<const std::byte> Module::cubin() const { return detail::require_module(state_).object.bytes; }
const std::string& Module::ptx() const { return detail::require_module(state_).object.assembly; }
const std::string& Module::log() const { return detail::require_module(state_).object.log; }

Module Runtime::compile(const Source& source, const std::optional<CompileOptions>& options, const std::vector<std::string>& expressions) {
  return Module(detail::Shell::require(shell_)->compile(source, options, expressions));
}

}  // namespace dwell
