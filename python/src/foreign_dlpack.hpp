// Arrays of others that come by DLPack.
#pragma once

#include <string>

#include "foreign.hpp"

namespace dwell::python {

// Of an object that has the protocol; see describe. Of an array out of reach, where it lies.
Foreign from_dlpack(nb::handle object, const RuntimeState& runtime, const std::string& name);

}  // namespace dwell::python
