#!/bin/sh
# How long a build takes, without ccache: `seconds` by the clock, and
# `core_seconds` of processor time, which other work on the machine changes less:
#
#   sh tests/bench/build_time.sh [cmake options]
#
# first     what the first command builds, from clean
# tests     the tests, after that
# source    one touched source of a large module, and the program
# header    one touched header that most modules include, and the program
# light     the program without LibTorch, from clean
#
# Builds in folders of its own, and removes them. One row each, as JSON. Takes
# about a quarter of an hour on two cores.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
jobs=$(nproc)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
export CCACHE_DISABLE=1

configure() {
  build=$folder/$1
  shift
  if ! cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release "$@" >"$folder/log" 2>&1; then
    cat "$folder/log" >&2
    exit 2
  fi
}

# $1: name of the row; $2: target
measure() {
  begin=$(date +%s.%N)
  # The second line of `times` is of the children: 1m2.34s 0m5.67s
  if ! used=$(cmake --build "$build" -j "$jobs" --target "$2" >"$folder/log" 2>&1 && times); then
    cat "$folder/log" >&2
    exit 2
  fi
  echo "$begin $(date +%s.%N) $(echo "$used" | tail -1)" | tr 'ms' '  ' |
    awk -v name="$1" -v jobs="$jobs" '{printf "{\"build\": \"%s\", \"jobs\": %d, \"seconds\": %.0f, \"core_seconds\": %.0f}\n", name, jobs, $2 - $1, 60 * ($3 + $5) + $4 + $6}'
}

configure release -DDTUNE_BUILD_TESTS=ON -DDTUNE_BUILD_BENCH=OFF "$@"
measure first dtune_all
measure tests all
touch "$root/lib/dtune/cluster/agent_registry.cc"
measure source dtune_all
touch "$root/lib/dtune/study/recipe.h"
measure header dtune_all
configure light -DDTUNE_BUILD_TESTS=OFF -DDTUNE_BUILD_BENCH=OFF -DDTUNE_TORCH=OFF "$@"
measure light dtune_all
