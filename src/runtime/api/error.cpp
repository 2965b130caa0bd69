#include <dwell/error.hpp>

namespace dwell {

namespace {

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "dwell"; }
  std::string message(int code) const override {
    switch (static_cast<errc>(code)) {
      case errc::ok: return "success";
      case errc::invalid_argument: return "invalid argument";
      case errc::signature_mismatch: return "arguments do not fit the operator";
      case errc::compile_failed: return "the operator does not compile";
      case errc::operator_not_found: return "the source does not define the operator";
      case errc::link_failed: return "the operators do not link";
      case errc::compiler_unavailable: return "no compiler";
      case errc::device_unavailable: return "no such device";
      case errc::out_of_memory: return "out of memory";
      case errc::task_failed: return "the task failed";
      case errc::task_timeout: return "a task ran too long";
      case errc::device_lost: return "the device is lost";
      case errc::cancelled: return "cancelled";
      case errc::closed: return "the runtime is closed";
      case errc::no_previous_version: return "no previous version";
      case errc::unsupported: return "unsupported";
      case errc::io_failed: return "input or output failed";
      case errc::resource_limit: return "more than a limit allows";
      case errc::stale_handle: return "the handle is stale";
      case errc::stalled: return "the runtime has stalled";
      case errc::interrupted: return "interrupted";
    }
    return "unknown error";
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const Category category;
  return category;
}

}  // namespace dwell
