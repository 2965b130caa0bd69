// A piece of device code that tasks run.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dwell/compile_options.hpp>
#include <dwell/detail/task.hpp>
#include <dwell/error.hpp>
#include <dwell/signature.hpp>

namespace dwell {

// Where an operator's source comes from, for diagnostics: the file and the line of its first character.
struct Source {
  Source(const char* source) : text(source) {}             // NOLINT(google-explicit-constructor)
  Source(std::string source) : text(std::move(source)) {}  // NOLINT(google-explicit-constructor)
  Source(std::string source, std::string path, int first_line = 1) : text(std::move(source)), file(std::move(path)), line(first_line) {}

  std::string text;
  std::string file;  // empty: the operator's name with ".op"; "kernels.cu" for a program of kernels
  int line = 1;
};

// Options of Runtime::define beside name and source. An aggregate.
struct Definition {
  // Instances of an operator template by their C++ spelling: "axpy<float>", "reduce<double, 256>". define returns the handle of the first
  // one, Operator::instance those of the others. Empty: the operator is no template.
  std::vector<std::string> instances = {};
  // Overrides Options::compile.
  std::optional<CompileOptions> options = {};
};

// Completion callback and cancellation of an asynchronous definition. An aggregate.
template <class Result>
struct Async {
  // Called once, with the future ready, on a thread of the runtime, also after a cancellation. Runtime::close waits for it. It may use the
  // runtime, but must not close or rebuild it. Options::warn reports its exceptions.
  std::function<void(const std::shared_future<Result>&)> done = {};
  // A stop request before the hand-over of the new version ends this request at once with errc::cancelled. The definition is cancelled with
  // its last request. A stop may be requested at any time, also during and after the end of the runtime.
  std::stop_token stop = {};
};

template <class Function = void>
class Operator;
class Runtime;
class Graph;

namespace detail {

struct OperatorState;

// The part of an operator that does not depend on its parameter types.
class OperatorBase {
 public:
  // As it was defined: "axpy", or "axpy<float>" for an instance.
  const std::string& name() const;
  // Its parameters, as the compiler saw them.
  const Signature& signature() const;
  // The number of versions defined so far, and the version that new tasks run (1 is the first). Equal for all instances.
  std::uint32_t versions() const;
  std::uint32_t version() const;

  // Returns another instance of the same definition; blanks in `expression` are ignored. Throws errc::operator_not_found, listing the
  // instances.
  Operator<> instance(std::string_view expression) const;
  // The instances as in Definition::instances; only the operator's name when it is no template.
  std::vector<std::string> instances() const;
  // The symbol of an instance's current version in Runtime::image. Throws errc::operator_not_found.
  std::string lowered_name(std::string_view expression) const;

  // Compiles `source` (which must define DWELL_OPERATOR of the same name with the same parameters) and makes it the current version of
  // all instances: tasks submitted before this returns run the old one, later tasks the new one, and none is lost. Without options it uses
  // those of the previous version. Throws as Runtime::define; then the old version stays. May be called from any thread, while tasks run.
  void redefine(const Source& source);
  void redefine(const Source& source, const CompileOptions& options);
  // As redefine, in the background: the new version is current when the future is ready, and the future holds errors. Versions
  // become current in the order of the calls. Ends with errc::cancelled if Async::stop or the end of the runtime comes first. Throws
  // errc::stale_handle.
  std::shared_future<void> redefine_async(const Source& source, Async<void> async = {});
  std::shared_future<void> redefine_async(const Source& source, const CompileOptions& options, Async<void> async = {});
  // Makes the version with the next lower number current again, without compiling. Throws errc::no_previous_version.
  void rollback();

  // Returns whether the handle names an operator, and whether two name the same.
  explicit operator bool() const noexcept { return state_ != nullptr; }
  bool operator==(const OperatorBase& other) const noexcept { return state_ == other.state_; }

 protected:
  OperatorBase() = default;
  explicit OperatorBase(std::shared_ptr<OperatorState> state) : state_(std::move(state)) {}
  std::shared_ptr<OperatorState> state_;

 private:
  friend class dwell::Runtime;
  friend class dwell::Graph;
  OperatorState* state() const noexcept { return state_.get(); }
  std::shared_future<void> redefine_later(const Source& source, const CompileOptions* options, Async<void> async);
};

void require_signature(const OperatorBase& base, const Signature& signature);

}  // namespace detail

// A handle of an operator: copies name the same one. Operator<> checks arguments when a task is submitted;
// Operator<void(float, Span<const float>, Span<float>)> when the program is compiled.
template <>
class Operator<void> : public detail::OperatorBase {
 public:
  Operator() = default;

 private:
  friend class Runtime;
  friend class detail::OperatorBase;
  using OperatorBase::OperatorBase;
};

template <class... Parameters>
class Operator<void(Parameters...)> : public detail::OperatorBase {
 public:
  Operator() = default;
  // Throws errc::signature_mismatch when the operator has other parameters.
  explicit Operator(const Operator<void>& other) : OperatorBase(other) { detail::require_signature(*this, Signature::of<Parameters...>()); }

  // Returns whether arguments of these types fit.
  template <class... Arguments>
  static constexpr bool fits() {
    constexpr detail::Given<Arguments...> given;
    constexpr Parameter declared[sizeof...(Parameters) + 1] = {device::Describe<Parameters>::value..., Parameter{}};
    if (given.count != sizeof...(Parameters)) return false;
    for (std::uint32_t i = 0; i < given.count; ++i)
      if (!detail::accepts(declared[i], given.list[i])) return false;
    return true;
  }
};

}  // namespace dwell
