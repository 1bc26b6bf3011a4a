# Where everything comes from: Debian's packages (third_party/README.md says
# why each is there). Nothing is downloaded.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(zmq REQUIRED IMPORTED_TARGET libzmq)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(zip REQUIRED IMPORTED_TARGET libzip)
find_path(DTUNE_MSGPACK_INCLUDE msgpack.hpp REQUIRED)
add_library(dtune::msgpack INTERFACE IMPORTED)
target_include_directories(dtune::msgpack SYSTEM INTERFACE ${DTUNE_MSGPACK_INCLUDE})
# Only training by several processes needs Gloo. A build without LibTorch has
# what is made of it (sums over ranks, `dtune bench comm`) where it is found.
find_path(DTUNE_GLOO_INCLUDE gloo/transport/tcp/device.h)
find_library(DTUNE_GLOO_LIBRARY gloo)
if(DTUNE_GLOO_INCLUDE AND DTUNE_GLOO_LIBRARY)
  add_library(dtune::gloo UNKNOWN IMPORTED)
  set_target_properties(dtune::gloo PROPERTIES
    IMPORTED_LOCATION ${DTUNE_GLOO_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${DTUNE_GLOO_INCLUDE})
  # Debian leaves out one header that others include.
  if(NOT EXISTS ${DTUNE_GLOO_INCLUDE}/gloo/common/memory.h)
    set_property(TARGET dtune::gloo APPEND PROPERTY
      INTERFACE_INCLUDE_DIRECTORIES ${CMAKE_SOURCE_DIR}/third_party/gloo)
  endif()
elseif(DTUNE_TORCH)
  message(FATAL_ERROR "Gloo is missing (Debian: libgloo-dev); only "
    "-DDTUNE_TORCH=OFF builds without it")
endif()
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
if(DTUNE_BUILD_TESTS)
  find_package(doctest REQUIRED)
  include(doctest)
endif()
if(DTUNE_TORCH)
  include(dtune_torch)
endif()
include(dtune_nccl)
