#!/bin/sh
# Sets everything up on a bare Debian machine, builds dtune and goes on with
# what you asked for. Run it again and it does only what is left to do.
#
#   sh third_party/bootstrap.sh run recipes/fashion-mnist.yaml   tune and train
#   sh third_party/bootstrap.sh test                             all tests
#   sh third_party/bootstrap.sh bench                            all benchmarks
#   sh third_party/bootstrap.sh lint                             format and clang-tidy
#   sh third_party/bootstrap.sh setup                            install and build only
#   sh third_party/bootstrap.sh install [PREFIX]                 cmake --install
#   sh third_party/bootstrap.sh ANYTHING...                      dtune ANYTHING...
#
# Options, before the command:
#   --torch python   use the LibTorch inside the PyTorch of `python3` (or $PYTHON),
#                    with CUDA where that has it
#   --torch DIR      use the LibTorch under DIR (a CMAKE_PREFIX_PATH)
#   --jobs N         compile N files at a time (default: one a core)
#
# CMAKE_PREFIX_PATH from the environment is used as it is. Needs root or sudo
# only where a package is missing.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
jobs=$(nproc)
torch=debian
build=build

say() { printf '%s\n' "bootstrap: $*" >&2; }
die() { code=$1; shift; say "error: $*"; exit "$code"; }

while [ $# -gt 0 ]; do
  case $1 in
    --torch) [ $# -ge 2 ] || die 2 "--torch needs 'python' or a folder"; torch=$2; shift 2 ;;
    --jobs) [ $# -ge 2 ] || die 2 "--jobs needs a number"; jobs=$2; shift 2 ;;
    -h|--help) sed -n '2,/^set -eu/{/^set -eu/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || die 2 "say what to do, e.g.: sh third_party/bootstrap.sh run recipes/fashion-mnist.yaml (--help lists all)"

# --- which LibTorch -------------------------------------------------------
prefix=${CMAKE_PREFIX_PATH:-}
cuda=
case $torch in
  debian) ;;
  python)
    python=${PYTHON:-python3}
    prefix=$("$python" -c 'import torch; print(torch.utils.cmake_prefix_path)') ||
      die 2 "'$python' has no PyTorch (pip install torch, or set PYTHON to one that has)"
    build='build-torch'
    cuda=$("$python" "$root/third_party/pip_cuda.py" "$root/$build/cuda") || exit 2 ;;
  *)
    [ -d "$torch" ] || die 2 "--torch $torch: no such folder"
    prefix=$torch
    build='build-torch' ;;
esac

# --- packages -------------------------------------------------------------
# Names in packages.txt whose second column is one of the words given.
wanted() {
  for kind in "$@"; do
    sed 's/#.*//' "$root/third_party/packages.txt" | while read -r name group _; do
      if [ "$group" = "$kind" ]; then echo "$name"; fi
    done
  done
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif command -v sudo >/dev/null 2>&1; then sudo "$@"
  else return 127
  fi
}

install_missing() {
  command -v dpkg-query >/dev/null 2>&1 ||
    { say "no Debian package manager here: taking for granted that what third_party/packages.txt lists is installed"; return 0; }
  missing=
  for package in "$@"; do
    # A toolkit's own cmake or compiler on PATH is as good as Debian's.
    installed "$package" || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  say "installing from Debian:$missing"
  # shellcheck disable=SC2086  # a list of words
  install_packages $missing || die 75 "could not install them; as root: apt-get install$missing"
}

install_packages() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq || say "apt-get update failed; trying with the lists at hand"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >"$log" 2>&1 ||
    { tail -n 20 "$log" >&2; return 1; }
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT INT TERM

case $1 in
  test|bench|lint) groups="run test" ;;
  *) groups="run" ;;
esac
if [ -z "$prefix" ]; then groups="$groups torch"; fi
# shellcheck disable=SC2046,SC2086  # lists of words
install_missing $(wanted $groups)

# --- build ----------------------------------------------------------------
# Whether to build part $1 (TESTS, BENCH) beside the program: where it is among
# the words $2, and where the build folder has it, so that nothing is built twice.
with() {
  case " $2 " in *" $1 "*) echo ON; return ;; esac
  if grep -qs "^DTUNE_BUILD_$1:BOOL=ON" "$build/CMakeCache.txt"; then echo ON; else echo OFF; fi
}

# $1: parts to build beside the program; $2...: targets
build() (
  parts=$1
  shift
  cd "$root"
  if ! cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Release \
      -DDTUNE_BUILD_TESTS="$(with TESTS "$parts")" \
      -DDTUNE_BUILD_BENCH="$(with BENCH "$parts")" \
      ${DTUNE_WERROR:+-DCMAKE_COMPILE_WARNING_AS_ERROR=ON} \
      ${prefix:+"-DCMAKE_PREFIX_PATH=$prefix"} \
      ${cuda:+"-DCUDAToolkit_ROOT=$cuda" "-DCUDA_TOOLKIT_ROOT_DIR=$cuda" "-DCMAKE_CUDA_COMPILER=$cuda/bin/nvcc"} \
      >"$log" 2>&1; then
    cat "$log" >&2
    die 2 "the configuration failed (above)"
  fi
  if [ ! -x "$build/bin/dtune" ]; then say "building (some minutes the first time)"; fi
  if [ -t 2 ]; then
    cmake --build "$build" -j "$jobs" --target "$@" >&2 || die 2 "the build failed (above)"
  else
    { NINJA_STATUS='[%f/%t %e] ' cmake --build "$build" -j "$jobs" --target "$@" 2>&1 || echo "$failed"; } |
      tee "$log" | show_progress >&2
    if grep -qx "$failed" "$log"; then grep -vx "$failed" "$log" >&2; die 2 "the build failed (above)"; fi
    if grep -q 'warning:' "$log"; then cat "$log" >&2; fi
  fi
)
failed='the build has failed'

# A line for every tenth of a build; ninja's lines begin with [built/all seconds].
# Not by awk, which would read a pipe in blocks.
show_progress() {
  last=0
  while IFS= read -r line; do
    case $line in \[[0-9]*/[0-9]*\ [0-9]*\]*) ;; *) continue ;; esac
    rest=${line#\[} built=${line#\[}
    built=${built%%/*} rest=${rest#*/}
    all=${rest%% *} seconds=${rest#* }
    seconds=${seconds%%[.\]]*}
    tenth=$((10 * built / all))
    if [ "$tenth" -gt "$last" ] && [ "$all" -ge 20 ] && [ "$built" -lt "$all" ]; then
      last=$tenth
      echo "bootstrap: $((10 * tenth))% built, about $((seconds * (all - built) / built / 60 + 1)) min left"
    fi
  done
}

finish() { rm -f "$log"; exec "$@"; }

case $1 in
  setup)
    build "" dtune_all
    say "ready: $build/bin/dtune" ;;
  test)
    shift
    build TESTS all
    finish ctest --test-dir "$root/$build" -j 2 --output-on-failure --no-tests=error "$@" ;;
  bench)
    shift
    build "TESTS BENCH" all
    finish "$root/$build/tests/bench_runner" --json "$root/$build/bench.json" "$@" ;;
  lint)
    build "TESTS BENCH" all
    finish sh "$root/tests/lint.sh" "$root/$build" ;;
  install)
    build "" dtune_all
    finish cmake --install "$root/$build" ${2:+--prefix "$2"} ;;
  *)
    build "" dtune_all
    finish "$root/$build/bin/dtune" "$@" ;;
esac
