#!/usr/bin/env bash
# `cmake --install` gives a folder that can be moved: the program loads its own libtorch from it, and the examples of the library
# (docs/library.md) are compiled against it by find_package(hone), and run.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# expect NAME COMMAND...: its exit code is 0
expect() {
  local name=$1
  shift
  if "$@" >"$scratch/out" 2>&1; then
    printf 'ok %s\n' "$name"
  else
    printf 'not ok %s\n' "$name"
    sed 's/^/  /' "$scratch/out"
    failed=1
  fi
}

# shellcheck disable=SC2329  # called through expect
loads_only_its_own() {
  local maps
  maps=$(LD_DEBUG=libs "$scratch/moved/bin/hone" env 2>&1) || return 1
  if grep -F -e "=$root/" -e " $root/" <<<"$maps"; then return 1; fi
  grep -q "calling init: $scratch/moved/lib/hone/torch/lib/libtorch_cpu.so" <<<"$maps"
}

# says COMMAND WORDS: its output has these words
# shellcheck disable=SC2329  # called through expect
says() {
  local words=${*: -1}
  "${@:1:$#-1}" >"$scratch/said" 2>&1 || { cat "$scratch/said"; return 1; }
  cat "$scratch/said"
  grep -qE -- "$words" "$scratch/said"
}

# shellcheck disable=SC2329  # called through expect
compiles_examples() {
  cmake -G Ninja -S "$root/examples/library" -B "$scratch/examples" -DCMAKE_PREFIX_PATH="$scratch/moved" \
    -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wpedantic -Wconversion -Werror" && cmake --build "$scratch/examples" -j 2
}

# Of the library only what include/hone declares is to be seen.
# shellcheck disable=SC2329  # called through expect
shows_only_its_headers() {
  local shown
  shown=$(nm -D --defined-only "$scratch/moved/lib/hone/libhone.so" | cut -d' ' -f3 | c++filt) || return 1
  grep -q '^hone::Model::encode' <<<"$shown" || return 1
  ! grep -vE '^(typeinfo (name )?for )?hone::' <<<"$shown" || return 1
  ! grep -E '^hone::(ops|model|train|adapters|serve|rollout|data|text|config)::' <<<"$shown"
}

# PEFT's file of the adapter has what the model of the fixture needs.
# shellcheck disable=SC2329  # called through expect
is_adapter() { "$scratch/moved/bin/hone" generate --model_name_or_path "$tiny" --adapter_name_or_path "$1" --prompt "one two" --max_new_tokens 2; }

tiny=$root/tests/fixtures/parity/tiny_llama
expect "cmake --install" cmake --install "$root/build" --prefix "$scratch/installed"
mv "$scratch/installed" "$scratch/moved"
expect "the installed program starts" "$scratch/moved/bin/hone" --version
expect "it loads libtorch from its own folder, wherever that is" loads_only_its_own
expect "the library's examples are compiled against what was installed" compiles_examples
expect "libhone.so shows nothing but its headers" shows_only_its_headers
expect "an example trains a LoRA" says "$scratch/examples/train_lora" "$tiny" "$root/tests/fixtures/data/rows/text.jsonl" "$scratch/lora" 3 \
  '^step 3  loss [0-9.]+  gradient [0-9.]+$'
expect "the program reads it" is_adapter "$scratch/lora"
expect "an example samples" says "$scratch/examples/sample" "$tiny" "one two" "three" '^three -> .*tokens\)$'
expect "an example trains with a loss of its own" says "$scratch/examples/own_loss" "$tiny" "one two" "$scratch/own" 2 \
  '^step 2  reward [0-9.]+  gradient [0-9.]+$'
expect "the program reads that one" is_adapter "$scratch/own"
rm "$scratch/moved/lib/hone/libhone.so"
# shellcheck disable=SC2329  # called through expect
finds_nothing() { ! cmake -G Ninja -S "$root/examples/library" -B "$scratch/without" -DCMAKE_PREFIX_PATH="$scratch/moved" && grep -q hone_shared "$scratch/out"; }
expect "without libhone.so find_package says how to build it" finds_nothing
exit "$failed"
