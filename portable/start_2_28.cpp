// Lets an executable that is linked with a newer glibc start with glibc 2.28. x86-64 only.
//
// glibc 2.34 gave __libc_start_main a new version, which runs the executable's constructors itself. The former one, which a newer glibc has
// too, is given a function that runs them: that was linked into each executable until then.

#include <cstddef>

extern "C" {

using Constructor = void (*)(int count, char** words, char** environment);
using Main = int (*)(int count, char** words, char** environment);

[[gnu::visibility("hidden")]] extern const Constructor __init_array_start[];
[[gnu::visibility("hidden")]] extern const Constructor __init_array_end[];
void _init();

int former_start_main(Main main, int count, char** words, Constructor construct, void (*destroy)(), void (*linker_destroy)(), void* stack);
asm(".symver former_start_main, __libc_start_main@GLIBC_2.2.5");

static void construct_all(int count, char** words, char** environment) {
  _init();
  const std::ptrdiff_t constructors = __init_array_end - __init_array_start;
  for (std::ptrdiff_t i = 0; i < constructors; ++i) __init_array_start[i](count, words, environment);
}

// Called by _start. Destructors are run by the dynamic linker.
[[gnu::visibility("hidden")]] int __libc_start_main(Main main, int count, char** words, Constructor, void (*)(), void (*linker_destroy)(),
                                                    void* stack) {
  return former_start_main(main, count, words, construct_all, nullptr, linker_destroy, stack);
}

}  // extern "C"
