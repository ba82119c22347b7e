# What a folder's files are compiled with. Flags belong to folders, never to names of files: a kernel is compiled right where it stands.

set(vector_loops -O3)
if(HONE_ASAN)  # g++ 12 itself crashes in attention_kernels.cpp with sanitizers at -O3 ("during IPA pass: cp")
  set(vector_loops -O1)
endif()

# hone_folder(FOLDER [OWN_HEADERS] FLAGS...): the .cpp files of src/FOLDER, each compiled alone. FOLDER may be a pattern. OWN_HEADERS:
# without the precompiled header, which has other instructions.
function(hone_folder folder)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cpp)
  if(NOT files)
    message(FATAL_ERROR "src/${folder} has no .cpp file: cmake/Folders.cmake names a folder that is gone")
  endif()
  set(flags ${ARGN})
  if("OWN_HEADERS" IN_LIST flags)
    list(REMOVE_ITEM flags OWN_HEADERS)
    set_source_files_properties(${files} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endif()
  set_source_files_properties(${files} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON COMPILE_OPTIONS "${flags}")
endfunction()

# hone_joined_folder(FOLDER FLAGS...): the same in one translation unit, in the order of their names.
function(hone_joined_folder folder)
  hone_folder(${folder} ${ARGN})
  if(NOT HONE_UNITY)
    return()
  endif()
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cpp)
  set_source_files_properties(${files} PROPERTIES HEADER_FILE_ONLY ON)
  list(TRANSFORM files REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE text)
  list(JOIN text "" text)
  string(MAKE_C_IDENTIFIER ${folder} name)
  set(made ${CMAKE_BINARY_DIR}/joined/${name}.cpp)
  file(GENERATE OUTPUT ${made} CONTENT "// Made by cmake/Folders.cmake.\n${text}")
  set_source_files_properties(${made} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON COMPILE_OPTIONS "${ARGN}")
  string(REGEX REPLACE "/.*" "" room ${folder})
  target_sources(hone_${room} PRIVATE ${made})
endfunction()

# hone_level_folder(LEVEL [-m...]): the kernels of ops/backend/cpu for one instruction level. One body is compiled for several
# levels; without contraction of a * b + c each gives the same bits.
function(hone_level_folder level)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(ARGN)
  endif()
  hone_folder(ops/backend/cpu/${level} OWN_HEADERS ${vector_loops} -ffp-contract=off -fno-math-errno ${HONE_OWN_HEADERS} ${ARGN})
endfunction()

set(avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl)
hone_level_folder(portable)
hone_level_folder(avx2 -mavx2 -mfma -mf16c)
hone_level_folder(avx512 ${avx512} -mprefer-vector-width=512)
hone_level_folder(avx512_bf16 ${avx512} -mavx512bf16)
hone_level_folder(amx ${avx512} -mavx512bf16)  # the tiles' own instructions are named by attribute

# A list of cases, which spends its time in libtorch.
hone_joined_folder(ops/cases ${HONE_COLD_OPTIONS})
# Files that hold several levels by attribute. Contraction is on, as in libtorch.
hone_folder(ops/backend/cpu/targets ${vector_loops} ${HONE_OWN_HEADERS})

# Loops of other rooms that are to become vectors.
hone_folder(*/loops ${vector_loops} -fno-trapping-math -ffp-contract=off)
# It needs the doctor's catalogue, which the front program does not link: in a batch it would pull it in.
hone_folder(report/core_only)
# c10d's header of Gloo includes Gloo's, which the wheel lacks.
hone_folder(parallel/gloo -isystem ${CMAKE_SOURCE_DIR}/src/parallel/gloo/gloo_names)
