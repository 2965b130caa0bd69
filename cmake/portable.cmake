# Lets an extension and the tool run with an older glibc than the one they are linked with.

include(CheckCXXSourceCompiles)
check_cxx_source_compiles(
  "#include <features.h>\n#if !defined __x86_64__ || !__GLIBC_PREREQ(2, 34)\n#error\n#endif\nint main() {}" DWELL_HAS_NEWER_GLIBC
)

# Links for glibc 2.28, the version of manylinux_2_28. Uses the unwinder of libgcc_s: a static one needs glibc 2.35. Names the libraries of
# threads and dlopen, which were separate before 2.34, although a newer glibc needs nothing from them.
function(dwell_link_for_glibc_2_28 target)
  target_link_options(${target} PRIVATE -static-libstdc++)
  if(DWELL_HAS_NEWER_GLIBC)
    set(sources "${PROJECT_SOURCE_DIR}/portable/glibc_2_28.cpp")
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      list(APPEND sources "${PROJECT_SOURCE_DIR}/portable/start_2_28.cpp")
    endif()
    target_sources(${target} PRIVATE ${sources})
    set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_link_libraries(${target} PRIVATE -Wl,--push-state,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -Wl,--pop-state)
  endif()
endfunction()
