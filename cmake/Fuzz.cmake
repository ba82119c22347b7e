# HONE_FUZZ: the fuzz targets alone, each a program of its own (tests/fuzz/targets), with the rooms that they read and without libtorch.
#
#   cmake -G Ninja -S . -B build-fuzz -DHONE_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++-19 && ninja -C build-fuzz
#   build-fuzz/fuzz_gguf -max_total_time=60 build-fuzz/seeds/gguf
#
# OSS-Fuzz names its own engine and has its flags in CXXFLAGS (tests/fuzz/oss-fuzz/build.sh).
set(HONE_FUZZ_ENGINE -fsanitize=fuzzer CACHE STRING "what a target is linked with")
set(HONE_FUZZ_FLAGS "-fsanitize=fuzzer-no-link,address,undefined;-fno-sanitize-recover=undefined;-g1" CACHE STRING "of compiler and linker")
set(HONE_FUZZ_ROOMS base python text config rewards tools)
add_compile_options(${HONE_FUZZ_FLAGS})
add_link_options(${HONE_FUZZ_FLAGS})
