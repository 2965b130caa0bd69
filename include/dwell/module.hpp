// A program of ordinary CUDA C++ kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dwell/kernel.hpp>

namespace dwell {

// A handle of a compiled and loaded program, made by Runtime::compile: copies name the same one. The program stays loaded while a handle
// of it or of one of its kernels lives, or a launch of it is in flight. All members may be called from any thread.
class Module {
 public:
  Module() = default;

  // The kernel of this name: a name expression that was given to Runtime::compile ("reduce<double, 256>"), a plain name where it is not
  // overloaded ("scale", "space::scale"), a name with its parameters as the demangler writes them ("scale(float*)"), or a symbol.
  // Throws errc::operator_not_found with the names there are, or with the candidates when there are several; errc::stale_handle.
  Kernel<> kernel(std::string_view name) const;
  // As above, with a handle whose arguments are checked at compile time. Also throws errc::signature_mismatch.
  template <class Function>
  Kernel<Function> kernel(std::string_view name) const {
    return Kernel<Function>(kernel(name));
  }

  // The symbol behind a name. Throws errc::operator_not_found.
  std::string lowered_name(std::string_view name) const;
  // The names of all kernels, as `kernel` takes them.
  std::vector<std::string> kernels() const;
  // The program that was loaded, the same in PTX, and the compiler's warnings. Valid as long as a copy of this handle lives, also when the
  // runtime is closed.
  std::span<const std::byte> cubin() const;
  const std::string& ptx() const;
  const std::string& log() const;

 private:
  friend class Runtime;
  explicit Module(std::shared_ptr<detail::ModuleState> state) : state_(std::move(state)) {}

  std::shared_ptr<detail::ModuleState> state_;
};

}  // namespace dwell
