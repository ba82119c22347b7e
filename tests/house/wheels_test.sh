#!/usr/bin/env bash
# install_wheels: complete or absent, reused while the pins are equal. A stand-in for pip, so no network is needed.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

check() {  # NAME, then a command that has to hold
  local name=$1
  shift
  if "$@"; then printf 'ok %s\n' "$name"; else printf 'not ok %s\n' "$name"; failed=1; fi
}

# pip MODE: writes a file into --target and, in mode "broken", fails after it
pip() {
  cat >"$scratch/python" <<SCRIPT
#!$BASH
while [[ \$1 != --target ]]; do shift; done
mkdir -p "\$2"; echo "\$*" >>"$scratch/calls"; echo whole >"\$2/module"
[[ $1 == works ]]
SCRIPT
  chmod +x "$scratch/python"
}
# shellcheck disable=SC2016,SC2329  # the inner bash expands them; called through check
install() {
   "$BASH" -c 'source "$1/tools/setup.sh"; python=$2/python; install_wheels "$2/site" "$3"' \
    _ "$root" "$scratch" "$1" >/dev/null 2>"$scratch/err"
}
# shellcheck disable=SC2329  # called through check
calls() { wc -l <"$scratch/calls"; }

pip broken
check "a failed install stops" eval '! install torch==1'
check "and says what to do" grep -q "run the same command again" "$scratch/err"
check "and leaves nothing that looks installed" test ! -e "$scratch/site"
mkdir -p "$scratch/site.partial" && echo half >"$scratch/site.partial/other"
pip works
check "an interrupted install is made again" install torch==1
check "without the leavings of the first" test ! -e "$scratch/site/other" -a -e "$scratch/site/module"
install torch==1
check "the second call reuses it" test "$(calls)" = 2
install torch==2
check "another pin replaces it" test "$(calls) $(<"$scratch/site/.installed")" = "3 torch==2"
exit "$failed"
