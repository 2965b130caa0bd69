# All tests. Each has a label named after its folder: ctest -L unit, -L conformance, -L stress, -L gpu, -L headers, -L install ...

find_package(GTest REQUIRED)
find_package(nlohmann_json REQUIRED)
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
include(GoogleTest)

# As in cmake/cuda.cmake: define paths only for the sources that read them.
file(GLOB_RECURSE dwell_path_readers CONFIGURE_DEPENDS src/*embedded.test.cpp src/*driver.test.cpp src/*cuda_backend.test.cpp)
set_property(SOURCE ${dwell_path_readers} APPEND PROPERTY
  COMPILE_DEFINITIONS DWELL_SOURCE_DIR="${PROJECT_SOURCE_DIR}" DWELL_BINARY_DIR="${PROJECT_BINARY_DIR}")

# Compiling tests costs more than running them. Precompiled headers require the same optimisation.
set(dwell_test_optimisation -O0)

dwell_precompile(dwell_test_headers -fPIE <gmock/gmock.h> <gtest/gtest.h>)
target_link_libraries(dwell_test_headers PRIVATE GTest::gtest GTest::gmock)
target_compile_options(dwell_test_headers PRIVATE ${dwell_test_optimisation})

# Suites of the numbers that tensors' operations give, with the label `numbers` under sanitizers: threads do not change them, so the thread
# sanitizer's run may leave them out.
set(dwell_number_suites
    CompiledProgramsTest
    TensorLayoutsTest
    TensorProductsTest
    TensorReductionTest
    TensorSelectionsTest
    TensorTruncationTest
    TensorTypesTest)

# Builds one executable from SOURCES and registers each of its tests, each in its own process. A test that calls GTEST_SKIP shows as
# skipped. Each suite in TOGETHER is one test and one process, with the label `compilers` too: its cases share slow compilations. Under sanitizers
# every suite is one process: starting one costs as much as most tests.
function(dwell_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;PROCESSORS" "SOURCES;LIBRARIES;TOGETHER")
  if(NOT arg_SOURCES)
    return()
  endif()
  # `unit` has it among its sources.
  if(DWELL_SANITIZE AND NOT name STREQUAL unit)
    list(APPEND arg_SOURCES tests/unit/leak_search.cpp)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE src "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE
    DWELL_HOST_COMPILER="${CMAKE_CXX_COMPILER}" DWELL_HOST_FLAGS="${dwell_host_flags}"
  )
  if(NOT name STREQUAL stress OR DWELL_SANITIZE)
    target_compile_options(${name} PRIVATE ${dwell_test_optimisation})
  endif()
  if(DWELL_UNITY AND name MATCHES "^(unit|conformance|stress|gpu|tool|scarcity)$")
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON)
  endif()
  # g++ 12 crashes on headers that were parsed with another -O.
  if(NOT name STREQUAL stress)
    target_precompile_headers(${name} REUSE_FROM dwell_test_headers)
  endif()
  target_link_libraries(${name} PRIVATE dwell::dwell ${arg_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  dwell_warnings(${name})
  dwell_use_cuda_headers(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")

  set(suites ${arg_TOGETHER})
  if(DWELL_SANITIZE)
    dwell_suites_of(suites ${arg_SOURCES})
  else()
    dwell_filter_of(patterns ${arg_TOGETHER})
    gtest_discover_tests(${name}
      TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_FILTER "-${patterns}"
      PROPERTIES LABELS ${name} TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_PROCESSORS}
    )
  endif()
  foreach(suite IN LISTS suites)
    dwell_filter_of(patterns ${suite})
    set(labels ${name})
    set(limit 600)
    if(suite IN_LIST dwell_number_suites)
      list(APPEND labels numbers)
    endif()
    if(suite IN_LIST arg_TOGETHER)
      list(APPEND labels compilers)
      set(limit 900)
    endif()
    add_test(NAME ${name}.${suite} COMMAND ${name} --gtest_filter=${patterns})
    # gtest lists skipped tests at the end of its output, unless one failed. Start the longest first, so that none runs alone at the end.
    set_tests_properties(${name}.${suite} PROPERTIES LABELS "${labels}" TIMEOUT ${limit} PROCESSORS ${arg_PROCESSORS} COST 100
      FAIL_REGULAR_EXPRESSION "Running 0 tests" SKIP_REGULAR_EXPRESSION "PASSED  . 0 tests[.]\n(.  SKIPPED .[^\n]*\n)+$"
    )
  endforeach()
endfunction()

# Sets `result` to gtest's filter for the suites, instantiated and typed ones included.
function(dwell_filter_of result)
  set(patterns ${ARGN})
  list(TRANSFORM patterns REPLACE "(.+)" "\\1.*:*/\\1.*:\\1/*:*/\\1/*")
  list(JOIN patterns ":" patterns)
  set(${result} "${patterns}" PARENT_SCOPE)
endfunction()

# Sets `result` to the suites that sources define; configures again when one of them changes.
function(dwell_suites_of result)
  set(suites "")
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    file(STRINGS "${source}" tests REGEX "^(TYPED_)?TEST(_F|_P)?\\(")
    list(TRANSFORM tests REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+),.*" "\\1")
    list(APPEND suites ${tests})
  endforeach()
  list(REMOVE_DUPLICATES suites)
  set(${result} "${suites}" PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE unit_sources CONFIGURE_DEPENDS src/*.test.cpp include/*.test.cpp tests/unit/*.cpp)
if(NOT DWELL_CUDA_INCLUDE)
  list(FILTER unit_sources EXCLUDE REGEX "${dwell_cuda_source_pattern}")
endif()
# These compile the resident loop for each architecture.
set(cuda_suites "")
if(DWELL_CUDA_INCLUDE)
  set(cuda_suites
      CudaCubinTest
      CudaKitTest
      CudaTensorTest
      CudaLogTest
      CudaLoopTest
      CudaRegisterLimitTest
      CudaTiersTest
      CudaTiersFiguresTest
      NvrtcOptionsCompiled)
endif()
dwell_test(unit SOURCES ${unit_sources} LIBRARIES nlohmann_json::nlohmann_json TIMEOUT 120 PROCESSORS 1 TOGETHER ${cuda_suites})

if(TARGET dwell_tool)
  file(GLOB_RECURSE tool_test_sources CONFIGURE_DEPENDS tools/*.test.cpp)
  if(TARGET dwell_bench)
    file(GLOB_RECURSE bench_test_sources CONFIGURE_DEPENDS bench/*.test.cpp)
    list(APPEND tool_test_sources ${bench_test_sources})
  endif()
  dwell_test(tool SOURCES ${tool_test_sources} LIBRARIES dwell_tool TIMEOUT 120 PROCESSORS 1)
  if(TARGET tool AND TARGET dwell_cli)
    target_compile_definitions(tool PRIVATE DWELL_TOOL="$<TARGET_FILE:dwell_cli>")
    add_dependencies(tool dwell_cli)
  endif()
endif()

if(TARGET dwell_prometheus)
  file(GLOB exporter_test_sources CONFIGURE_DEPENDS exporter/*.test.cpp)
  dwell_test(exporter SOURCES ${exporter_test_sources} LIBRARIES dwell_prometheus TIMEOUT 120 PROCESSORS 1)
endif()

# Sanitizers define the same functions.
if(DWELL_HAS_NEWER_GLIBC AND NOT DWELL_SANITIZE)
  dwell_test(portable SOURCES portable/glibc_2_28.test.cpp portable/glibc_2_28.cpp portable/start_2_28.cpp TIMEOUT 120 PROCESSORS 1)
endif()

file(GLOB conformance_sources CONFIGURE_DEPENDS tests/conformance/*.cpp)
dwell_test(conformance SOURCES ${conformance_sources} LIBRARIES nlohmann_json::nlohmann_json TIMEOUT 300 PROCESSORS 1)

file(GLOB stress_sources CONFIGURE_DEPENDS tests/stress/*.cpp)
dwell_test(stress SOURCES ${stress_sources} TIMEOUT 900 PROCESSORS 2)

# Separate, because its operator new fails on request.
file(GLOB scarcity_sources CONFIGURE_DEPENDS tests/scarcity/*.cpp)
dwell_test(scarcity SOURCES ${scarcity_sources} TIMEOUT 300 PROCESSORS 1 TOGETHER ScarceTensorsTest)

# These use CUDA beside dwell, as other code in the process may.
if(DWELL_CUDA_INCLUDE)
  file(GLOB gpu_sources CONFIGURE_DEPENDS tests/gpu/*.cpp)
  file(GLOB peer_sources CONFIGURE_DEPENDS bench/cuda_*.cpp)
  list(FILTER peer_sources EXCLUDE REGEX "\\.test\\.cpp$")
  dwell_test(gpu SOURCES ${gpu_sources} ${peer_sources} bench/operators.cpp TIMEOUT 300 PROCESSORS 2)
endif()

# Separate, because a process searches for a tool only once. The tool is a library that NVTX opens.
if(DWELL_NVTX_INCLUDE)
  add_library(nvtx_injection MODULE tests/nvtx/injection.cpp)
  target_link_libraries(nvtx_injection PRIVATE ${CMAKE_DL_LIBS})
  dwell_warnings(nvtx_injection)
  dwell_use_nvtx_headers(nvtx_injection)
  set_target_properties(nvtx_injection PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  dwell_test(nvtx SOURCES tests/nvtx/ranges.cpp TIMEOUT 120 PROCESSORS 1)
  target_compile_definitions(nvtx PRIVATE DWELL_TEST_NVTX_INJECTION="$<TARGET_FILE:nvtx_injection>")
  add_dependencies(nvtx nvtx_injection)
endif()
add_subdirectory(tests/headers)

# ---- Tests that are commands ---------------------------------------------------------------------------------------------------

function(dwell_command_test name label)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 600 WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endfunction()

find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(example IN LISTS dwell_examples)
  dwell_command_test(examples.${example} examples example_${example})
endforeach()

if(TARGET dwell_cli)
  dwell_command_test(tool.doctor tool dwell_cli doctor)
  # The portrait from matplotlib, which script/bootstrap installs.
  file(GLOB picture "${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/matplotlib/mpl-data/sample_data/grace_hopper.jpg")
  if(picture)
    dwell_command_test(tool.demo tool dwell_cli demo --image "${picture}")
  endif()
endif()

# Runs conformance under compute-sanitizer: minutes on a GPU; skipped without a GPU or compute-sanitizer.
if(DWELL_CUDA_INCLUDE)
  dwell_command_test(gpu.sanitizer gpu "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/script/sanitize.py" "$<TARGET_FILE:conformance>")
  set_tests_properties(gpu.sanitizer PROPERTIES SKIP_RETURN_CODE 77 RUN_SERIAL ON)
endif()

dwell_command_test(layering layering "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/layering/check.py")
dwell_command_test(layering.rules layering "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/layering/check_test.py")
# Builds the site of docs, if script/bootstrap has installed its tools.
dwell_command_test(script.docs script "${PROJECT_SOURCE_DIR}/script/docs" --no-install)
set_tests_properties(script.docs PROPERTIES SKIP_RETURN_CODE 2)
dwell_command_test(script.add_to_wheel script "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/script/add_to_wheel_test.py")
dwell_command_test(script.docs_pages script "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/script/docs_pages_test.py")
dwell_command_test(script.figures script "${PROJECT_SOURCE_DIR}/script/figures" --check)
dwell_command_test(script.links script "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/script/links_test.py")
dwell_command_test(script.messages script "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/script/messages_test.py")
dwell_command_test(script.pictures script "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/script/pictures_test.py")
dwell_command_test(script.run_apart script "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/script/run_apart_test.py")
dwell_command_test(script.sanitize script "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/script/sanitize_test.py")
dwell_command_test(script.test_names script "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/script/test_names_test.py")
dwell_command_test(script.tidy script "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/script/tidy_test.py")

add_subdirectory(tests/formats)

# One test per file: each is a process, and defines the operators that its cases share.
if(TARGET dwell_python)
  execute_process(COMMAND "${Python_EXECUTABLE}" -c "import numpy, pytest" RESULT_VARIABLE dwell_no_pytest OUTPUT_QUIET ERROR_QUIET)
  if(dwell_no_pytest)
    message(STATUS "dwell: ${Python_EXECUTABLE} has not pytest and NumPy, the tests of the Python package are left out")
  else()
    dwell_command_test(script.run_pytest script "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/script/run_pytest_test.py")
    set(python_environment "PYTHONPATH=${dwell_python_path}" PYTHONDONTWRITEBYTECODE=1)
    if(TARGET dwell_cli)
      list(APPEND python_environment "DWELL_TEST_TOOL=$<TARGET_FILE:dwell_cli>")
    endif()
    file(GLOB python_tests CONFIGURE_DEPENDS python/tests/test_*.py)
    foreach(file IN LISTS python_tests)
      cmake_path(GET file STEM name)
      string(REPLACE "test_" "" name ${name})
      dwell_command_test(python.${name} python "${Python_EXECUTABLE}" -m pytest -q -p no:cacheprovider "${file}")
      # 5: nothing could be collected, as without PyTorch.
      set_tests_properties(python.${name} PROPERTIES ENVIRONMENT "${python_environment}" SKIP_RETURN_CODE 5)
    endforeach()
  endif()
endif()

if(EXISTS "${PROJECT_SOURCE_DIR}/include/dwell/runtime.hpp")
  dwell_command_test(install install "${PROJECT_SOURCE_DIR}/tests/install/run" "${PROJECT_BINARY_DIR}" "${CMAKE_CXX_COMPILER}" "${dwell_host_flags}")
endif()

# Off by default: they search state spaces for minutes on every core.
option(DWELL_MODEL_TESTS "Check the Spin models as tests" OFF)
find_program(DWELL_SPIN spin)
if(DWELL_MODEL_TESTS AND DWELL_SPIN AND EXISTS "${PROJECT_SOURCE_DIR}/tests/model/run")
  file(GLOB models CONFIGURE_DEPENDS tests/model/*.pml)
  foreach(model IN LISTS models)
    cmake_path(GET model STEM name)
    dwell_command_test(model.${name} model "${PROJECT_SOURCE_DIR}/tests/model/run" "${name}")
    set_tests_properties(model.${name} PROPERTIES RUN_SERIAL ON)
  endforeach()
endif()
if(TARGET dwell_cli)
  add_subdirectory(tests/tool "${PROJECT_BINARY_DIR}/tests/end_to_end")  # tests/tool is the name of an executable
endif()
