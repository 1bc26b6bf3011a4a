#!/bin/sh
# The set-up script, as far as it can be judged without installing anything.
set -eu
root=$1
fail() { echo "FAILED: $*" >&2; exit 1; }

sh -n "$root/third_party/bootstrap.sh" || fail "is no shell script"
sh "$root/third_party/bootstrap.sh" --help | grep -q 'run recipes/fashion-mnist.yaml' ||
  fail "--help does not show the first command"

code=0
sh "$root/third_party/bootstrap.sh" 2>/dev/null || code=$?
[ "$code" -eq 2 ] || fail "no command: exit code $code instead of 2"
code=0
sh "$root/third_party/bootstrap.sh" --torch /nowhere run x 2>/dev/null || code=$?
[ "$code" -eq 2 ] || fail "a missing LibTorch folder: exit code $code instead of 2"

# Every package has a reason, and no package is named twice.
sed 's/#.*//' "$root/third_party/packages.txt" | while read -r name group reason; do
  [ -n "$name" ] || continue
  case $group in run|test|torch) ;; *) fail "$name: unknown group '$group'" ;; esac
  [ -n "$reason" ] || fail "$name: no reason"
done
twice=$(sed 's/#.*//' "$root/third_party/packages.txt" | awk 'NF {print $1}' | sort | uniq -d)
[ -z "$twice" ] || fail "named twice: $twice"
# A build that is not on a terminal shows a line for every tenth.
eval "$(sed -n '/^show_progress()/,/^}/p' "$root/third_party/bootstrap.sh")"
lines=$(for i in $(seq 1 40); do echo "[$i/40 $i.0] Building"; done | show_progress)
[ "$(echo "$lines" | wc -l)" -eq 9 ] || fail "progress of a build: $lines"
echo "$lines" | grep -qx 'bootstrap: 50% built, about 1 min left' || fail "progress of a build: $lines"

# A build folder keeps the parts that it has.
eval "$(sed -n '/^with()/,/^}/p' "$root/third_party/bootstrap.sh")"
build=$(mktemp -d)
echo 'DTUNE_BUILD_TESTS:BOOL=ON' > "$build/CMakeCache.txt"
parts="$(with TESTS "") $(with BENCH "") $(with BENCH "TESTS BENCH")"
rm -r "$build"
[ "$parts" = "ON OFF ON" ] || fail "parts of a build: $parts"

# What pip installed beside a PyTorch for CUDA is a toolkit.
python=$(command -v python3) || { echo "left out: pip_cuda.py, since there is no python3"; echo "bootstrap: ok"; exit 0; }
fake=$(mktemp -d)
mkdir -p "$fake/torch" "$fake/nvidia/cu13/lib"
cuda_of() {
  env -u CUDA_HOME -u CUDA_PATH PATH=/usr/bin:/bin PYTHONPATH="$fake" PYTHONDONTWRITEBYTECODE=1 \
    "$python" "$root/third_party/pip_cuda.py" "$fake/cuda" 2>"$fake/said"
}
touch "$fake/torch/__init__.py"
echo 'cuda = None' > "$fake/torch/version.py"
[ -z "$(cuda_of)" ] || fail "a PyTorch for CPUs has a CUDA toolkit"
echo 'cuda = "13.0"' > "$fake/torch/version.py"
code=0
cuda_of || code=$?
[ "$code" -eq 1 ] || fail "no compiler for CUDA: exit code $code instead of 1"
grep -q "pip install 'cuda-toolkit\[nvcc,.*\]==13.0" "$fake/said" || fail "no remedy: $(cat "$fake/said")"
(
  cd "$fake/nvidia/cu13"
  mkdir -p bin include nvvm/bin
  touch bin/nvcc nvvm/bin/cicc lib/libcudart.so.13 lib/libcudart_static.a
)
[ "$(cuda_of)" = "$fake/cuda" ] || fail "pip's toolkit is not taken: $(cat "$fake/said")"
for file in bin/nvcc lib64/libcudart.so lib64/libcudart_static.a include nvvm/bin/cicc; do
  [ -e "$fake/cuda/$file" ] || fail "pip's toolkit lacks $file"
done
rm -r "$fake"

echo "bootstrap: ok"
