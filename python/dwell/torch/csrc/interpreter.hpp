// Python's lock in calls that come straight from Python.
#pragma once

namespace dwell::pytorch {

// Such a call has the interpreter's lock until it is about to wait, or to do what takes long: then this lets go of it, until the call ends.
// For who waits for the collector's lock may be waited for by the one that has it, which lets go of tensors and so may need the
// interpreter's. Nothing in other calls: they do not have it.
void let_go_of_interpreter();

}  // namespace dwell::pytorch
