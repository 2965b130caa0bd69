// Whether this test program is compiled with a sanitizer: everything runs several times slower there.
#pragma once

namespace dwell {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace dwell
