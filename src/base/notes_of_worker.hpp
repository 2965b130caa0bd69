// What a handler of signals may know of the thread that it interrupts.
#pragma once

namespace dwell {

// Where the worker that runs on this thread notes what it does; null on all other threads. Reading it allocates nothing, as a handler must
// not: it lies in the part of the thread's memory that is there from the start.
extern thread_local constinit const void* notes_of_worker __attribute__((tls_model("initial-exec")));

}  // namespace dwell
