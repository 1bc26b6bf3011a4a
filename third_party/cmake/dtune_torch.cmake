# LibTorch from wherever CMAKE_PREFIX_PATH or Debian has it, as dtune::torch.
#
# ATen alone is used (no torch::nn, no autograd but in tests): its header costs
# a third of torch/torch.h. One precompiled header serves every file that sees
# it; dtune_torch_module makes such a library.

if(NOT DEFINED ENV{TORCH_CUDA_ARCH_LIST} AND NOT TORCH_CUDA_ARCH_LIST)
  # CMake 3.25 with nvcc 13 fails in LibTorch's own detection (CUDA20 dialect).
  set(TORCH_CUDA_ARCH_LIST "9.0" CACHE STRING "For LibTorch's CMake files")
endif()
find_package(Torch REQUIRED)

add_library(dtune_torch INTERFACE)
add_library(dtune::torch ALIAS dtune_torch)
target_include_directories(dtune_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(dtune_torch INTERFACE ${TORCH_LIBRARIES})

add_library(dtune_torch_pch OBJECT ${CMAKE_SOURCE_DIR}/lib/dtune/nn/precompiled.cc)
target_link_libraries(dtune_torch_pch PRIVATE dtune::torch)
target_include_directories(dtune_torch_pch PRIVATE ${CMAKE_SOURCE_DIR}/lib)
target_precompile_headers(dtune_torch_pch PRIVATE <ATen/ATen.h>)

# As dtune_module, for files that see LibTorch.
function(dtune_torch_module name)
  dtune_module(${name} ${ARGN})
  target_link_libraries(dtune_${name} PUBLIC dtune::torch)
  target_precompile_headers(dtune_${name} REUSE_FROM dtune_torch_pch)
endfunction()
