#!/usr/bin/env bash
# Each missing thing is one sentence with the command that fixes it: the checks of tools/setup.sh, on machines
# that lack one thing. A machine is a PATH: a folder with links to just the programs that it has.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# in_machine FOLDER FUNCTION [ARGUMENT...]: its exit code and messages, with FOLDER as the whole PATH and an empty home
in_machine() {
  local path=$1
  shift
  # shellcheck disable=SC2016  # the inner bash expands them
  env -i PATH="$path" HOME="$scratch/home" "$BASH" -c 'source "$1/tools/setup.sh"; shift; "$@"' _ "$root" "$@" 2>&1
}

# machine NAME: a PATH with the plain tools only
machine() {
  local tool
  mkdir -p "$scratch/$1"
  for tool in awk cat dirname grep head id ln mkdir sed sort tail tr; do
    ln -sf "$(command -v "$tool")" "$scratch/$1/$tool"
  done
  printf '%s' "$scratch/$1"
}

# program FOLDER NAME OUTPUT: a stand-in that prints OUTPUT whatever it is asked
program() {
  printf '#!%s\nprintf "%%s\\n" "%s"\n' "$BASH" "$3" >"$1/$2"
  chmod +x "$1/$2"
}

# expect NAME "EXPECTED TEXT" CODE FUNCTION... : one line of output that contains the text, and that exit code
expect() {
  local name=$1 text=$2 code=$3 out found=0
  shift 3
  out=$(in_machine "$@") || found=$?
  if [[ $found == "$code" && $out == *"$text"* && $(wc -l <<<"$out") == 1 ]]; then
    printf 'ok %s\n' "$name"
  else
    printf 'not ok %s\n  expected exit %s and one line with: %s\n  found exit %s: %s\n' "$name" "$code" "$text" "$found" "$out"
    failed=1
  fi
}

bare=$(machine bare)
old=$(machine old)
program "$old" g++ 11.4.0
program "$old" rustc "rustc 1.63.0 (4b91a6ea7 2022-08-08)"
program "$old" cargo "cargo 1.63.0"
program "$old" python3 3.10
good=$(machine good)
program "$good" g++-13 13.2.0
program "$good" rustc "rustc 1.99.0 (0 2030-01-01)"
program "$good" cargo "cargo 1.99.0"
program "$good" python3.12 3.12
# Debian 12 as it comes, with pip in order and one C++ library missing, and neither apt nor venv to fetch it
half=$(machine half)
program "$half" dpkg-query "install ok installed"
program "$half" cmake "cmake version 3.25.1"
program "$half" ninja 1.11.1
ln -s "$(command -v false)" "$half/python3"

# apt_of FOLDER PACKAGE=VERSION...: an apt-cache that offers these; to other names it answers as to patterns, with another package
apt_of() {
  local folder=$1 pair
  shift
  {
    # shellcheck disable=SC2016  # the stand-in expands them
    printf '#!%s\ncase "$1 $2" in\n' "$BASH"
    for pair; do printf '"policy %s") printf "%%s\\n" "%s:" "  Candidate: %s" ;;\n' "${pair%%=*}" "${pair%%=*}" "${pair#*=}"; done
    printf '"policy "*) printf "%%s\\n" "other-package:" "  Candidate: 99.0" ;;\n'
    printf '"pkgnames "*) printf "%%s\\n" %s ;;\nesac\n' "$(printf '%s ' "${@%%=*}")"
  } >"$folder/apt-cache"
  chmod +x "$folder/apt-cache"
}

debian=$(machine debian)
apt_of "$debian" rustc=1.63.0+dfsg1-2 cargo=0.66.0+ds1-1 rustc-web=1.96.0+dfsg1-1~deb12u2 cargo-web=1.96.0+dfsg1-1~deb12u2 g++=4:12.2.0-3
ubuntu=$(machine ubuntu)
apt_of "$ubuntu" rustc=1.75.0+dfsg0ubuntu1-0ubuntu7 cargo=1.75.0 rustc-1.82=1.82.0 cargo-1.82=1.82.0 rustc-1.89=1.89.0 \
  cargo-1.89=1.89.0 rustc-1.91=1.91.0 g++=4:11.2.0-1ubuntu1
