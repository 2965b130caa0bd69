#include "runtime/kernels/modules.hpp"

#include <algorithm>
#include <cstring>

#include <dwell/arguments.hpp>
#include <dwell/error.hpp>
#include <dwell/module.hpp>
#include <dwell/runtime.hpp>

#include "jit/source/fingerprint.hpp"
#include "runtime/program/argument_check.hpp"

namespace dwell {

namespace runtime {

namespace {

// Blanks are ignored in "reduce<double, 256>".
std::string without_blanks(std::string_view text) {
  std::string rest(text);
  std::erase(rest, ' ');
  return rest;
}

std::string with_parameters(const jit::ModuleKernel& kernel) { return kernel.name + kernel.signature.text(); }

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::size_t find_kernel(const jit::ModuleObject& object, std::string_view name) {
  const std::string wanted = without_blanks(name);
  std::string_view symbol = name;
  for (const auto& [expression, its] : object.expressions)
    if (without_blanks(expression) == wanted) symbol = its;
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < object.kernels.size(); ++i) {
    const jit::ModuleKernel& kernel = object.kernels[i];
    if (kernel.symbol == symbol || without_blanks(with_parameters(kernel)) == wanted) return i;
    if (without_blanks(kernel.name) == wanted) candidates.push_back(i);
  }
  if (candidates.size() == 1) return candidates.front();
  if (candidates.empty()) {
    const std::vector<std::string> names = kernel_names(object);
    throw Error(errc::operator_not_found,
                "the program has no kernel '" + std::string(name) + "'" +
                    (names.empty() ? "; it has none at all (instantiations of templates must be asked for when it is compiled)"
                                   : "; it has " + listed(names)),
                {"kernel", std::string(name)});
  }
  std::vector<std::string> names;
  for (const std::size_t i : candidates) names.push_back(with_parameters(object.kernels[i]));
  throw Error(errc::operator_not_found, "'" + std::string(name) + "' names several kernels: " + listed(names),
              {"kernel", std::string(name)});
}

std::vector<std::string> kernel_names(const jit::ModuleObject& object) {
  std::vector<std::string> names;
  for (const jit::ModuleKernel& kernel : object.kernels) {
    const auto same = std::ranges::count(object.kernels, kernel.name, &jit::ModuleKernel::name);
    names.push_back(same == 1 ? kernel.name : with_parameters(kernel));
  }
  return names;
}

std::shared_ptr<detail::ModuleState> Modules::compile(const Source& source, const CompileOptions& options,
                                                      const std::vector<std::string>& expressions) {
  jit::Unit unit;
  unit.name = "kernels";
  unit.text = source.text;
  unit.file = source.file.empty() ? "kernels.cu" : source.file;
  unit.line = source.line;
  for (const std::string& expression : expressions) unit.exports.push_back({expression, {}});
  unit.options = options;
  unit.options.lto = false;  // a program is optimised as a whole anyway
  unit.program = true;
  auto state = std::make_shared<detail::ModuleState>();
  state->object = jit::compile_by_fingerprint(compiler_, unit, [this](const jit::Unit& named) { return compiler_.compile_module(named); });

  std::vector<std::string> symbols;
  for (const jit::ModuleKernel& kernel : state->object.kernels) symbols.push_back(kernel.symbol);
  // Leases roll meanwhile; loading waits for earlier ones.
  try {
    keeper_.beside_tasks([&] { state->loaded = backend_.load_kernels(state->object.bytes, symbols); });
  } catch (const Error& error) {
    throw keeper_.explain(error);
  }
  {
    const Lock lock(mutex_);
    if (!closed_) {
      modules_.insert(state.get());
      state->shell = shell_;
      return state;
    }
  }
  unload(std::move(state->loaded));
  throw Error(errc::closed, "the runtime was closed while it compiled");
}

template <class Use>
auto Modules::with_checked(const std::shared_ptr<detail::ModuleState>& module, std::size_t index, const LaunchConfig& config,
                           const detail::LaunchArgument* arguments, std::size_t count, const Use& use) {
  const jit::ModuleKernel& kernel = module->object.kernels[index];
  std::vector<Parameter> given;
  std::vector<const void*> values;
  for (std::size_t i = 0; i < count; ++i) {
    given.push_back(arguments[i].type);
    values.push_back(arguments[i].value);
  }
  check_arguments("kernel", kernel.name, kernel.signature, given, detail::kernel_accepts);
  std::shared_ptr<backend::LoadedModule> loaded;
  {
    const Lock lock(mutex_);
    loaded = module->loaded;
  }
  if (loaded == nullptr) throw Error(errc::closed, "the runtime of kernel '" + kernel.name + "' is closed", {"kernel", kernel.name});
  const backend::KernelLaunch launch{index,
                                     {config.grid.x, config.grid.y, config.grid.z},
                                     {config.block.x, config.block.y, config.block.z},
                                     config.shared,
                                     config.stream,
                                     values,
                                     config.cooperative,
                                     config.exclusive};
  for (const auto& [extent, what] : {std::pair(launch.grid, "grid"), std::pair(launch.block, "block")})
    if (extent[0] == 0 || extent[1] == 0 || extent[2] == 0)
      throw Error(errc::invalid_argument, std::string("kernel '") + kernel.name + "': the " + what + " is empty in one direction");
  try {
    return use(*loaded, launch);
  } catch (const Error& error) {
    throw Error(error.kind(), "kernel '" + kernel.name + "': " + error.message(),
                {"kernel", kernel.name, error.fields().value, error.fields().limit});
  }
}

std::uint64_t Modules::launch(const std::shared_ptr<detail::ModuleState>& module, std::size_t index, const LaunchConfig& config,
                              const detail::LaunchArgument* arguments, std::size_t count) {
  Launches::Needs needs{module->object.kernels[index].name, {}, module};
  for (std::size_t i = 0; i < count; ++i)
    if (detail::is_pointer(arguments[i].type)) std::memcpy(&needs.addresses.emplace_back(), arguments[i].value, sizeof(std::uint64_t));
  return with_checked(module, index, config, arguments, count, [&](backend::LoadedModule& loaded, const backend::KernelLaunch& launch) {
    return launches_.launch(loaded, launch, std::move(needs));
  });
}

std::unique_ptr<backend::PreparedLaunch> Modules::prepare(const std::shared_ptr<detail::ModuleState>& module, std::size_t index,
                                                          const LaunchConfig& config, const detail::LaunchArgument* arguments,
                                                          std::size_t count) {
  return with_checked(module, index, config, arguments, count,
                      [&](backend::LoadedModule& loaded, const backend::KernelLaunch& launch) { return backend_.prepare(loaded, launch); });
}

// Unloads on the janitor's thread: unloading waits for running leases.
void Modules::unload(std::shared_ptr<backend::LoadedModule> loaded) { keeper_.janitor().take(std::move(loaded)); }

void Modules::release(detail::ModuleState& module) {
  std::shared_ptr<backend::LoadedModule> loaded;
  {
    const Lock lock(mutex_);
    modules_.erase(&module);
    loaded = std::move(module.loaded);
  }
  if (loaded != nullptr) unload(std::move(loaded));
}

void Modules::close() noexcept {
  const Lock lock(mutex_);
  closed_ = true;
  for (detail::ModuleState* const module : modules_) module->loaded.reset();
  modules_.clear();
}

}  // namespace runtime

}  // namespace dwell
