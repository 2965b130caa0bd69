// The GIL in calls that come straight from Python (fast_path.hpp).
#pragma once

namespace dwell::pytorch {

// Releases the GIL until the call ends. Call it before waiting or doing long work, the wait for a collector's lock among them: its owner
// destroys tensors, which may take the GIL. Does nothing in other calls, which do not hold it.
void release_gil();

}  // namespace dwell::pytorch
