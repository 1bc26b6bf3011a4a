# What `third_party/package deb` makes of a build: the package `dtune`, and
# `dtune-train` with the parts that need LibTorch or Gloo.

# Man pages, completions and papers, which the script has put there.
install(DIRECTORY ${CMAKE_BINARY_DIR}/package/program/
        DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT program OPTIONAL)
install(DIRECTORY ${CMAKE_BINARY_DIR}/package/train/
        DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT train OPTIONAL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program)
if(TARGET dtune_train_library)
  list(APPEND CPACK_COMPONENTS_ALL train)
endif()

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "dtune developers <dtune@lists.debian.org>")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME dtune)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "dtune-train (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "openssh-client, dataset-fashion-mnist")
# Under the project's own, which is the first line of both.
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
"dtune tunes and trains convolutional networks from the command line. One YAML
recipe says which data, which network and which parameters to tune; one
command finds the best point for the least compute and leaves a model file.
Any other program can be tuned the same way.

This package has the program. Training networks needs dtune-train.")

set(CPACK_DEBIAN_TRAIN_PACKAGE_NAME dtune-train)
set(CPACK_DEBIAN_TRAIN_PACKAGE_DEPENDS "dtune (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_TRAIN_PACKAGE_RECOMMENDS libopenblas0-pthread)
set(CPACK_COMPONENT_TRAIN_DESCRIPTION
"dtune tunes and trains convolutional networks from the command line.

This package has the libraries that train networks, alone or over several
machines, which the program loads when a study needs them: they bring
LibTorch and Gloo.")
include(CPack)
