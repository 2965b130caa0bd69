#include "base/notes_of_worker.hpp"

namespace dwell {

thread_local constinit const void* notes_of_worker __attribute__((tls_model("initial-exec"))) = nullptr;

}  // namespace dwell
