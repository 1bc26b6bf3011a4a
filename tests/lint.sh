#!/bin/sh
# Format and lint: clang-format over everything, clang-tidy over what changed
# since a revision (or over all with ALL=1).
#
#   lint.sh BUILD_FOLDER [REVISION]
set -eu
build=${1:?the build folder}
base=${2:-}
cd "$(dirname -- "$0")/.."

sources=$(git ls-files 'app/*.cc' 'lib/*.cc' 'tests/*.cc')
headers=$(git ls-files 'app/*.h' 'lib/*.h' 'lib/*.cu' 'tests/*.h')
# shellcheck disable=SC2086  # lists of files without blanks in their names
clang-format --dry-run --Werror $sources $headers
echo "clang-format: clean"

if [ -n "$base" ]; then
  sources=$(git diff --name-only --diff-filter=d "$base" -- 'app/*.cc' 'lib/*.cc')
else
  sources=$(git ls-files 'app/*.cc' 'lib/*.cc')
fi
# The compiler's precompiled header and batches of sources are of no use to
# clang-tidy: a configuration of its own, which nothing builds.
database=$(mktemp -d)
trap 'rm -rf "$database"' EXIT
cmake -G Ninja -S . -B "$database" -DDTUNE_UNITY=OFF -DCMAKE_BUILD_TYPE=Release \
  "-DCMAKE_PREFIX_PATH=$(sed -n 's/^CMAKE_PREFIX_PATH:[A-Z]*=//p' "$build/CMakeCache.txt")" >"$database/log"
sed -i -E 's/-Winvalid-pch//; s/-include [^ ]*cmake_pch\.hxx//; s/-fuse-ld=mold//' \
  "$database/compile_commands.json"
# shellcheck disable=SC2086
printf '%s\n' $sources | xargs -P "$(nproc)" -n 4 clang-tidy -p "$database" --quiet
echo "clang-tidy: clean"
