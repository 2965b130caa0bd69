// How the process ends itself, noted in the files of flight recorders.
#pragma once

#include "live/flight.hpp"

namespace dwell::runtime {

// From now on, a signal by which this process ends itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) is noted in the file, and exit(), too.
// A handler that the program has set before is called behind that, and one that it sets later is expected to call what was there, or to
// raise the signal again, as those of sanitizers and of Python's faulthandler do. A fault that a handler mends is noted no more. With
// DWELL_SIGNALS=off in the environment no handler is set. `file` is mapped, and begins with the head. May be called from any thread.
void note_end_in(live::FlightFile& file) noexcept;
// Before the file goes. Behind the last one, the program's handlers are set again.
void forget_end_in(live::FlightFile& file) noexcept;

}  // namespace dwell::runtime
