#!/bin/bash
# A study submitted to Kubernetes, whose part kubectl_stub.sh plays: it runs in
# the image that 'dtune image' writes. Real admission, scheduling, DNS and
# volumes are not tested.
#
#   kubernetes_test.sh DTUNE
. "$(dirname "$0")/engine_fixture.sh"
in_namespaces
export KUBE=$work/cluster PATH=$work/bin:$PATH
mkdir -p "$KUBE/image" "$KUBE/pods" "$KUBE/study" "$work/bin"
chown 65532:65532 "$KUBE/study"
ln -s "$here/kubectl_stub.sh" "$work/bin/kubectl"
fail() {
  echo "FAILED: $*"
  tail -n 30 "$KUBE"/log.* "$KUBE/events"
  exit 1
}

ip link set lo up
ip link add br0 type bridge && ip addr add 10.97.0.1/24 dev br0 &&
  ip link set br0 up || skip "no bridge can be made"

# The image, with a shell for the trials.
"$dtune" image --output oci --add /bin/sh --add /bin/sleep --json >image.json ||
  fail "no image"
for blob in oci/blobs/sha256/*; do
  tar -xf "$blob" -C "$KUBE/image" 2>/dev/null
done
chmod 755 "$KUBE/image/bin/sh" "$KUBE/image/bin/sleep"
mkdir -p "$KUBE/image"/{proc,dev,etc/dtune}
touch "$KUBE/image/etc/hosts"

cat >r.yaml <<'YAML'
study: pods
command:
  run: [sh, -c, "s=0; while [ $s -lt 4 ]; do s=$((s + 1)); sleep 0.5; echo step=$s val_accuracy=0.$s; done"]
  steps: 4
space: { lr: { log: [0.001, 0.1] } }
objective: val_accuracy
budget: { trials: 24 }
slots: 1
YAML
to='k8s://lab?image=reg/dtune:1&agents=2'
# Names are known after submission only; hosts are read when pods look.
echo "127.0.0.1 localhost" >"$KUBE/hosts"
name=$("$dtune" submit r.yaml --to "$to") || fail "not submitted"
echo "10.97.0.1 $name-0.$name" >>"$KUBE/hosts"

for agent in 0 1; do
  await says "$KUBE/log.$name-agent-$agent" "joined the study"
done
"$dtune" status "$name" >status.txt 2>&1 || fail "no status"
says status.txt "coordinator running; agents: 2 running" || fail "$(cat status.txt)"
says status.txt "running" || fail "$(cat status.txt)"

# No secret in arguments, environments and logs.
secrets_of "$KUBE/secret.$name" >secrets
[ "$(wc -l <secrets)" -eq 2 ] || fail "no secret in the Secret"
visible >shown
says shown "^pod$" || fail "the pods are not among what was looked at"
grep -qFf secrets shown && fail "a secret is in arguments or an environment"
grep -rqFf secrets "$KUBE"/log.* r.files state && fail "a secret is in a log"
grep -q dtune-job-server.*-$ "$KUBE/secret.$name-agents" ||
  fail "agents have the coordinator's secret"

# An agent that is evicted leaves with 75, and its Job brings it back.
joined() { # TIMES AGENT
  [ "$(grep -c "joined the study" "$KUBE/log.$name-agent-$2")" -ge "$1" ]
}
kubectl evict "$name-agent-0"
await says "$KUBE/events" "pod $name-agent-0 ended with 75"
await joined 2 0
# The coordinator's pod comes back on its volume. Its agents stay, and find it.
kubectl evict "$name-0"
await says "$KUBE/events" "pod $name-0 ended with"
await joined 3 0
await joined 2 1
says "$KUBE/events" "agent-. ended with 0" && fail "a Job was complete too early"
await says "$KUBE/log.$name-0" "the pod stays until"
says "$KUBE/log.$name-0" "continuing the study" || fail "it did not go on"
await says "$KUBE/events" "pod $name-agent-0 ended with 0"
await says "$KUBE/events" "pod $name-agent-1 ended with 0"
"$dtune" status "$name" >status.txt 2>&1 || fail "no status"
says status.txt "finished" || fail "$(cat status.txt)"
"$dtune" attach "$name" 2>/dev/null | grep -q "finished after" || fail "no log"

"$dtune" cancel "$name" || fail "not cancelled"
await sh -c '! ls "$KUBE"/pid.* 2>/dev/null'
finish "a study ran on Kubernetes, as far as a stub can say"
