# The Python package: the extension dwell._dwell, with the library inside.
#
# In the build tree the package is build/<preset>/python/dwell (PYTHONPATH=build/<preset>/python); a wheel installs the component `python`.
# Uses Python and nanobind of build/python-venv, which script/bootstrap makes; with DWELL_BUILD_PYTHON=ON those that CMake finds.
# With DWELL_PREBUILT a wheel takes library, module and tool from a build folder and compiles nothing.

set(dwell_python_venv "${PROJECT_SOURCE_DIR}/build/python-venv/bin/python")
set(dwell_build_python ${DWELL_BUILD_PYTHON})
if(dwell_build_python STREQUAL "AUTO")
  set(dwell_build_python OFF)
  # A sanitizer would have to be loaded before the interpreter.
  if(PROJECT_IS_TOP_LEVEL AND DWELL_BUILD_TESTS AND NOT DWELL_SANITIZE)
    if(EXISTS "${dwell_python_venv}")
      set(dwell_build_python ON)
    else()
      message(STATUS "dwell: no build/python-venv (script/bootstrap), the Python package is left out")
    endif()
  endif()
endif()
if(NOT dwell_build_python)
  return()
endif()

if(NOT SKBUILD AND NOT Python_EXECUTABLE AND EXISTS "${dwell_python_venv}")
  set(Python_EXECUTABLE "${dwell_python_venv}")
endif()
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
if(NOT nanobind_ROOT AND NOT nanobind_DIR)
  execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
  )
endif()
find_package(nanobind CONFIG REQUIRED)

file(GLOB python_sources CONFIGURE_DEPENDS python/src/*.cpp)
nanobind_add_module(dwell_python NB_STATIC NOMINSIZE NB_SUPPRESS_WARNINGS ${python_sources})
set(dwell_python_path "${PROJECT_BINARY_DIR}/python")
set_target_properties(dwell_python PROPERTIES OUTPUT_NAME _dwell LIBRARY_OUTPUT_DIRECTORY "${dwell_python_path}/dwell")
target_compile_definitions(dwell_python PRIVATE DWELL_VERSION="${PROJECT_VERSION}")
target_link_libraries(dwell_python PRIVATE dwell::dwell)
# Another extension in the process may contain its own copy of dwell.
target_link_options(dwell_python PRIVATE -Wl,--exclude-libs,ALL)
if(DWELL_PORTABLE)
  dwell_link_for_glibc_2_28(dwell_python)
endif()
dwell_warnings(dwell_python)
if(DWELL_UNITY)
  set_target_properties(dwell_python PROPERTIES UNITY_BUILD ON)
endif()

# The build tree's package consists of links, so that edits need no build.
file(GLOB python_files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/python/dwell"
  python/dwell/*.py python/dwell/*.pyi python/dwell/py.typed
)
file(MAKE_DIRECTORY "${dwell_python_path}/dwell")
foreach(file IN LISTS python_files)
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/python/dwell/${file}" "${dwell_python_path}/dwell/${file}" SYMBOLIC)
endforeach()

# dwell.torch builds its extension on the user's machine, from its sources, the headers and the library.
file(MAKE_DIRECTORY "${dwell_python_path}/dwell/lib")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/python/dwell/torch" "${dwell_python_path}/dwell/torch" SYMBOLIC)
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/include" "${dwell_python_path}/dwell/include" SYMBOLIC)
file(CREATE_LINK "${PROJECT_BINARY_DIR}/libdwell.a" "${dwell_python_path}/dwell/lib/libdwell.a" SYMBOLIC)

# Entry points, as in an installed package: torch.compile finds the backend by its name. pyproject.toml declares them.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/pyproject.toml")
file(READ "${PROJECT_SOURCE_DIR}/pyproject.toml" project)
string(REGEX MATCH "\n\\[project\\.entry-points\\.\"([a-z_]+)\"\\]\n([^[]+)" entry_points "${project}")
string(REPLACE "\"" "" entry_points "${CMAKE_MATCH_2}")
set(metadata "${dwell_python_path}/dwell-${PROJECT_VERSION}.dist-info")
file(CONFIGURE OUTPUT "${metadata}/METADATA" CONTENT "Metadata-Version: 2.1\nName: dwell\nVersion: ${PROJECT_VERSION}\n")
file(CONFIGURE OUTPUT "${metadata}/entry_points.txt" CONTENT "[${CMAKE_MATCH_1}]\n${entry_points}")

if(NOT SKBUILD)
  return()
endif()
install(DIRECTORY include/ DESTINATION dwell/include COMPONENT python)
# dwell/bin has the tool, or the reason why it is missing (python/dwell/_tool.py).
if(DWELL_PREBUILT AND TARGET dwell_cli AND NOT EXISTS "${DWELL_PREBUILT}/dwell")
  set(dwell_tool_left_out "${DWELL_PREBUILT} had none when it was packed; build its target dwell_cli, and pack it again")
endif()
if(dwell_tool_left_out)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/left_out.txt" CONTENT "${dwell_tool_left_out}\n")
  install(FILES "${PROJECT_BINARY_DIR}/generated/left_out.txt" DESTINATION dwell/bin COMPONENT python)
endif()
add_custom_target(dwell_package) # everything built for a wheel, see pyproject.toml
if(DWELL_PREBUILT)
  if(NOT EXISTS "${DWELL_PREBUILT}/libdwell.a")
    message(FATAL_ERROR "dwell: DWELL_PREBUILT=${DWELL_PREBUILT} has no libdwell.a: name the folder of a build, build/release for one")
  endif()
  install(FILES "${DWELL_PREBUILT}/libdwell.a" DESTINATION dwell/lib COMPONENT python)
  install(PROGRAMS "${DWELL_PREBUILT}/python/dwell/$<TARGET_FILE_NAME:dwell_python>" DESTINATION dwell COMPONENT python)
  if(NOT dwell_tool_left_out)
    install(PROGRAMS "${DWELL_PREBUILT}/dwell" DESTINATION dwell/bin COMPONENT python)
  endif()
else()
  add_dependencies(dwell_package dwell dwell_python)
  install(TARGETS dwell ARCHIVE DESTINATION dwell/lib COMPONENT python)
  install(TARGETS dwell_python LIBRARY DESTINATION dwell COMPONENT python)
  if(TARGET dwell_cli)
    add_dependencies(dwell_package dwell_cli)
    install(TARGETS dwell_cli RUNTIME DESTINATION dwell/bin COMPONENT python)
  endif()
endif()
