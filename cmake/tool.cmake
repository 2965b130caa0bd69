# The command line tool, and the benchmarks and peers that it runs.

# `library` as a static archive where DWELL_PORTABLE asks for it.
function(dwell_find_library variable name)
  if(DWELL_PORTABLE)
    set(names lib${name}.a)
  else()
    set(names ${name})
  endif()
  find_library(${variable} NAMES ${names} REQUIRED)
endfunction()

file(GLOB tool_sources CONFIGURE_DEPENDS tools/dwell/*.cpp)
list(FILTER tool_sources EXCLUDE REGEX "\\.test\\.cpp$")
file(GLOB bench_sources CONFIGURE_DEPENDS bench/*.cpp)
list(FILTER bench_sources EXCLUDE REGEX "\\.test\\.cpp$")
file(GLOB bench_tbb_sources CONFIGURE_DEPENDS bench/tbb/*.cpp)
file(GLOB bench_openmp_sources CONFIGURE_DEPENDS bench/openmp/*.cpp)

find_package(nlohmann_json REQUIRED)

dwell_precompile(dwell_tool_headers -fPIC)

if(bench_sources)
  add_library(dwell_bench STATIC ${bench_sources})
  target_include_directories(dwell_bench PUBLIC bench PRIVATE "${PROJECT_SOURCE_DIR}" src)
  target_link_libraries(dwell_bench PUBLIC dwell::dwell nlohmann_json::nlohmann_json)
  dwell_warnings(dwell_bench)
  dwell_use_cuda_headers(dwell_bench)
  target_precompile_headers(dwell_bench REUSE_FROM dwell_tool_headers)
endif()

# Peers with libraries of their own are modules that the benchmarks open when they lie beside the tool: oneTBB has no static library in
# Debian, and the tool runs without either.
function(dwell_bench_module name library)
  add_library(${name} MODULE ${ARGN})
  target_include_directories(${name} PRIVATE bench "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${library})
  dwell_warnings(${name})
  set_target_properties(${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name})
endfunction()

if(bench_tbb_sources)
  find_package(TBB QUIET)
  if(TBB_FOUND)
    dwell_bench_module(dwell_bench_tbb TBB::tbb ${bench_tbb_sources})
  else()
    message(STATUS "dwell: oneTBB not found, its benchmark peer is left out")
  endif()
endif()
if(bench_openmp_sources)
  find_package(OpenMP QUIET COMPONENTS CXX)
  if(OpenMP_CXX_FOUND)
    dwell_bench_module(dwell_bench_openmp OpenMP::OpenMP_CXX ${bench_openmp_sources})
  else()
    message(STATUS "dwell: OpenMP not found, its benchmark peer is left out")
  endif()
endif()

if(tool_sources)
  find_package(CLI11 REQUIRED)
  find_path(DWELL_TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
  find_path(DWELL_PNG_INCLUDE png.h REQUIRED)
  find_path(DWELL_JPEG_INCLUDE jpeglib.h REQUIRED)
  dwell_find_library(DWELL_PNG png)
  dwell_find_library(DWELL_ZLIB z)
  dwell_find_library(DWELL_JPEG jpeg)

  # A library, so that the tool's tests link what the tool is made of.
  list(FILTER tool_sources EXCLUDE REGEX "/main\\.cpp$")
  add_library(dwell_tool STATIC ${tool_sources})
  target_include_directories(dwell_tool PUBLIC tools/dwell src "${PROJECT_SOURCE_DIR}")
  target_include_directories(dwell_tool SYSTEM PUBLIC "${DWELL_TOMLPLUSPLUS_INCLUDE}" "${DWELL_PNG_INCLUDE}" "${DWELL_JPEG_INCLUDE}")
  target_compile_definitions(dwell_tool PUBLIC TOML_HEADER_ONLY=1 DWELL_VERSION="${PROJECT_VERSION}")
  target_precompile_headers(dwell_tool REUSE_FROM dwell_tool_headers)
  target_link_libraries(dwell_tool
    PUBLIC dwell::dwell nlohmann_json::nlohmann_json CLI11::CLI11 "${DWELL_PNG}" "${DWELL_ZLIB}" "${DWELL_JPEG}" m
  )
  dwell_warnings(dwell_tool)
  if(TARGET dwell_bench)
    target_link_libraries(dwell_tool PUBLIC $<LINK_LIBRARY:WHOLE_ARCHIVE,dwell_bench>)  # its sources register themselves
  endif()

  file(GLOB tool_main CONFIGURE_DEPENDS tools/dwell/main.cpp)
  if(tool_main)
    add_executable(dwell_cli tools/dwell/main.cpp)
    set_target_properties(dwell_cli PROPERTIES OUTPUT_NAME dwell RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
    target_compile_options(dwell_cli PRIVATE $<$<CONFIG:Release>:-O1>)  # the command line's options: instances of templates, run once
    target_link_libraries(dwell_cli PRIVATE dwell_tool)
    dwell_warnings(dwell_cli)
    if(DWELL_PORTABLE)
      target_link_options(dwell_cli PRIVATE -static-libstdc++ -static-libgcc)
    endif()
  endif()
endif()
