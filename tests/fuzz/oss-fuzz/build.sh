#!/usr/bin/env bash
# What OSS-Fuzz calls, in the folder of hone's sources: every target, its seeds and its dictionary into $OUT. It reads the variables of
# OSS-Fuzz: CC, CXX, CXXFLAGS, LIB_FUZZING_ENGINE, SRC, WORK and OUT. Libraries that stand in $SRC are built with its flags; those that do not
# are the machine's.
set -euo pipefail
root=$PWD
work=${WORK:-$root/build-fuzz}

# with_flags FOLDER OPTION...: CMake's install of one library into $work/libraries.
with_flags() {
  local folder=$1
  shift
  [[ -d ${SRC:-}/$folder ]] || return 0
  cmake -G Ninja -S "$SRC/$folder" -B "$work/$folder" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$work/libraries" \
    -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON "$@"
  ninja -C "$work/$folder" install
}
with_flags fmt -DFMT_TEST=OFF -DFMT_DOC=OFF
with_flags yaml-cpp -DYAML_CPP_BUILD_TESTS=OFF -DYAML_CPP_BUILD_TOOLS=OFF
with_flags json -DJSON_BuildTests=OFF

cmake -G Ninja -S "$root" -B "$work/hone" -DHONE_FUZZ=ON -DHONE_FUZZ_FLAGS= -DHONE_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" \
  -DCMAKE_PREFIX_PATH="$work/libraries"
ninja -C "$work/hone"

for program in "$work"/hone/fuzz_*; do
  name=${program##*/fuzz_}
  cp "$program" "$OUT/"
  sed -n "s|^$name ||p" tests/fuzz/targets/seeds.txt | zip -q -j "$OUT/fuzz_${name}_seed_corpus.zip" -@
  dictionary=$(sed -n "s|^$name ||p" tests/fuzz/targets/dictionaries.txt)
  [[ -z $dictionary ]] || cp "$dictionary" "$OUT/fuzz_$name.dict"
done
