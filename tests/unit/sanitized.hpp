// The sanitizer that this test program is compiled with; it makes everything several times slower.
#pragma once

namespace dwell {

#if defined(__has_feature)  // clang
inline constexpr bool kThreadSanitized = __has_feature(thread_sanitizer);
inline constexpr bool kAddressSanitized = __has_feature(address_sanitizer);
#else
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitized = true;
#else
inline constexpr bool kAddressSanitized = false;
#endif
#endif
inline constexpr bool kSanitized = kThreadSanitized || kAddressSanitized;

}  // namespace dwell
