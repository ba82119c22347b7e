# libhone_cuda.so: hone's own kernels for NVIDIA GPUs (src/ops/backend/cuda/kernels), a library that the core loads where it lies beside it.
# AUTO: where tools/cuda_kernels has fetched nvcc. ON: also by the nvcc on PATH. Either has to be of CUDA 13, as libtorch is.
set(HONE_CUDA_KERNELS AUTO CACHE STRING "libhone_cuda.so by nvcc: AUTO, ON, OFF")
set(HONE_CUDA_ARCHITECTURES "80;90" CACHE STRING "compute capabilities of libhone_cuda.so; release: those of HONE_CUDA_RELEASE")
# No kernel has instructions of one card alone (90a), so that each serves later cards of its major number too. Other cards compile the
# PTX, which has to be no newer than any of them.
set(HONE_CUDA_RELEASE 80 86 89 90 100 120)
set(HONE_CUDA_PTX 90)

set(cuda_fetched ${CMAKE_SOURCE_DIR}/third_party/nvcc/nvidia/cu13)
if(NOT HONE_CUDA_KERNELS OR HONE_ASAN OR HONE_TSAN OR CMAKE_CROSSCOMPILING
   OR (HONE_CUDA_KERNELS STREQUAL AUTO AND NOT EXISTS ${cuda_fetched}/bin/nvcc))
  return()
endif()
find_program(HONE_NVCC nvcc HINTS ${cuda_fetched}/bin REQUIRED)
execute_process(COMMAND ${HONE_NVCC} --version OUTPUT_VARIABLE said)
if(NOT said MATCHES "release 13\\.")
  message(FATAL_ERROR "${HONE_NVCC} is not of CUDA 13; tools/cuda_kernels fetches one that is, and -DHONE_CUDA_KERNELS=OFF does without")
endif()
get_filename_component(cuda_toolkit ${HONE_NVCC} REALPATH)
get_filename_component(cuda_toolkit ${cuda_toolkit}/../.. ABSOLUTE)
find_library(HONE_CUDART libcudart.so.13 PATHS ${cuda_toolkit}/lib ${cuda_toolkit}/lib64 NO_DEFAULT_PATH REQUIRED)

set(cuda_architectures ${HONE_CUDA_ARCHITECTURES})
if(cuda_architectures STREQUAL "release")
  set(cuda_architectures ${HONE_CUDA_RELEASE})
endif()
set(cuda_targets -gencode arch=compute_${HONE_CUDA_PTX},code=compute_${HONE_CUDA_PTX})
foreach(one IN LISTS cuda_architectures)
  list(APPEND cuda_targets -gencode arch=compute_${one},code=sm_${one})
endforeach()

# What ptxas says of registers and spills is kept beside each object (tests/emulated/ptxas.py).
file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ops/backend/cuda/kernels/*.cu)
set(cuda_objects)
foreach(source IN LISTS cuda_sources)
  get_filename_component(name ${source} NAME_WE)
  set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
  add_custom_command(OUTPUT ${object} BYPRODUCTS ${object}.txt
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/cuda
    COMMAND sh -c "\"$@\" 2>${object}.txt || { cat ${object}.txt; exit 1; }" nvcc
      ${HONE_NVCC} -std=c++20 -O3 -ccbin ${CMAKE_CXX_COMPILER} -Xcompiler=-fPIC,-fvisibility=hidden -Xptxas=-v
      -I${CMAKE_SOURCE_DIR}/src ${cuda_targets} -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d COMMENT "Kernels of ${name}.cu" VERBATIM)
  list(APPEND cuda_objects ${object})
endforeach()
set(cuda_library ${CMAKE_BINARY_DIR}/libhone_cuda.so)
add_custom_command(OUTPUT ${cuda_library}
  COMMAND ${CMAKE_CXX_COMPILER} -shared -o ${cuda_library} ${cuda_objects} ${HONE_CUDART} -Wl,--no-undefined -Wl,-soname,libhone_cuda.so
  DEPENDS ${cuda_objects} COMMENT "libhone_cuda.so" VERBATIM)
add_custom_target(hone_cuda ALL DEPENDS ${cuda_library})
install(FILES ${cuda_library} DESTINATION lib/hone COMPONENT program OPTIONAL)

# libhone_graphs.so: CUDA graphs by libtorch's own class (src/ops/machine/graph_library.h), which the core loads where it lies beside it.
# Compiled against libtorch's headers for CUDA, and linked to nothing of it.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/ops/machine/graph_library.cu PROPERTIES LANGUAGE CXX)
add_library(hone_graphs SHARED ${CMAKE_SOURCE_DIR}/src/ops/machine/graph_library.cu)
target_compile_options(hone_graphs PRIVATE -fvisibility=hidden)
target_include_directories(hone_graphs PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_include_directories(hone_graphs SYSTEM PRIVATE ${cuda_toolkit}/include)
target_link_libraries(hone_graphs PRIVATE LibTorch::cpu)
set_target_properties(hone_graphs PROPERTIES OUTPUT_NAME hone_graphs LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
add_dependencies(hone_cuda hone_graphs)
install(TARGETS hone_graphs LIBRARY DESTINATION lib/hone COMPONENT program OPTIONAL)
