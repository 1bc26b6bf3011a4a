#!/bin/bash
# A kubectl that is its own cluster, for kubernetes_test.sh: Jobs and
# StatefulSets of one pod run as processes of user 65532 in the unpacked image
# ($KUBE/image), whose root they cannot write to, with Secrets (root's, 0440, as
# with an fsGroup), ConfigMaps, a volume and /tmp mounted; all pods share the
# network of this process. It understands create, get, exec, logs and delete as
# dtune uses them, and `evict POD`, which is no command of kubectl.
set -u
while [[ "$1" == --* ]]; do shift; done
action=$1
shift

document_value() { sed -n "s/^$2\"\\(.*\\)\"\$/\\1/p" "$1" | head -1; }

# A pod once: returns its exit code.
run_pod() { # NAME MANIFEST
  local root=$KUBE/pods/$1 command secret
  readarray -t command < <(sed -n 's/^ *command: \["\(.*\)"\]$/\1/p' "$2" |
    sed 's/", "/\n/g')
  secret=$(sed -n 's/.*secretName: "\([^"]*\)".*/\1/p' "$2")
  mkdir -p "$root"
  unshare -m --propagation private bash -c '
    mount --bind "$1/image" "$2" && mount -t tmpfs none "$2/etc/dtune"
    mkdir "$2/etc/dtune/key" "$2/etc/dtune/recipe"
    cp "$1/secret.$3" "$2/etc/dtune/key/job.key"
    chown 0:65532 "$2/etc/dtune/key/job.key"
    chmod 0440 "$2/etc/dtune/key/job.key"
    cp "$1"/recipe.yaml "$2/etc/dtune/recipe/"
    mount -t tmpfs none "$2/tmp" && chmod 1777 "$2/tmp"
    mount --rbind /dev "$2/dev"; mount -t proc none "$2/proc"
    mount --bind "$1/hosts" "$2/etc/hosts"
    mount -o remount,ro,bind "$2"
    grep -q mountPath:./study "$4" && mount --bind "$1/study" "$2/study"
    chroot=$(command -v chroot) root=$2 name=$5; shift 5
    exec env -i PATH=/usr/local/bin:/bin HOME=/tmp XDG_CACHE_HOME=/tmp/cache \
      KUBERNETES_SERVICE_HOST=10.96.0.1 HOSTNAME="$name" \
      "$chroot" --userspec=65532:65532 "$root" "$@"
  ' pod "$KUBE" "$root" "$secret" "$2" "$1" "${command[@]}" \
    >>"$KUBE/log.$1" 2>&1 &
  echo $! >"$KUBE/pid.$1"
  wait $!
}

# Again and again, as the pod's owner has it.
own_pod() { # NAME MANIFEST KIND
  local starts=0 code
  touch "$KUBE/owned.$1"
  while [ ! -e "$KUBE/deleted.$1" ] && [ $starts -lt 10 ]; do
    starts=$((starts + 1))
    run_pod "$1" "$2"
    code=$?
    echo "pod $1 ended with $code" >>"$KUBE/events"
    if [ "$3" = Job ] && { [ $code = 0 ] || [ $code = 2 ]; }; then break; fi
    sleep 0.2
  done
  rm -f "$KUBE/pid.$1"
  echo over >"$KUBE/over.$1"
}

create() {
  local part kind name
  rm -f "$KUBE"/new.*
  awk -v to="$KUBE/new." '/^---$/ { ++n; next } { print > (to n + 0) }'
  for part in "$KUBE"/new.*; do
    kind=$(sed -n 's/^kind: //p' "$part")
    name=$(document_value "$part" '  name: ')
    echo "${kind,,}/$name"
    case $kind in
      Secret)
        (umask 077 && document_value "$part" '  job.key: ' | base64 -d \
          >"$KUBE/secret.$name") ;;
      ConfigMap)
        printf '%b' "$(document_value "$part" '  recipe.yaml: ' |
          sed 's/\\"/"/g')" >"$KUBE/recipe.yaml" ;;
      StatefulSet | Job)
        [ "$kind" = StatefulSet ] && name=$name-0
        mv "$part" "$KUBE/manifest.$name"
        # Outlives this process and its group.
        setsid bash "$0" own "$name" "$KUBE/manifest.$name" "$kind" \
          </dev/null >/dev/null 2>&1 &
        until [ -e "$KUBE/owned.$name" ]; do sleep 0.02; done
        ;;
    esac
  done | sed 's|^job/|job.batch/|'
  rm -f "$KUBE"/new.*
}

list_pods() {
  local manifest name part phase separator=
  echo '{"items": ['
  for manifest in "$KUBE"/manifest.*; do
    [ -e "$manifest" ] || continue
    name=${manifest##*/manifest.}
    part=$(sed -n 's|^ *dtune/part: \([a-z]*\)$|\1|p' "$manifest" | head -1)
    phase=Pending
    [ -e "$KUBE/pid.$name" ] && phase=Running
    [ -e "$KUBE/over.$name" ] && phase=Succeeded
    echo "$separator"'{"kind": "Pod", "metadata": {"name": "'"$name"'",
      "labels": {"dtune/part": "'"$part"'"}}, "status": {"phase": "'$phase'"}}'
    separator=,
  done
  echo ']}'
}

stop_pod() {
  [ -e "$KUBE/pid.$1" ] && kill -TERM "$(cat "$KUBE/pid.$1")" 2>/dev/null
}

case $action in
  create) create ;;
  own) own_pod "$@" ;;
  get) list_pods ;;
  logs) cat "$KUBE/log.${!#}" ;;
  evict) stop_pod "$1" ;;
  exec)
    name=$1
    shift 2
    exec nsenter --mount --target "$(cat "$KUBE/pid.$name")" \
      chroot --userspec=65532:65532 "$KUBE/pods/$name" "$@" ;;
  delete)
    for manifest in "$KUBE"/manifest.*; do
      name=${manifest##*/manifest.}
      touch "$KUBE/deleted.$name"
      stop_pod "$name"
      rm -f "$manifest"
    done
    rm -f "$KUBE"/secret.* ;;
  *) echo "error: unknown command \"$action\"" >&2; exit 1 ;;
esac
