// A task's arguments as a list built at run time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <dwell/buffer_view.hpp>
#include <dwell/detail/task.hpp>

namespace dwell {

class Graph;
class GraphExec;
class RawRingBuffer;
template <class Function>
class Kernel;

namespace detail {
// Throws why a runtime cannot use buffers of the runtime `theirs`: they belong to it, or are stale.
[[noreturn]] void throw_foreign_arguments(const Shell* theirs);
// As above, for a ticket in `after`.
[[noreturn]] void throw_foreign_ticket(const Shell* theirs, std::uint64_t word);
}  // namespace detail

// The arguments of Runtime::submit after the operator: values, Span, Buffer, Slice, BufferView, GraphExec, and groups(n), link, hard_link,
// drain, after(...), after_any_result(...), priority(n), repeat(n). May be submitted any number of times, to the runtime of its buffers.
// The buffers must live until then.
//
//   Arguments arguments;
//   for (const Parameter& parameter : op.signature().parameters()) arguments.add(parameter, bytes_for(parameter));
class Arguments {
 public:
  // All `add` throw errc::invalid_argument when all arguments together exceed 64 KiB, when buffers of several runtimes or empty ones are
  // among them, for groups(0) and repeat(0), and for repeat(n) beside groups(n) or gang(n).
  template <class T>
  Arguments& add(const T& value) {
    if constexpr (detail::kIsShape<T>) {
      const bool repeated = detail::is_of(list_.flags, detail::kRepeated);
      if (repeated != detail::kIsRepeat<T> && (list_.groups != 1 || (list_.flags & detail::kWide) != 0)) detail::throw_two_shapes();
    }
    if constexpr (detail::kIsBuffer<T>) note_use(detail::SliceParts(value));
    if (list_.words + detail::words_of<T>() > detail::kMostWords) detail::throw_too_many_words();
    if constexpr (std::is_same_v<T, After>) {
      wait_list_.add(value, wait_list_.shell);
      list_.flags |= detail::kAfter;
    } else {
      detail::put(list_, shell_, value);
    }
    if constexpr (!detail::kIsModifier<T>) parameters_.push_back(device::Describe<typename detail::Argument<T>::type>::value);
    return *this;
  }

  // Adds a value of `type` by its bytes. Also throws errc::invalid_argument for another size, and when `type` is a span or a pointer.
  Arguments& add(const Parameter& type, std::span<const std::byte> value);
  // Adds a writable span of the view's own type.
  Arguments& add(const BufferView& view) { return add(span_of(view.type()), view); }
  // Adds a span as the operator declares it: read-only, or with elements of another name and the same size (a struct of the operator's
  // own). Also throws errc::invalid_argument when `type` is no span with elements of that size.
  Arguments& add(const Parameter& type, const BufferView& view);
  // Adds bytes as a span of elements of any size, such as structs. The caller ensures their alignment. Also throws errc::invalid_argument
  // when `type` is no span, or the bytes are no whole number of its elements.
  Arguments& add(const Parameter& type, const Slice<std::byte>& bytes);
  // Adds a ring as the operator declares it. Also throws errc::invalid_argument when `type` is no ring of messages of that size.
  Arguments& add(const Parameter& type, const RawRingBuffer& ring);

  const std::vector<Parameter>& parameters() const noexcept { return parameters_; }

 private:
  friend class Runtime;
  friend class Graph;
  friend class GraphExec;
  friend class Kernel<void>;
  // Throws errc::invalid_argument when the buffers belong to another runtime, errc::stale_handle when that is closed, or they are of an
  // earlier generation.
  // The task points into this list.
  detail::Task task_for(const detail::Shell* shell) const {
    require_of(shell);
    if (wait_list_.shell != nullptr && wait_list_.shell != shell) detail::throw_foreign_ticket(wait_list_.shell, wait_list_.position[0]);
    detail::Task task = detail::task_of(list_.word.data(), list_.words, list_.flags, list_.groups, &wait_list_);
    task.execs = list_.execs.data();
    task.exec_count = static_cast<std::uint32_t>(list_.execs.size());
    return task;
  }
  void require_of(const detail::Shell* shell) const {
    if (shell_ != nullptr && shell_ != shell) detail::throw_foreign_arguments(shell_);
  }
  void note_use(const detail::SliceParts& parts) {
    require_one_runtime(parts.use);
    uses_.push_back(parts);
  }
  void add_span(const Parameter& type, const detail::SliceParts& parts);
  // Notes the runtime of the first buffer. Throws errc::invalid_argument for a buffer without memory.
  void require_one_runtime(const detail::BufferUse* use) {
    if (use->shell == nullptr) detail::throw_unusable_buffer(use, shell_);
    if (shell_ == nullptr) shell_ = use->shell;
  }

  // Filled by detail::put.
  struct List {
    std::vector<std::uint32_t> word;
    std::uint32_t words = 0;
    std::uint32_t flags = 0;
    std::uint32_t groups = 1;
    std::vector<std::shared_ptr<detail::ExecState>> execs;

    void add_exec(std::shared_ptr<detail::ExecState> state) { execs.push_back(std::move(state)); }
    void add(std::uint32_t value) {
      word.push_back(value);
      ++words;
    }
    void add(detail::SpanWords span) {
      add(static_cast<std::uint32_t>(span.low >> 32U));
      add(static_cast<std::uint32_t>(span.high));
      add(static_cast<std::uint32_t>(span.high >> 32U));
    }
  };

  List list_;
  detail::Waits wait_list_;
  std::vector<Parameter> parameters_;
  std::vector<detail::SliceParts> uses_;  // of the buffers
  detail::Shell* shell_ = nullptr;        // owns all buffers so far
};

}  // namespace dwell
