# A toolchain file: hone for aarch64, compiled on x86-64 by Debian's cross compiler. tools/aarch64 fetches what it needs and calls it:
# libraries of Debian's arm64 packages unpacked into HONE_AARCH64/packages, torch's aarch64 wheel into HONE_AARCH64/site.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)
set(CMAKE_STRIP aarch64-linux-gnu-strip)
set(HONE_CROSS_CC aarch64-linux-gnu-gcc-12)       # of the C in Rust's crates
set(HONE_RUST_TARGET aarch64-unknown-linux-gnu)   # `rustup target add`
set(HONE_AARCH64 ${CMAKE_CURRENT_LIST_DIR}/../third_party/aarch64 CACHE PATH "what tools/aarch64 fetched")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HONE_AARCH64)
get_filename_component(HONE_AARCH64_FULL ${HONE_AARCH64} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${HONE_AARCH64_FULL}/packages)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
