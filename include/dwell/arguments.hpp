// A task's arguments as a list built at run time, for programs that learn them only then.
#pragma once

#include <memory>
#include <vector>

#include <dwell/task.hpp>

namespace dwell {

namespace detail {
// Why buffers of the runtime `theirs` are no arguments of another: that is what it is, or they are stale.
[[noreturn]] void throw_foreign_arguments(const Shell* theirs);
}  // namespace detail

// Collects what Runtime::submit takes behind the operator: values, Span, Buffer, Slice, and groups(n), link, drain. May be submitted any
// number of times, to the runtime that the buffers it names belong to; they must live until then.
class Arguments {
 public:
  Arguments() : task_(std::make_unique<detail::Task>()) { at_.finish(*task_); }
  Arguments(const Arguments& other)
      : task_(std::make_unique<detail::Task>(*other.task_)), at_(other.at_), parameters_(other.parameters_), shell_(other.shell_) {}
  Arguments(Arguments&&) noexcept = default;
  Arguments& operator=(const Arguments& other) { return *this = Arguments(other); }
  Arguments& operator=(Arguments&&) noexcept = default;
  ~Arguments() = default;

  // Throws errc::invalid_argument when all arguments together exceed 372 bytes, when buffers of several runtimes or empty ones are
  // among them, and for groups(0).
  template <class T>
  Arguments& add(const T& value) {
    if constexpr (requires { value.slice(); }) {
      return add(value.slice());
    } else {
      if constexpr (requires { value.use(); }) {
        if (shell_ == nullptr && value.use() != nullptr) shell_ = value.use()->shell;
      }
      detail::put(*task_, at_, shell_, value);
      at_.finish(*task_);
      if constexpr (!detail::kIsModifier<T>) parameters_.push_back(device::Describe<typename detail::Argument<T>::type>::value);
      return *this;
    }
  }

  const std::vector<Parameter>& parameters() const noexcept { return parameters_; }

 private:
  friend class Runtime;
  // Throws errc::invalid_argument when the buffers belong to another runtime, errc::stale_handle when that is closed, or they are of an
  // earlier generation.
  const detail::Task& task_for(const detail::Shell* shell) const {
    if (shell_ != nullptr && shell_ != shell) detail::throw_foreign_arguments(shell_);
    return *task_;
  }

  std::unique_ptr<detail::Task> task_;
  detail::Cursor at_;
  std::vector<Parameter> parameters_;
  detail::Shell* shell_ = nullptr;  // the runtime of the buffers so far
};

}  // namespace dwell
