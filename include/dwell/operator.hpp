// A piece of device code that tasks run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <dwell/signature.hpp>
#include <dwell/task.hpp>

namespace dwell {

// Where an operator's source comes from, for diagnostics: the file and the line of its first character.
struct Source {
  Source(const char* source) : text(source) {}             // NOLINT(google-explicit-constructor)
  Source(std::string source) : text(std::move(source)) {}  // NOLINT(google-explicit-constructor)
  Source(std::string source, std::string path, int first_line = 1) : text(std::move(source)), file(std::move(path)), line(first_line) {}

  std::string text;
  std::string file;  // empty: the operator's name with ".op"
  int line = 1;
};

namespace detail {

struct OperatorState;

// All but the parameter types of an operator.
class OperatorBase {
 public:
  const std::string& name() const;
  // What it takes, as the compiler saw it.
  const Signature& signature() const;
  // Versions defined so far, and the one that a task submitted now would run (1 is the first).
  std::uint32_t versions() const;
  std::uint32_t version() const;

  // Compiles `source` (which must define DWELL_OPERATOR of the same name with the same parameters) and makes it the current version:
  // tasks submitted before this returns run the old one, after it the new one, and none is lost. Throws as Runtime::define; then the
  // old version stays. May be called while tasks flow, from any thread.
  void redefine(const Source& source);
  // Makes the version below the current one, by number, current again, without compiling. Throws errc::no_previous_version.
  void rollback();

  OperatorState* state() const noexcept { return state_.get(); }

 protected:
  OperatorBase() = default;
  explicit OperatorBase(std::shared_ptr<OperatorState> state) : state_(std::move(state)) {}
  std::shared_ptr<OperatorState> state_;
};

}  // namespace detail

// A handle of an operator: copies name the same one. Operator<> checks arguments when a task is submitted;
// Operator<void(float, Span<const float>, Span<float>)> when the program is compiled.
template <class Function = void>
class Operator;

namespace detail {
void require_signature(const OperatorBase& base, const Signature& signature);
}

template <>
class Operator<void> : public detail::OperatorBase {
 public:
  Operator() = default;

 private:
  friend class Runtime;
  using OperatorBase::OperatorBase;
};

template <class... Parameters>
class Operator<void(Parameters...)> : public detail::OperatorBase {
 public:
  Operator() = default;
  // Throws errc::signature_mismatch when the operator takes something else.
  explicit Operator(const Operator<void>& other) : OperatorBase(other) { detail::require_signature(*this, Signature::of<Parameters...>()); }

  // Whether arguments of these types fit.
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
