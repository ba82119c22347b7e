# hone_room(NAME PLAIN|TORCH deps...): every .cpp below src/NAME as the static library hone_NAME.
# Rooms share two precompiled headers, of ATen (hone_pch) for TORCH and of JSON and text (hone_plain_pch) for PLAIN: a translation
# unit costs 2.5 s instead of 9, or 4 s less. Tests have two of their own. The compiler instantiates every template that a
# precompiled header waits for again in each unit, so what few files need stays out: custom_function.h costs 2 s a unit. The room of
# kernels has it (hone_ops_pch) until their speed without it has been measured (docs/log.md).

set(HONE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wconversion)
# Warnings are errors for the compiler of `./test`. Those that only a newer one has stop nobody's build; continuous integration has
# -Werror for all (.github/workflows/test.yml).
set(is_ours OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(is_ours ON)
endif()
option(HONE_WERROR "warnings are errors" ${is_ours})
if(HONE_WERROR)
  list(APPEND HONE_WARNINGS -Werror)
endif()
list(APPEND HONE_WARNINGS -Wno-missing-field-initializers)  # designated initializers leave out what keeps its default
# g++ 12 sees uninitialized values in its own <regex> when it instruments it, and in its own <immintrin.h>.
set(HONE_OWN_HEADERS -Wno-maybe-uninitialized)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # clang forgets, across a precompiled header, that libstdc++ allows itself deprecated names. Its -Wconversion asks for signs too, which
  # that of g++ does not, and -Wpedantic bounds literals, which embedded files exceed.
  list(APPEND HONE_WARNINGS -Wno-deprecated-declarations -Wno-sign-conversion -Wno-overlength-strings)
  set(HONE_OWN_HEADERS)
endif()
# g++ 13 takes a part of an argument for a part of a temporary, where another argument is one.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  list(APPEND HONE_WARNINGS -Wno-dangling-reference)
endif()
set(HONE_SANITIZE -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1 ${HONE_OWN_HEADERS})

# A room that no token's time depends on is optimized less: half of its compile time went there (docs/log.md). Its folders of loops
# have flags of their own (cmake/Folders.cmake).
set(HONE_COLD_ROOMS adapters commands config doctor report train)
set(HONE_COLD_OPTIONS -O1)
# From g++ 13 on -O2 sets an option of the processor that -O1 does not, and a precompiled header is refused where one differs.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-munroll-only-small-loops HONE_HAS_SMALL_LOOPS)
if(HONE_HAS_SMALL_LOOPS AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  list(APPEND HONE_COLD_OPTIONS -munroll-only-small-loops -mvzeroupper)
endif()

# g++ collects its garbage from 128 MB on; with the precompiled header in the heap that takes a quarter of its time. A unit holds up
# to 2 GB instead of 1.7.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(--param=ggc-min-heapsize=2000000)
endif()

# Code by clang calls libomp, and libtorch calls libgomp. libomp has the names of libgomp too: loaded first, it serves both, and the
# process has one team of threads.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND NOT HONE_FUZZ)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} --print-file-name=libomp.so OUTPUT_VARIABLE hone_libomp OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT IS_ABSOLUTE "${hone_libomp}")
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} has no libomp.so: install the package libomp-<version>-dev of the same version (Debian, Ubuntu)")
  endif()
  add_link_options(-Wl,--push-state,--no-as-needed ${hone_libomp} -Wl,--pop-state)
endif()

if(HONE_TSAN)
  set(HONE_SANITIZE -fsanitize=thread -fno-omit-frame-pointer -g1 $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)  # fences, in libstdc++'s own headers
endif()

function(hone_our_code target)
  target_compile_options(${target} PRIVATE ${HONE_WARNINGS})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  if(HONE_ASAN OR HONE_TSAN)
    target_compile_options(${target} PRIVATE ${HONE_SANITIZE})
    target_link_options(${target} PRIVATE ${HONE_SANITIZE})
  endif()
endfunction()

# hone_uses_torch(TARGET [HEADER]): ATen for TORCH rooms, with the precompiled header of the target HEADER. -fopenmp makes
# at::parallel_for parallel in our own code; the one libgomp in the process is the wheel's own, so it is linked by path
# and not through -fopenmp.
function(hone_uses_torch target)
  set(header hone_pch)
  if(ARGN)
    set(header ${ARGN})
  endif()
  get_target_property(kind ${target} TYPE)
  if(kind STREQUAL EXECUTABLE)
    target_compile_options(${target} PRIVATE -fPIC)  # not -fPIE: the precompiled header was made with -fPIC
  endif()
  target_compile_options(${target} PRIVATE -fopenmp)
  target_link_libraries(${target} PUBLIC LibTorch::cpu ${LibTorch_LIB_DIR}/libgomp.so.1)
  if(NOT target STREQUAL header)
    target_precompile_headers(${target} REUSE_FROM ${header})
  endif()
endfunction()

file(WRITE ${CMAKE_BINARY_DIR}/pch_stub.cpp.in "int hone_pch_anchor = 0;\n")
configure_file(${CMAKE_BINARY_DIR}/pch_stub.cpp.in ${CMAKE_BINARY_DIR}/pch_stub.cpp COPYONLY)
function(hone_torch_header target)
  add_library(${target} STATIC ${CMAKE_BINARY_DIR}/pch_stub.cpp)
  hone_our_code(${target})
  hone_uses_torch(${target} ${target})
  target_precompile_headers(${target} PRIVATE ${ARGN})
endfunction()
if(NOT HONE_FUZZ)
  hone_torch_header(hone_pch <ATen/ATen.h> <nlohmann/json.hpp>)
  hone_torch_header(hone_ops_pch <ATen/ATen.h> <torch/csrc/autograd/custom_function.h> <nlohmann/json.hpp>)
endif()

set(HONE_PLAIN_HEADERS <fmt/format.h> <nlohmann/json.hpp> <algorithm> <filesystem> <functional> <map> <optional> <string> <variant> <vector>)
add_library(hone_plain_pch STATIC ${CMAKE_BINARY_DIR}/pch_stub.cpp)
target_link_libraries(hone_plain_pch PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
hone_our_code(hone_plain_pch)
target_precompile_headers(hone_plain_pch PRIVATE ${HONE_PLAIN_HEADERS})

# Several .cpp files of one target in one translation unit: what libtorch's and nlohmann's templates cost is paid once a batch.
# 20 of them cost two thirds of the compiler's time that 8 do, and 40 two thirds of that (docs/log.md). Names in anonymous namespaces
# have to differ in a room. Folders with flags of their own stay apart (cmake/Folders.cmake).
function(hone_unity target batch)
  if(HONE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  endif()
endfunction()

function(hone_room name kind)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  add_library(hone_${name} STATIC ${sources})
  if(name IN_LIST HONE_COLD_ROOMS)
    target_compile_options(hone_${name} PRIVATE ${HONE_COLD_OPTIONS})  # before those of sanitizers, which win
  endif()
  hone_our_code(hone_${name})
  target_link_libraries(hone_${name} PUBLIC ${ARGN})
  if(name STREQUAL ops)  # its batches and its header decide what is inlined into kernels
    hone_uses_torch(hone_${name} hone_ops_pch)
    hone_unity(hone_${name} 20)
    return()
  elseif(kind STREQUAL TORCH)
    hone_uses_torch(hone_${name})
  else()
    target_precompile_headers(hone_${name} REUSE_FROM hone_plain_pch)
  endif()
  hone_unity(hone_${name} 40)
endfunction()

# hone_rooms(TABLE): a library of each room of src/rooms.txt; tools/check_rooms reads the same table, and its sub-rooms (`room/...`).
function(hone_rooms table)
  file(STRINGS ${table} lines REGEX "^[a-z]+ ")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
  foreach(line IN LISTS lines)
    string(REGEX REPLACE " +" ";" words "${line}")
    list(POP_FRONT words name kind)
    if(HONE_FUZZ AND NOT name IN_LIST HONE_FUZZ_ROOMS)
      continue()
    endif()
    list(FILTER words EXCLUDE REGEX "/$")  # headers only
    list(TRANSFORM words PREPEND hone_)
    hone_room(${name} ${kind} ${words})
  endforeach()
endfunction()

# hone_embed(ROOM HEADER FILE NAME...): the text of files as `extern const std::string_view NAME` of namespace hone::ROOM.
function(hone_embed room header)
  if(NOT TARGET hone_${room})  # HONE_FUZZ
    return()
  endif()
  set(code "// Made by cmake/Rooms.cmake.\n#include \"${header}\"\n\nnamespace hone::${room} {\n\n")
  while(ARGN)
    list(POP_FRONT ARGN file name)
    file(READ ${CMAKE_SOURCE_DIR}/src/${file} text)
    string(APPEND code "const std::string_view ${name} = R\"HONE_TEXT(${text})HONE_TEXT\";\n\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${file})
  endwhile()
  string(APPEND code "}  // namespace hone::${room}\n")
  get_filename_component(stem ${header} NAME_WE)
  set(made ${CMAKE_BINARY_DIR}/embedded_${room}_${stem}.cpp)
  file(GENERATE OUTPUT ${made} CONTENT "${code}")
  target_sources(hone_${room} PRIVATE ${made})
endfunction()

# hone_version(): the project's version as base::kHoneVersion (base/version.h).
function(hone_version)
  set(made ${CMAKE_BINARY_DIR}/embedded_version.cpp)
  file(GENERATE OUTPUT ${made} CONTENT "// Made by cmake/Rooms.cmake.
#include \"base/version.h\"

namespace hone::base {

const char* const kHoneVersion = \"${PROJECT_VERSION}\";

}  // namespace hone::base
")
  target_sources(hone_base PRIVATE ${made})
endfunction()
