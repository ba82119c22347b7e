# The Rust crate text-ffi/ as the imported static library text_ffi (always --release: a debug tokenizer is 20x slower).
find_program(CARGO cargo HINTS ${CMAKE_SOURCE_DIR}/third_party/rust REQUIRED)
set(TEXT_FFI_DIR ${CMAKE_SOURCE_DIR}/text-ffi)
set(TEXT_FFI_TARGET ${CMAKE_SOURCE_DIR}/third_party/cargo-target)  # shared by every build folder
set(TEXT_FFI_LIB ${TEXT_FFI_TARGET}/release/libtext_ffi.a)
set(TEXT_FFI_ENV CARGO_TARGET_DIR=${TEXT_FFI_TARGET} ${HONE_TEXT_FFI_ENV})
if(EXISTS ${CMAKE_SOURCE_DIR}/third_party/rust/rustc)  # links of tools/setup.sh to programs with a version in their names
  list(APPEND TEXT_FFI_ENV RUSTC=${CMAKE_SOURCE_DIR}/third_party/rust/rustc)
endif()
set(TEXT_FFI_FOR)
if(HONE_RUST_TARGET)  # another processor's: cmake/aarch64.cmake
  set(TEXT_FFI_LIB ${TEXT_FFI_TARGET}/${HONE_RUST_TARGET}/release/libtext_ffi.a)
  string(REPLACE "-" "_" TEXT_FFI_NAME ${HONE_RUST_TARGET})
  list(APPEND TEXT_FFI_ENV CC_${TEXT_FFI_NAME}=${HONE_CROSS_CC})
  set(TEXT_FFI_FOR --target ${HONE_RUST_TARGET})
endif()
file(GLOB_RECURSE TEXT_FFI_SOURCES CONFIGURE_DEPENDS ${TEXT_FFI_DIR}/src/*.rs)
add_custom_command(OUTPUT ${TEXT_FFI_LIB}
  COMMAND ${CMAKE_COMMAND} -E env ${TEXT_FFI_ENV}
          ${CARGO} build ${TEXT_FFI_FOR} --release --locked -j2 --manifest-path ${TEXT_FFI_DIR}/Cargo.toml
  COMMAND ${CMAKE_COMMAND} -E touch ${TEXT_FFI_LIB}
  DEPENDS ${TEXT_FFI_SOURCES} ${TEXT_FFI_DIR}/Cargo.toml ${TEXT_FFI_DIR}/Cargo.lock
  USES_TERMINAL VERBATIM)
add_custom_target(text_ffi_cargo DEPENDS ${TEXT_FFI_LIB})
add_library(text_ffi STATIC IMPORTED GLOBAL)
set_target_properties(text_ffi PROPERTIES IMPORTED_LOCATION ${TEXT_FFI_LIB}
  INTERFACE_INCLUDE_DIRECTORIES ${TEXT_FFI_DIR}/include INTERFACE_LINK_LIBRARIES "pthread;dl;m")
add_dependencies(text_ffi text_ffi_cargo)
