// A task's arguments as a list built at run time, for programs that learn them only then.
#pragma once

#include <memory>
#include <vector>

#include <dwell/task.hpp>

namespace dwell {

// Collects what Runtime::submit takes behind the operator: values, Span, Buffer, Slice, and groups(n), link, drain. May be submitted any
// number of times; the buffers it names must live until then.
class Arguments {
 public:
  Arguments() : task_(std::make_unique<detail::Task>()) {}
  Arguments(const Arguments& other) : task_(std::make_unique<detail::Task>(*other.task_)), parameters_(other.parameters_) {}
  Arguments(Arguments&&) noexcept = default;
  Arguments& operator=(const Arguments& other) { return *this = Arguments(other); }
  Arguments& operator=(Arguments&&) noexcept = default;
  ~Arguments() = default;

  // Throws errc::invalid_argument when all arguments together exceed 372 bytes, or for groups(0).
  template <class T>
  Arguments& add(const T& value) {
    detail::put(*task_, value);
    if constexpr (!detail::kIsModifier<T>) parameters_.push_back(device::Describe<typename detail::Argument<T>::type>::value);
    return *this;
  }

  const std::vector<Parameter>& parameters() const noexcept { return parameters_; }
  const detail::Task& task() const noexcept { return *task_; }

 private:
  std::unique_ptr<detail::Task> task_;
  std::vector<Parameter> parameters_;
};

}  // namespace dwell
