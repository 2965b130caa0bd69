// Records how the process ends in the files of flight recorders.
#pragma once

#include "live/flight.hpp"

namespace dwell::runtime {

// Records fatal signals of this process (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) and exit() in the file. A handler that the program set
// before is called afterwards. One that it sets later must call the previous handler, or raise the signal again, as those of sanitizers and
// of Python's faulthandler do. A fault that a handler recovers from is not kept. DWELL_SIGNALS=off in the environment disables the
// handlers. `file` is mapped, and begins with the head. May be called from any thread.
void note_end_in(live::FlightFile& file) noexcept;
// Called before the file is unmapped. After the last file, restores the program's handlers.
void forget_end_in(live::FlightFile& file) noexcept;

}  // namespace dwell::runtime
