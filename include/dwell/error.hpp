// Error codes, and the exception that carries them.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace dwell {

// Each code with its meaning and remedy.
enum class errc {
  ok = 0,
  // An argument to a function of this library makes no sense; the message names it. Correct the call.
  invalid_argument,
  // A task's arguments do not fit the operator's signature; the message shows both. Correct the call.
  signature_mismatch,
  // The source does not compile; the message holds the compiler's text with the source's own lines. The running version stays.
  compile_failed,
  // The source does not define DWELL_OPERATOR(name) for the name it was given, or a program has no kernel of that name.
  operator_not_found,
  // The operators do not link into one image; the message holds the linker's text. The running image stays.
  link_failed,
  // The compiler this device needs could not be opened; the message names the file and version looked for.
  compiler_unavailable,
  // The device does not exist, or its driver is missing or too old; the message says which.
  device_unavailable,
  // Device memory, host memory or a thread could not be allocated; the message names it. Free some or raise the limit, and try again.
  out_of_memory,
  // The operator itself reported this task as failed with Group::fail, or the callback of a host node has thrown.
  task_failed,
  // A task, or kernels that Runtime::close waited for, ran longer than Options::task_timeout; the message names operator, ticket and
  // worker, or the kernels. The runtime can only be closed or rebuilt.
  task_timeout,
  // The device failed under a task (an illegal address, for example); the message names the candidates. The runtime can only be closed, or
  // rebuilt with Runtime::rebuild; when that throws it too, the message says why the device cannot be reopened.
  device_lost,
  // The task has not run at all. Causes: a predecessor failed or was cancelled, and the message names the first that failed (hard_link and
  // after_any_result ignore this); Runtime::cancel; Runtime::close(Close::now). Also a background definition that was stopped, or whose
  // runtime ended first.
  cancelled,
  // The Runtime is closed.
  closed,
  // No earlier version exists.
  no_previous_version,
  // The device or its backend cannot do this; the message says why.
  unsupported,
  // A file could not be read or written; the message names it.
  io_failed,
  // The image with this operator would exceed Options::limits, or leave room for too few workers; the message holds the figures and what to
  // change. The running image stays. Or a job needs more than JobLimits allow, or too many wait.
  resource_limit,
  // The handle (an operator, a buffer, a ticket of a task that was lost) belongs to a runtime that is closed, or to a generation before
  // the last Runtime::rebuild; the message names both. Define, allocate or submit again.
  stale_handle,
  // Tasks made no progress for Options::stall_timeout: no worker has run anything, and they wait for no running kernel or callback. The
  // message names the first tasks and who waits for whom. The runtime stays open: cancel tasks, or release what blocks them, and wait
  // again.
  stalled,
  // The runtime was closed, with Runtime::close(Close::now) or after a stall, in the middle of the launch of a graph, or of a task that has
  // made others, yielded, or has several groups. The message says how far it came. Its results are incomplete.
  interrupted,
};

const std::error_category& error_category() noexcept;

inline std::error_code make_error_code(errc code) noexcept { return {static_cast<int>(code), error_category()}; }

// The details of an Error as data, so that programs need not parse the message. Fields that do not apply are empty or 0.
struct ErrorFields {
  // The kind of thing: "operator", "kernel", "task", "option", "buffer", "view", "argument", "memory", "host memory", "thread", "file".
  std::string what;
  std::string which;        // its name: "axpy", "Options::workers"; for a task, its operator and version
  std::uint64_t value = 0;  // the requested figure; for a task, its ticket's position
  std::uint64_t limit = 0;  // the limit it exceeds
};

// The exception of this library. `what()` says what happened and what to do; `code()` is an errc. Copies share their text and never throw.
// Calls may also throw std::bad_alloc; then nothing has changed, and the call may be repeated.
class Error : public std::system_error {
 public:
  Error(errc code, const std::string& message, ErrorFields fields = {}, std::exception_ptr cause = {})
      : std::system_error(make_error_code(code), message),
        said_(std::make_shared<const Said>(Said{message, std::move(fields), std::move(cause)})) {}
  // No move: a moved-from Error would have no message.
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;
  ~Error() override = default;

  errc kind() const noexcept { return static_cast<errc>(code().value()); }
  // The message alone, without the sentence of the code that what() adds.
  const std::string& message() const noexcept { return said_->message; }
  const ErrorFields& fields() const noexcept { return said_->fields; }
  // The exception of a host node's callback that failed the task, for std::rethrow_exception. Null in all other errors, and once 64 later
  // callbacks of the runtime have thrown.
  const std::exception_ptr& cause() const noexcept { return said_->cause; }

 private:
  struct Said {
    std::string message;
    ErrorFields fields;
    std::exception_ptr cause;
  };
  std::shared_ptr<const Said> said_;
};
static_assert(std::is_nothrow_copy_constructible_v<Error> && std::is_nothrow_copy_assignable_v<Error>);

}  // namespace dwell

template <>
struct std::is_error_code_enum<dwell::errc> : std::true_type {};
