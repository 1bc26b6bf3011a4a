#!/bin/sh
# The Debian packages of a build: what is in them, and that it runs from there.
#   package_test.sh ROOT BUILD
set -eu
root=$1
build=$2
fail() { echo "FAILED: $*" >&2; exit 1; }

for tool in cpack dpkg-deb dpkg-shlibdeps help2man; do
  command -v $tool >/dev/null 2>&1 || { echo "skipped: $tool is not there"; exit 77; }
done
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT INT TERM

sh "$root/third_party/package" --build "$build" --output "$out" deb > "$out/made"
program=$(echo "$out"/dtune_*.deb)
grep -qx "$program" "$out/made" || fail "says not what was made: $(cat "$out/made")"

mkdir "$out/root"
dpkg-deb -x "$program" "$out/root"
for file in bin/dtune share/man/man1/dtune.1.gz share/man/man1/dtune-run.1.gz \
  share/bash-completion/completions/dtune share/zsh/vendor-completions/_dtune \
  share/fish/vendor_completions.d/dtune.fish share/dtune/recipes/ci-check.yaml \
  share/doc/dtune/copyright share/doc/dtune/changelog.gz share/doc/dtune/sbom.cdx.json; do
  [ -s "$out/root/usr/$file" ] || fail "$file is not in $program"
done
gzip -dc "$out/root/usr/share/man/man1/dtune-run.1.gz" | grep -q 'resumes\|Run again\|Running it again' ||
  fail "the man page of dtune run says not what its help says"
grep -q '"name": "libsqlite3-0"' "$out/root/usr/share/doc/dtune/sbom.cdx.json" ||
  fail "the bill of materials has no SQLite"

# The program does without LibTorch; what needs it is a package of its own.
dpkg-deb -f "$program" Depends | grep -q libyaml-cpp || fail "no dependencies were found"
if dpkg-deb -f "$program" Depends | grep -qE 'torch|gloo'; then fail "dtune depends on LibTorch"; fi
if grep -qs '^DTUNE_TORCH:BOOL=ON' "$build/CMakeCache.txt"; then
  dpkg-deb -c "$out"/dtune-train_*.deb > "$out/files"
  grep -q ./usr/lib/dtune/libdtune_train.so "$out/files" || fail "dtune-train has no library"
fi
if command -v lintian >/dev/null 2>&1; then
  lintian --fail-on error "$out"/*.deb || fail "lintian found errors"
fi

cd "$out"
dtune=$out/root/usr/bin/dtune
[ "$("$dtune" --version)" = "$("$build/bin/dtune" --version)" ] || fail "another version"
"$dtune" plan root/usr/share/dtune/recipes/ci-check.yaml > plan || fail "dtune plan: exit code $?"
grep -q ci-check plan || fail "dtune plan says: $(cat plan)"
printf 'study: tiny\ncommand: sh -c "echo step=1 score={x}"\nobjective: score\nspace: { x: { linear: [0, 1] } }\nbudget: { trials: 3 }\n' > tiny.yaml
"$dtune" run tiny.yaml --quiet > run || fail "dtune run: exit code $?"
"$dtune" report tiny.db && [ -s tiny.html ] || fail "dtune report wrote no page"
echo "package: ok"
