#!/bin/sh
# How long a build takes, in seconds, without ccache:
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
# about half an hour; other work on the machine counts.
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
  if ! cmake --build "$build" -j "$jobs" --target "$2" >"$folder/log" 2>&1; then
    cat "$folder/log" >&2
    exit 2
  fi
  echo "$begin $(date +%s.%N)" |
    awk -v name="$1" -v jobs="$jobs" '{printf "{\"build\": \"%s\", \"jobs\": %d, \"seconds\": %.0f}\n", name, jobs, $2 - $1}'
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
