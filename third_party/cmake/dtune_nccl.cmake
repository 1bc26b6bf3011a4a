# NCCL and the CUDA runtime as dtune::nccl, where they are wanted and found.
#
# DTUNE_NCCL: ON wants them, OFF does without, AUTO takes them where LibTorch is
# one for CUDA: its own NCCL then, since two in one process are one too many.

set(DTUNE_NCCL AUTO CACHE STRING "Sums over the ranks of GPUs: AUTO, ON or OFF")
set_property(CACHE DTUNE_NCCL PROPERTY STRINGS AUTO ON OFF)
if(DTUNE_NCCL STREQUAL "OFF" OR
   (DTUNE_NCCL STREQUAL "AUTO" AND NOT TORCH_CUDA_LIBRARIES))
  return()
endif()

if(dtune_nccl)
  get_filename_component(dtune_nccl_root ${dtune_nccl} DIRECTORY)
  get_filename_component(dtune_nccl_root ${dtune_nccl_root} DIRECTORY)
endif()
find_package(CUDAToolkit QUIET)
find_path(DTUNE_NCCL_INCLUDE nccl.h
  HINTS ${dtune_nccl_root}/include ${CUDAToolkit_INCLUDE_DIRS})
# Folder by folder: LibTorch's own has no plain libnccl.so.
find_library(DTUNE_NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR
  HINTS ${dtune_nccl_root}/lib ${CUDAToolkit_LIBRARY_DIR})
if(CUDAToolkit_FOUND AND DTUNE_NCCL_INCLUDE AND DTUNE_NCCL_LIBRARY)
  add_library(dtune::nccl UNKNOWN IMPORTED)
  set_target_properties(dtune::nccl PROPERTIES
    IMPORTED_LOCATION ${DTUNE_NCCL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${DTUNE_NCCL_INCLUDE}
    INTERFACE_LINK_LIBRARIES CUDA::cudart)
  message(STATUS "NCCL ${DTUNE_NCCL_LIBRARY}")
elseif(DTUNE_NCCL STREQUAL "ON")
  message(FATAL_ERROR "DTUNE_NCCL=ON: nccl.h, libnccl or the CUDA toolkit is "
    "missing (CUDAToolkit_ROOT and CMAKE_PREFIX_PATH say where to look)")
endif()
