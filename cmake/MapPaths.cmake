# HONE_MAP_PATHS: no folder of this machine in the programs, so that builds in two folders give the same bytes (tools/release,
# tests/python/reproducible_test.py). A program so built finds libtorch only where it is installed.
if(HONE_MAP_PATHS)
  # libtorch's headers say where they are in their errors (__FILE__).
  add_compile_options(-ffile-prefix-map=${CMAKE_BINARY_DIR}=build -ffile-prefix-map=${CMAKE_SOURCE_DIR}=hone -ffile-prefix-map=${LIBTORCH_ROOT}=torch)
  # The build's own RPATH would be replaced when it is installed, and leave a table of names as long as the folder's.
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  set(cargo_home $ENV{CARGO_HOME})
  if(NOT cargo_home)
    set(cargo_home $ENV{HOME}/.cargo)
  endif()
  set(HONE_TEXT_FFI_ENV "RUSTFLAGS=--remap-path-prefix=${cargo_home}=cargo --remap-path-prefix=${CMAKE_SOURCE_DIR}=hone"
    "CFLAGS=-ffile-prefix-map=${cargo_home}=cargo -ffile-prefix-map=${CMAKE_SOURCE_DIR}=hone")
endif()
