#include "runtime/caught.hpp"

#include <exception>
#include <new>

namespace dwell::runtime {

const Error& no_memory() {
  static const Error error(errc::out_of_memory, "the host has no memory left: free some and try again", {"host memory", "", 0, 0});
  return error;
}

Error caught(errc otherwise) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return no_memory();
  } catch (const std::exception& error) {
    return error_or_no_memory([&] { return Error(otherwise, error.what()); });
  } catch (...) {
    return error_or_no_memory([&] { return Error(otherwise, "an exception that does not derive from std::exception"); });
  }
}

}  // namespace dwell::runtime
