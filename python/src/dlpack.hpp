// DLPack's structures, and the names of the capsules in which Python passes them on.
#pragma once

#include <dwell/detail/dlpack.hpp>

namespace dwell::python::dlpack {

using namespace detail::dlpack;

inline constexpr const char* kName = "dltensor";
inline constexpr const char* kUsedName = "used_dltensor";
inline constexpr const char* kVersionedName = "dltensor_versioned";
inline constexpr const char* kUsedVersionedName = "used_dltensor_versioned";

}  // namespace dwell::python::dlpack
