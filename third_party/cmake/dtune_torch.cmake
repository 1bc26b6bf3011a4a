# LibTorch from wherever CMAKE_PREFIX_PATH or Debian has it, as dtune::torch.
#
# ATen alone is used (no torch::nn; autograd in pretrain and in tests): its
# header costs a third of torch/torch.h.

if(NOT DEFINED ENV{TORCH_CUDA_ARCH_LIST} AND NOT TORCH_CUDA_ARCH_LIST)
  # CMake 3.25 with nvcc 13 fails in LibTorch's own detection (CUDA20 dialect).
  set(TORCH_CUDA_ARCH_LIST "9.0" CACHE STRING "For LibTorch's CMake files")
endif()
# PyTorch tells its users to give `<torch>/share/cmake`; with only that, the
# libraries of another LibTorch on the system would be found first.
string(REPLACE ":" ";" dtune_prefixes "$ENV{CMAKE_PREFIX_PATH}")
foreach(prefix IN LISTS CMAKE_PREFIX_PATH dtune_prefixes)
  if(prefix MATCHES "^(.+)/share/cmake/?$")
    list(PREPEND CMAKE_PREFIX_PATH ${CMAKE_MATCH_1})
  endif()
endforeach()
find_package(Torch REQUIRED)

add_library(dtune_torch INTERFACE)
add_library(dtune::torch ALIAS dtune_torch)
target_include_directories(dtune_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(dtune_torch INTERFACE ${TORCH_LIBRARIES})
# PyTorch's wheels export a Gloo of another version from libtorch_cpu.so, and
# parts of a C++ library (std::filesystem::remove_all) from libtorch.so; calls of
# ours that end there crash. Whichever library a program names first wins, so
# ours come before everything else.
target_link_options(dtune_torch INTERFACE
  "SHELL:-Wl,--push-state,--no-as-needed ${DTUNE_GLOO_LIBRARY} -lstdc++ -Wl,--pop-state")
# Wheels bring the headers of a newer fmt than the system's, without its library.
get_target_property(dtune_fmt_folder fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
  if(EXISTS ${folder}/fmt/format.h AND NOT folder IN_LIST dtune_fmt_folder)
    target_compile_definitions(dtune_torch INTERFACE FMT_HEADER_ONLY)
  endif()
endforeach()
# A CUDA build of PyTorch brings the NCCL that it was built with; an older one
# of the system lacks symbols that it needs.
get_filename_component(dtune_torch_root "${Torch_DIR}/../../.." ABSOLUTE)
file(GLOB dtune_nccl ${dtune_torch_root}/../nvidia/*nccl*/lib/libnccl.so.2
     ${dtune_torch_root}/../nvidia/nccl/lib/libnccl.so.2)
if(dtune_nccl)
  list(GET dtune_nccl 0 dtune_nccl)
  get_filename_component(dtune_nccl_folder ${dtune_nccl} DIRECTORY)
  target_link_libraries(dtune_torch INTERFACE ${dtune_nccl})
  target_link_options(dtune_torch INTERFACE -Wl,-rpath,${dtune_nccl_folder})
endif()
message(STATUS "LibTorch ${Torch_VERSION} in ${dtune_torch_root}")

# As dtune_module, for files that see LibTorch. The lowest such module, nn,
# compiles its headers for all.
function(dtune_torch_module name)
  dtune_module(${name} HEADERS dtune_nn ${ARGN})
  target_link_libraries(dtune_${name} PUBLIC dtune::torch)
endfunction()

# Lets a program that sees LibTorch use the precompiled headers.
function(dtune_torch_program target)
  dtune_use_headers(${target} dtune_nn)
endfunction()
