# NVTX's headers, version 3: with them the host's threads show ranges in Nsight Systems (src/runtime/observe/nvtx.cpp). Nothing is linked; a
# tool provides the library.
#
# DWELL_NVTX: ON, OFF, or AUTO: if nvtx3/nvToolsExt.h is found, in this order: next to CUDA's headers (cmake/cuda.cmake), in
# build/cuda-venv (which script/bootstrap makes), among the compiler's headers.
# Sets DWELL_NVTX_INCLUDE (empty: left out).

set(DWELL_NVTX_INCLUDE "")
if(DWELL_NVTX)
  file(GLOB dwell_nvtx_venv "${PROJECT_SOURCE_DIR}/build/cuda-venv/lib/python3*/site-packages/nvidia/cu13/include")
  find_path(dwell_nvtx_found nvtx3/nvToolsExt.h HINTS ${DWELL_CUDA_INCLUDE} ${dwell_nvtx_venv} NO_CACHE)
  if(dwell_nvtx_found)
    set(DWELL_NVTX_INCLUDE "${dwell_nvtx_found}")
    message(STATUS "dwell: NVTX headers in ${DWELL_NVTX_INCLUDE}")
  elseif(DWELL_NVTX STREQUAL "AUTO")
    message(STATUS "dwell: NVTX headers not found, Nsight Systems will not show what the host does")
  else()
    message(FATAL_ERROR "dwell: DWELL_NVTX=${DWELL_NVTX}, but nvtx3/nvToolsExt.h is not found: run script/bootstrap, or set DWELL_CUDA_PATH to a "
                        "CUDA toolkit, or leave it out with -D DWELL_NVTX=OFF")
  endif()
endif()

# Lets the sources of `target` that show ranges include NVTX's headers, if found.
function(dwell_use_nvtx_headers target)
  if(DWELL_NVTX_INCLUDE)
    target_include_directories(${target} SYSTEM PRIVATE "${DWELL_NVTX_INCLUDE}")
  endif()
endfunction()

# Define it only for this source, as in cmake/cuda.cmake.
if(DWELL_NVTX_INCLUDE)
  set_property(SOURCE src/runtime/observe/nvtx.cpp APPEND PROPERTY COMPILE_DEFINITIONS DWELL_WITH_NVTX=1)
endif()
