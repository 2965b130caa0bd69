// Whether this test program is compiled with a sanitizer: everything runs several times slower there.
#pragma once

namespace dwell {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)  // g++
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)  // clang
inline constexpr bool kSanitized = __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace dwell
