# libhone.so: the headers of include/hone for programs of others (docs/library.md), and what find_package(hone) reads. It shows what those
# headers declare, and hides the rooms, libtorch's headers and every other library that is linked into it.
target_include_directories(hone_library PUBLIC ${CMAKE_SOURCE_DIR}/include)
add_library(hone_shared SHARED $<TARGET_OBJECTS:hone_library>)
target_link_libraries(hone_shared PRIVATE hone_doctor hone_serve)
hone_our_code(hone_shared)
target_link_libraries(hone_shared PRIVATE LibTorch::cpu ${LibTorch_LIB_DIR}/libgomp.so.1)
set(shown ${CMAKE_SOURCE_DIR}/src/library/shown.map)
target_link_options(hone_shared PRIVATE -Wl,--no-undefined -Wl,--version-script=${shown})
set_target_properties(hone_shared PROPERTIES OUTPUT_NAME hone LINKER_LANGUAGE CXX LINK_DEPENDS ${shown}
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
                      BUILD_RPATH "${LibTorch_LIB_DIR}" INSTALL_RPATH "$ORIGIN/torch/lib:$ORIGIN/../torch/lib")

include(CMakePackageConfigHelpers)
configure_file(${CMAKE_SOURCE_DIR}/cmake/package/hone-config.cmake.in ${CMAKE_BINARY_DIR}/package/hone-config.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/hone-config-version.cmake VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
# ./quickstart builds the program alone: then nothing of the library but its headers is installed, and find_package(hone) says so.
install(TARGETS hone_shared LIBRARY DESTINATION lib/hone COMPONENT library OPTIONAL)
install(DIRECTORY include/hone DESTINATION include COMPONENT library)
foreach(header error verdict)  # of the rooms, which the public ones include
  install(FILES src/base/${header}.h DESTINATION include/hone/rooms/base COMPONENT library)
endforeach()
install(FILES ${CMAKE_BINARY_DIR}/package/hone-config.cmake ${CMAKE_BINARY_DIR}/package/hone-config-version.cmake
        DESTINATION lib/cmake/hone COMPONENT library)