jammy=$(machine jammy)
apt_of "$jammy" python3=3.10.6-1~22.04.1 python3.11=3.11.0~rc1-1~22.04
program "$jammy" clang++-16 16.0.6
program "$jammy" clang++-17 17.0.6
versioned=$(machine versioned)
program "$versioned" rustc "rustc 1.75.0"
program "$versioned" cargo "cargo 1.75.0"
program "$versioned" rustc-1.89 "rustc 1.89.0 (29483883e 2025-08-04)"
program "$versioned" cargo-1.89 "cargo 1.89.0"

expect "no compiler" "g++-12\` installs it." 1 "$bare" check_compiler
expect "old compiler is named" "(found: g++ 11.4.0)" 1 "$old" check_compiler
expect "newer compiler under another name" "" 0 "$good" check_compiler
expect "no Rust" "apt-get install -y rustc-1.85 cargo-1.85\` installs it." 1 "$bare" check_rust
expect "old Rust is named" "found: 1.63.0)" 1 "$old" check_rust
expect "Rust of Debian 12's own packages" "apt-get install -y rustc-web cargo-web\` installs it." 1 "$debian" check_rust
expect "Rust of Ubuntu's newest package" "apt-get install -y rustc-1.89 cargo-1.89\` installs it." 1 "$ubuntu" check_rust
expect "a compiler of its own name where g++ is older" "apt-get install -y g++-12\` installs it." 1 "$ubuntu" check_compiler
expect "Rust with a version in its name" "" 0 "$versioned" find_rust 1.85 "$scratch/links"
expect "new Rust" "" 0 "$good" check_rust
expect "no Python" "(found: none); \`" 1 "$bare" check_python
expect "old Python is named" "(found: 3.10)" 1 "$old" check_python
expect "the newest Python that Ubuntu 22.04 has" "apt-get install -y python3.11 python3.11-venv python3-pip\` installs one." 1 "$jammy" check_python
expect "clang 16 is too old" "(found: clang++-16 16.0.6)" 1 "$jammy" eval 'CXX=clang++-16; check_compiler'
expect "a compiler that is not there" "of the name clang++-18, which CXX says" 1 "$jammy" eval 'CXX=clang++-18; check_compiler'
# shellcheck disable=SC2016  # the inner bash expands it
expect "clang 17 compiles C too" clang-17 0 "$jammy" eval 'CXX=clang++-17; check_compiler && echo "$CC"'
expect "newer Python under another name" "" 0 "$good" check_python
# shellcheck disable=SC2016  # the inner bash expands it
expect "Python for a build on Ubuntu 22.04" "python3.11 python3.11-venv python3-pip " 0 "$jammy" eval 'missing_python | tr "\n" " "'
# shellcheck disable=SC2016
expect "Python for a wheel there" "python3 python3-venv python3-pip " 0 "$jammy" eval 'MIN_PYTHON=$MIN_WHEEL_PYTHON; missing_python | tr "\n" " "'
expect "a Python with all that an environment wants" "" 0 "$good" missing_python
expect "small disk" "512 MiB are free in $root and 6144 MiB are needed" 1 "$bare" check_disk 512 6144
expect "small disk says how to find what to free" "du -xh --max-depth=2" 1 "$bare" check_disk 6143 6144
expect "large disk" "" 0 "$bare" check_disk 6144 6144
expect "packages are named with their command" "apt-get install -y nlohmann-json3-dev libyaml-cpp-dev" 1 "$bare" check_packages
expect "no pip" "apt-get install -y python3-pip\` installs them." 1 "$half" check_packages
if [[ $(readlink "$scratch/links/cargo") == "$versioned/cargo-1.89" ]]; then
  printf 'ok cargo asks for the same Rust by its usual name\n'
else
  printf 'not ok cargo asks for the same Rust by its usual name\n'
  failed=1
fi
exit "$failed"
