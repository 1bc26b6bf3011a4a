# How every target of dtune is made: one place for warnings, linker and tests.

# Several sources of a module, or tests, are compiled as one: a third of the time
# of a clean build. Not more at once: a touched source rebuilds in less than 20 s.
option(DTUNE_UNITY "Compile the sources of a module in batches" ON)
set(CMAKE_UNITY_BUILD ${DTUNE_UNITY})
set(DTUNE_TEST_BATCH_SIZE 8)

# The sources of a target in as many batches as it takes with at most `most` in
# each, of nearly one size: a rest of two sources would pay for all its headers.
function(dtune_batches target most)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  math(EXPR batches "(${count} + ${most} - 1) / ${most}")
  math(EXPR size "(${count} + ${batches} - 1) / ${batches}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE ${size})
endfunction()

add_library(dtune_warnings INTERFACE)
target_compile_options(dtune_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  # Fields that a designated initialiser leaves out have their defaults.
  -Wno-missing-field-initializers
  # GCC 12 sees overlaps in std::string that are not there (its bug 105651), and
  # with -O1 values in std::regex that are uninitialized.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  # In a unity build GCC takes a source's anonymous namespace for a header's.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${DTUNE_UNITY}>>:-Wno-subobject-linkage>)

# What users get finds an index past the end of a vector or string, and a write
# past the end of a buffer whose size is known, and ends there in words. Other
# configurations have the sanitizers for it. -O1 takes two thirds of the time of -O3;
# with what is added to it, at no cost, loops over arrays have vector instructions
# and small functions are inlined.
set(ordinary $<AND:$<CONFIG:Release>,$<NOT:$<BOOL:$<TARGET_PROPERTY:DTUNE_NUMERIC>>>>)
target_compile_options(dtune_warnings INTERFACE
  $<$<CONFIG:Release>:-U_FORTIFY_SOURCE>
  $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=3>
  $<${ordinary}:-D_GLIBCXX_ASSERTIONS>
  $<${ordinary}:-O1>
  $<${ordinary}:-ftree-vectorize>
  $<${ordinary}:-fstrict-aliasing>
  $<${ordinary}:-finline-small-functions>)

# For a target whose time is spent in its own loops over arrays, whose sizes are
# checked where they come in: -O3 without a check of every index, and optimised
# with sanitizers as well, whose presets have -Og. Precompiled headers are of the
# other kind.
function(dtune_numeric target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O1>)
  set_target_properties(${target} PROPERTIES
    DTUNE_NUMERIC ON DISABLE_PRECOMPILE_HEADERS ON)
endfunction()

# Of files that are compiled for one instruction set; lib/dtune/base/cpu.h says
# whether they may run.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(DTUNE_AVX2_FLAGS -mavx2 -mfma)
  set(DTUNE_AVX512_FLAGS -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma)
endif()

# GCC collects its garbage less often: an eighth of its time, for a seventh more
# memory.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>)

# The same sources give the same program, wherever they lie.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>)

find_program(DTUNE_CCACHE ccache)
if(DTUNE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness lets ccache work with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${DTUNE_CCACHE})
endif()
find_program(DTUNE_MOLD mold)
if(DTUNE_MOLD AND CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  add_link_options(-fuse-ld=mold)
endif()

# What most sources include. The lowest module, base, compiles it once for all:
# a second less for each batch.
set(DTUNE_HEADERS
  <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <cstdint> <deque>
  <filesystem> <fstream> <functional> <map> <memory> <mutex> <numeric> <optional>
  <set> <span> <sstream> <string> <string_view> <thread> <utility> <variant>
  <vector> <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)

# dtune_module(<name> [BATCH <sources>] [HEADERS <target>]
#              SOURCES ... DEPENDS ... [PRIVATE_DEPENDS ...])
# A static library dtune_<name>; DEPENDS are modules or imported targets. BATCH:
# at most so many sources at once, where they take longer than others'. HEADERS:
# whose precompiled headers it uses, if not those of base.
function(dtune_module name)
  cmake_parse_arguments(ARG "" "BATCH;HEADERS" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  if(NOT ARG_BATCH)
    set(ARG_BATCH 24)
  endif()
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS dtune_base)
  endif()
  set(target dtune_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  dtune_batches(${target} ${ARG_BATCH})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/lib)
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS}
                        PRIVATE ${ARG_PRIVATE_DEPENDS} dtune_warnings)
  if(NOT ARG_HEADERS STREQUAL target)
    target_precompile_headers(${target} REUSE_FROM ${ARG_HEADERS})
  endif()
endfunction()

# For programs: precompiled headers are built as libraries are (-fPIC, not -fPIE).
function(dtune_use_headers target headers)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()

# An exception in an assertion ends its test case: the assertions then need no
# handlers of their own, which are a quarter of what is compiled.
set(DTUNE_DOCTEST DOCTEST_CONFIG_SUPER_FAST_ASSERTS)

# What all test programs share, compiled once: doctest's main and the headers
# that most tests include. On demand, since doctest is found with tests only.
function(dtune_test_parts)
  if(TARGET dtune_test_main)
    return()
  endif()
  add_library(dtune_test_main OBJECT ${CMAKE_SOURCE_DIR}/tests/main.cc)
  add_library(dtune_test_pch OBJECT ${CMAKE_SOURCE_DIR}/tests/precompiled.cc)
  foreach(part IN ITEMS dtune_test_main dtune_test_pch)
    target_link_libraries(${part} PRIVATE doctest::doctest fmt::fmt dtune_warnings)
    target_compile_definitions(${part} PRIVATE ${DTUNE_DOCTEST})
  endforeach()
  target_precompile_headers(dtune_test_pch PRIVATE
    <algorithm> <cmath> <filesystem> <functional> <map> <memory> <optional>
    <string> <thread> <vector> <fmt/format.h> <nlohmann/json.hpp>
    <doctest/doctest.h>)
endfunction()

# dtune_test(<module> SOURCES ... DEPENDS ... [PER_FILE] [TORCH] [LABELS ...])
# One program of doctest cases; every case is an entry of ctest of its own,
# with PER_FILE every file (where starting the program is dear). TORCH: its
# sources see LibTorch. What cannot run on this machine is shown as skipped
# (tests/skip.h).
function(dtune_test module)
  cmake_parse_arguments(ARG "PER_FILE;TORCH" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set(target ${module}_test)
  dtune_test_parts()
  add_executable(${target} ${ARG_SOURCES})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${target} PRIVATE
    DTUNE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" DTUNE_BINARY="$<TARGET_FILE:dtune>"
    ${DTUNE_DOCTEST})
  target_link_libraries(${target} PRIVATE ${ARG_DEPENDS} dtune_test_main doctest::doctest fmt::fmt dtune_warnings)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD_BATCH_SIZE ${DTUNE_TEST_BATCH_SIZE}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(ARG_TORCH)
    dtune_torch_program(${target})
  else()
    dtune_use_headers(${target} dtune_test_pch)
  endif()
  if(ARG_PER_FILE)
    foreach(source IN LISTS ARG_SOURCES)
      get_filename_component(stem ${source} NAME_WE)
      add_test(NAME ${module}.${stem} COMMAND ${target} --source-file=*${stem}.cc)
      set_tests_properties(${module}.${stem} PROPERTIES
        TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77 LABELS "${ARG_LABELS}")
    endforeach()
  else()
    doctest_discover_tests(${target} TEST_PREFIX "${module}: "
      PROPERTIES TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77 LABELS "${ARG_LABELS}")
  endif()
endfunction()
