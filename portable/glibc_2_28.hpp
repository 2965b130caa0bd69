// The part of glibc_2_28.cpp that a newer glibc does not reach.
#pragma once

#include <pthread.h>
#include <ctime>

namespace dwell::portable {

/// The time `end` by another clock, that shows `now_there` while that of `end` shows `now`.
[[gnu::visibility("hidden")]] timespec by_another_clock(const timespec& end, const timespec& now, const timespec& now_there);

/// pthread_cond_clockwait where glibc has none: waits until `end` of `clock`, by the clock of pthread_cond_timedwait. When somebody sets
/// that one meanwhile, the wait ends earlier or later; who waits looks at the time again.
[[gnu::visibility("hidden")]] int wait_by_real_time(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                                    const timespec* end);

}  // namespace dwell::portable
