# hone_room(NAME PLAIN|TORCH deps...): src/NAME/*.cpp as the static library hone_NAME.
# TORCH rooms share one precompiled header for ATen (hone_pch): a translation unit costs 2.5 s instead of 9.

set(HONE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wconversion -Werror
    -Wno-missing-field-initializers)  # designated initialisers leave out what keeps its default
# g++ 12 sees uninitialised values in its own <regex> when it instruments it.
set(HONE_SANITIZE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1
    -Wno-maybe-uninitialized)

if(HONE_TSAN)
  set(HONE_SANITIZE -fsanitize=thread -fno-omit-frame-pointer -g1 -Wno-tsan)  # -Wno-tsan: fences, in libstdc++'s own headers
endif()

function(hone_our_code target)
  target_compile_options(${target} PRIVATE ${HONE_WARNINGS})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  if(HONE_ASAN OR HONE_TSAN)
    target_compile_options(${target} PRIVATE ${HONE_SANITIZE})
    target_link_options(${target} PRIVATE ${HONE_SANITIZE})
  endif()
endfunction()

# ATen for TORCH rooms. -fopenmp makes at::parallel_for parallel in our own code; the one libgomp in the
# process is the wheel's own, so it is linked by path and not through -fopenmp.
function(hone_uses_torch target)
  get_target_property(kind ${target} TYPE)
  if(kind STREQUAL EXECUTABLE)
    target_compile_options(${target} PRIVATE -fPIC)  # not -fPIE: the precompiled header was made with -fPIC
  endif()
  target_compile_options(${target} PRIVATE -fopenmp)
  target_link_libraries(${target} PUBLIC LibTorch::cpu ${LibTorch_LIB_DIR}/libgomp.so.1)
  if(NOT target STREQUAL hone_pch)
    target_precompile_headers(${target} REUSE_FROM hone_pch)
  endif()
endfunction()

file(WRITE ${CMAKE_BINARY_DIR}/pch_stub.cpp.in "int hone_pch_anchor = 0;\n")
configure_file(${CMAKE_BINARY_DIR}/pch_stub.cpp.in ${CMAKE_BINARY_DIR}/pch_stub.cpp COPYONLY)
add_library(hone_pch STATIC ${CMAKE_BINARY_DIR}/pch_stub.cpp)
hone_our_code(hone_pch)
hone_uses_torch(hone_pch)
target_precompile_headers(hone_pch PRIVATE <ATen/ATen.h> <torch/csrc/autograd/custom_function.h>)

function(hone_room name kind)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  if(NOT sources)
    add_library(hone_${name} INTERFACE)
    target_link_libraries(hone_${name} INTERFACE ${ARGN})
    return()
  endif()
  add_library(hone_${name} STATIC ${sources})
  hone_our_code(hone_${name})
  target_link_libraries(hone_${name} PUBLIC ${ARGN})
  if(kind STREQUAL TORCH)
    hone_uses_torch(hone_${name})
  endif()
endfunction()
