#!/usr/bin/env bash
# `cmake --install` gives a folder that can be moved: the program loads its own libtorch from it.
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
  if grep -F "$root/" <<<"$maps"; then return 1; fi
  grep -q "calling init: $scratch/moved/lib/hone/torch/lib/libtorch_cpu.so" <<<"$maps"
}

expect "cmake --install" cmake --install "$root/build" --prefix "$scratch/installed"
mv "$scratch/installed" "$scratch/moved"
expect "the installed program starts" "$scratch/moved/bin/hone" --version
expect "it loads libtorch from its own folder, wherever that is" loads_only_its_own
exit "$failed"
