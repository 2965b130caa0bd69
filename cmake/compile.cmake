# Settings for all compilations: warnings, sanitizers, precompiled headers.

# Sets warnings for `target` only; programs that link dwell do not get them.
function(dwell_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wconversion)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE -Wno-sign-conversion) # which g++ does not count as part of -Wconversion
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # g++ 12 wrongly reports an overlap in "literal" + std::string, and more of the kind with a precompiled header (GCC bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND DWELL_SANITIZE MATCHES "thread")
    target_compile_options(${target} PRIVATE -Wno-tsan) # the sanitizer sees no fences; ours runs only where the kernel has no membarrier
  endif()
  if(DWELL_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

# Name files relative to the project's root, so that objects do not depend on its folder.
add_compile_options("-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")

# dwell_host_flags: flags for operators that the library compiles for the CPU, so that sanitizers cover them.
set(dwell_host_flags "")
if(DWELL_SANITIZE)
  set(dwell_sanitize_flags -fsanitize=${DWELL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_compile_options(${dwell_sanitize_flags} -g1) # reports name lines; more takes half of the time to compile
  add_link_options(-fsanitize=${DWELL_SANITIZE})
  # The last level counts: without optimization clang compiles an operator with UBSan in a quarter of the time or less.
  list(JOIN dwell_sanitize_flags " " dwell_host_flags)
  string(APPEND dwell_host_flags " -O0")
endif()

# Parsing the standard library is a third of the compilation of a test or the tool, so each of the two parses it once. The library's sources
# use no precompiled headers: so the release build proves that each includes what it uses.
set(dwell_standard_headers
  <algorithm> <array> <atomic> <chrono> <condition_variable> <cstdint> <cstring> <deque> <filesystem> <fstream> <functional> <map> <memory>
  <mutex> <optional> <set> <span> <sstream> <stdexcept> <string> <string_view> <thread> <utility> <vector>
)

# dwell_precompile(NAME FLAG HEADER...): makes a target that precompiles the standard headers and others, for targets that are compiled with
# FLAG (-fPIC: libraries, -fPIE: executables) and call target_precompile_headers(TARGET REUSE_FROM NAME). An object library that is never
# linked, because REUSE_FROM builds the whole target that it names.
function(dwell_precompile name flag)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/${name}.cpp" CONTENT "")
  add_library(${name} OBJECT "${PROJECT_BINARY_DIR}/generated/${name}.cpp")
  target_compile_options(${name} PRIVATE ${flag})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  dwell_warnings(${name})
  target_precompile_headers(${name} PRIVATE ${dwell_standard_headers} ${ARGN})
endfunction()
