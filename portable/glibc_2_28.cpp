// Lets an extension or the tool, linked with a newer glibc, run with glibc 2.28: what has another version there, or is missing there, is
// defined here, hidden, for all that is linked into it. x86-64 only. script/wheel names what is newer all the same.

#include "glibc_2_28.hpp"

#include <dlfcn.h>
#include <sys/random.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cstdint>
#include <ctime>

// ---- Other versions ------------------------------------------------------------------------------------------------------------

// glibc 2.34 moved these into libc.so, under new versions. It has the old ones too, for whoever names them. A jump leaves the return
// address alone, by which dlopen and dlsym know their caller.
#define DWELL_FORWARD(name, former, version)                                                                                     \
  asm(".pushsection .text; .symver former_" #name ", " #former "@" version "; .hidden " #name "; .globl " #name "; .type " #name \
      ", @function; " #name ": jmp former_" #name "@PLT; .size " #name ", . - " #name "; .popsection")
#define DWELL_OF_VERSION(name, version) DWELL_FORWARD(name, name, version)

DWELL_OF_VERSION(__pthread_key_create, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_create, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_detach, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_getspecific, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_join, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_key_create, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_key_delete, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_mutex_trylock, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_once, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_rwlock_rdlock, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_rwlock_unlock, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_rwlock_wrlock, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_setname_np, "GLIBC_2.12");
DWELL_OF_VERSION(pthread_setspecific, "GLIBC_2.2.5");
DWELL_OF_VERSION(pthread_sigmask, "GLIBC_2.2.5");
DWELL_OF_VERSION(dladdr, "GLIBC_2.2.5");
DWELL_OF_VERSION(dlclose, "GLIBC_2.2.5");
DWELL_OF_VERSION(dlerror, "GLIBC_2.2.5");
DWELL_OF_VERSION(dlinfo, "GLIBC_2.3.3");
DWELL_OF_VERSION(dlopen, "GLIBC_2.2.5");
DWELL_OF_VERSION(dlsym, "GLIBC_2.2.5");

// glibc 2.29 has some that call no matherr.
DWELL_OF_VERSION(exp, "GLIBC_2.2.5");
DWELL_OF_VERSION(log, "GLIBC_2.2.5");
DWELL_OF_VERSION(pow, "GLIBC_2.2.5");

// What headers of glibc 2.38 make of strtol and its like: they read binary numbers too, which nobody here does.
DWELL_FORWARD(__isoc23_sscanf, __isoc99_sscanf, "GLIBC_2.7");
DWELL_FORWARD(__isoc23_strtol, strtol, "GLIBC_2.2.5");
DWELL_FORWARD(__isoc23_strtoll, strtoll, "GLIBC_2.2.5");
DWELL_FORWARD(__isoc23_strtoul, strtoul, "GLIBC_2.2.5");
DWELL_FORWARD(__isoc23_strtoull, strtoull, "GLIBC_2.2.5");

// ---- Missing there -------------------------------------------------------------------------------------------------------------

extern "C" {

// What the functions of <sys/stat.h> called until glibc 2.33. The number names the layout of the struct; x86-64 has one.
int __xstat(int layout, const char* path, struct stat* result);
int __lxstat(int layout, const char* path, struct stat* result);
int __fxstat(int layout, int file, struct stat* result);
int __fxstatat(int layout, int folder, const char* path, struct stat* result, int flags);

[[gnu::visibility("hidden")]] int stat(const char* file, struct stat* buf) noexcept { return __xstat(1, file, buf); }
[[gnu::visibility("hidden")]] int lstat(const char* file, struct stat* buf) noexcept { return __lxstat(1, file, buf); }
[[gnu::visibility("hidden")]] int fstat(int fd, struct stat* buf) noexcept { return __fxstat(1, fd, buf); }
[[gnu::visibility("hidden")]] int fstat64(int fd, struct stat64* buf) noexcept {
  return __fxstat(1, fd, reinterpret_cast<struct stat*>(buf));
}
[[gnu::visibility("hidden")]] int fstatat(int fd, const char* file, struct stat* buf, int flag) noexcept {
  return __fxstatat(1, fd, file, buf, flag);
}

[[gnu::visibility("hidden")]] pid_t gettid() noexcept { return static_cast<pid_t>(syscall(SYS_gettid)); }

// std::random_device of g++ 12 and newer asks it.
[[gnu::visibility("hidden")]] std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  while (getrandom(&number, sizeof(number), 0) != sizeof(number)) {}
  return number;
}

// Nobody tells it when a thread comes, so it says what is always safe.
[[gnu::visibility("hidden")]] char __libc_single_threaded = 0;

// libstdc++'s headers have used it before, which is too late for an attribute.
asm(".hidden pthread_cond_clockwait");
int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock_id, const timespec* abstime) {
  using Wait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  static const auto glibc = reinterpret_cast<Wait>(dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
  return (glibc != nullptr ? glibc : dwell::portable::wait_by_real_time)(cond, mutex, clock_id, abstime);
}

}  // extern "C"

namespace dwell::portable {

timespec by_another_clock(const timespec& end, const timespec& now, const timespec& now_there) {
  constexpr long second = 1'000'000'000;
  timespec there{.tv_sec = now_there.tv_sec + end.tv_sec - now.tv_sec, .tv_nsec = now_there.tv_nsec + end.tv_nsec - now.tv_nsec};
  if (there.tv_nsec < 0) {
    there.tv_nsec += second;
    --there.tv_sec;
  } else if (there.tv_nsec >= second) {
    there.tv_nsec -= second;
    ++there.tv_sec;
  }
  return there;
}

int wait_by_real_time(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* end) {
  timespec now{}, real{};
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &real);
  const timespec there = by_another_clock(*end, now, real);
  return pthread_cond_timedwait(condition, mutex, &there);
}

}  // namespace dwell::portable
