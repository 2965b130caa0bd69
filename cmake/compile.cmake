# How everything is compiled: warnings and sanitizers.

# Warnings for `target` alone: none of this reaches a program that links dwell.
function(dwell_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wconversion)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE -Wno-sign-conversion) # which g++ does not count as part of -Wconversion
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict) # g++ 12 sees an overlap in "literal" + std::string (GCC bug 105651)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND DWELL_SANITIZE MATCHES "thread")
    target_compile_options(${target} PRIVATE -Wno-tsan) # the sanitizer sees no fences; ours runs only where the kernel has no membarrier
  endif()
  if(DWELL_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

# dwell_host_flags: what the library adds when it compiles operators for the CPU, so that a sanitizer sees into them too.
set(dwell_host_flags "")
if(DWELL_SANITIZE)
  set(dwell_sanitize_flags -fsanitize=${DWELL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_compile_options(${dwell_sanitize_flags} -g1) # reports name lines; more takes half of the time to compile
  add_link_options(-fsanitize=${DWELL_SANITIZE})
  list(JOIN dwell_sanitize_flags " " dwell_host_flags)
endif()
