# Sourced by third_party/package. A Debian of nothing but what the two packages
# need, by mmdebstrap; buildah makes an image of it. No registry is asked.

make_image() {
  need mmdebstrap mmdebstrap
  need buildah buildah
  [ "$(id -u)" -eq 0 ] || die "making a Debian root needs root (or: buildah unshare sh third_party/package image)"
  [ -e "$output/dtune_${version}_$(dpkg --print-architecture).deb" ] || make_deb
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT INT TERM
  # Nothing that a container has no use for; logs and caches differ from build
  # to build.
  mmdebstrap --variant=apt --include=ca-certificates,libopenblas0-pthread \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook="copy-in $output/dtune_${version}_$(dpkg --print-architecture).deb $output/dtune-train_${version}_$(dpkg --print-architecture).deb /tmp" \
    --customize-hook='chroot "$1" sh -c "apt-get install -y --no-install-recommends /tmp/dtune*.deb && rm /tmp/dtune*.deb"' \
    --customize-hook='rm -rf "$1"/var/log/* "$1"/var/cache/ldconfig/aux-cache' \
    bookworm "$work/root.tar" >&2
  # Works where containers cannot be nested.
  export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
  container=$(buildah --root "$work/store" --runroot "$work/run" from scratch)
  buildah --root "$work/store" --runroot "$work/run" add "$container" "$work/root.tar" / >&2
  buildah --root "$work/store" --runroot "$work/run" config --entrypoint '["/usr/bin/dtune"]' --cmd --help --workingdir /work \
    --label org.opencontainers.image.title=dtune --label "org.opencontainers.image.version=$version" "$container"
  buildah --root "$work/store" --runroot "$work/run" commit --timestamp "$SOURCE_DATE_EPOCH" --quiet "$container" \
    "oci-archive:$output/dtune_$version.oci.tar:dtune:$version" >&2
  echo "$output/dtune_$version.oci.tar"
}
