# CUDA's headers. Only headers are needed at build time: libcuda, NVRTC and nvJitLink are opened when the program runs.
#
# Uses the first folder that has all three headers, of version 13 or newer, in this order:
# DWELL_CUDA_PATH (variable, then environment), /usr/local/cuda, build/cuda-venv (which script/bootstrap makes).
# Sets DWELL_CUDA_INCLUDE (empty: the CUDA backend is left out) and DWELL_CUDA_LIBRARY_HINT (the folder of NVRTC and nvJitLink). If it is
# left out, sets DWELL_CUDA_LEFT_OUT to the reason and DWELL_CUDA_REMEDY to the remedy, which the library keeps for errors and `dwell doctor`.

# Sources that include CUDA's headers, and so are left out without them.
set(dwell_cuda_source_pattern "/src/(backend|jit)/cuda/")

set(DWELL_CUDA_INCLUDE "")
set(DWELL_CUDA_LIBRARY_HINT "")
set(DWELL_CUDA_LEFT_OUT "")
set(DWELL_CUDA_REMEDY "")

function(dwell_find_cuda)
  set(minimum 13000)
  set(seen "")
  file(GLOB venv "${PROJECT_SOURCE_DIR}/build/cuda-venv/lib/python3*/site-packages/nvidia/cu13")
  if(DWELL_CUDA_PATH)
    set(roots "${DWELL_CUDA_PATH}")
  elseif(DEFINED ENV{DWELL_CUDA_PATH})
    set(roots "$ENV{DWELL_CUDA_PATH}")
  else()
    set(roots /usr/local/cuda ${venv})
    if(NOT venv)
      set(seen "there is no build/cuda-venv")
    endif()
  endif()
  foreach(root IN LISTS roots)
    foreach(header IN ITEMS cuda.h nvrtc.h nvJitLink.h)
      if(NOT EXISTS "${root}/include/${header}")
        list(APPEND seen "${root}/include has no ${header}")
        set(root "")
        break()
      endif()
    endforeach()
    if(NOT root)
      continue()
    endif()
    file(STRINGS "${root}/include/cuda.h" version REGEX "^#define CUDA_VERSION [0-9]+$")
    string(REGEX REPLACE "[^0-9]" "" version "${version}")
    if(version LESS minimum)
      list(APPEND seen "${root} has CUDA ${version}, ${minimum} or newer is needed")
      continue()
    endif()
    file(GLOB libraries "${root}/lib64/libnvrtc.so*" "${root}/lib/libnvrtc.so*" "${root}/targets/*/lib/libnvrtc.so*")
    foreach(library IN LISTS libraries)
      cmake_path(GET library PARENT_PATH folder)
      set(DWELL_CUDA_LIBRARY_HINT "${folder}" PARENT_SCOPE)
      break()
    endforeach()
    set(DWELL_CUDA_INCLUDE "${root}/include" PARENT_SCOPE)
    message(STATUS "dwell: CUDA headers ${version} in ${root}/include")
    return()
  endforeach()
  list(JOIN seen ", " seen)
  set(DWELL_CUDA_LEFT_OUT "CUDA's headers were not found when it was built (${seen})" PARENT_SCOPE)
  set(DWELL_CUDA_REMEDY "run script/bootstrap, or set DWELL_CUDA_PATH to a CUDA toolkit, and build again" PARENT_SCOPE)
endfunction()
dwell_find_cuda()

# Lets `target` include CUDA's headers, if found.
function(dwell_use_cuda_headers target)
  if(DWELL_CUDA_INCLUDE)
    target_include_directories(${target} SYSTEM PRIVATE "${DWELL_CUDA_INCLUDE}")
    target_compile_definitions(${target} PRIVATE DWELL_WITH_CUDA=1)
  endif()
endfunction()

# Define paths only for the sources that read them: a compiler cache then also serves checkouts in other folders.
file(GLOB_RECURSE dwell_library_hint_readers CONFIGURE_DEPENDS src/jit/*cuda_library.cpp bench/cuda_kernels.cpp)
set_property(SOURCE ${dwell_library_hint_readers} APPEND PROPERTY
  COMPILE_DEFINITIONS DWELL_CUDA_LIBRARY_HINT="${DWELL_CUDA_LIBRARY_HINT}")
