#!/bin/bash
# Studies submitted to a Slurm of four hosts (slurm_cluster.sh): what they need
# is asked before, they finish, survive a requeue, and leave nothing in the queue.
#
#   submit_slurm_test.sh DTUNE [in FOLDER]
set -u
dtune=$1
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -eq 1 ]; then
  work=$(mktemp -d)
  chmod 755 "$work"  # munged is another user
  trap 'rm -rf "$work"' EXIT
  unshare -m -n -u -p -f --mount-proc true 2>/dev/null ||
    { echo "skipped: namespaces need root"; exit 77; }
  unshare -m -n -u -p -f --mount-proc \
    bash "$here/slurm_cluster.sh" "$work/slurm" bash "$0" "$dtune" in "$work"
  exit $?
fi
work=$3
export HOME=$work/home XDG_CACHE_HOME=$work/cache XDG_STATE_HOME=$work/state
unset SLURM_JOB_ID SLURM_STEP_ID
mkdir -p "$HOME"
cd "$work" || exit 1
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
check() { grep -q -- "$2" "$1" || { fail "$1 does not say '$2':"; cat "$1"; }; }
await() { # WHAT COMMAND...
  local what=$1
  shift
  for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
  fail "waited in vain: $what"
}
queue_is_empty() { [ -z "$(squeue -h)" ]; }
recipe() { # NAME TRIALS SECONDS
  mkdir -p "$1"
  cat >"$1/r.yaml" <<YAML
study: $1
command:
  run: [sh, -c, "for s in 1 2 3; do sleep $3; echo step=\$s val_accuracy=0.\$s; done"]
  steps: 3
space: { lr: { log: [1.0e-4, 1.0] } }
objective: val_accuracy
budget: { trials: $2 }
YAML
}

# ---- before: would it be taken?
recipe asked 1 0
(cd asked && "$dtune" doctor --to slurm://main >out 2>&1) || fail "doctor: $(cat asked/out)"
check asked/out "main"
(cd asked && "$dtune" doctor --to slurm://gpx >out 2>&1) && fail "doctor: gpx is a partition"
check asked/out "problem"
(cd asked && "$dtune" submit r.yaml --to slurm://gpx >out 2>&1)
[ $? -eq 2 ] || fail "submit to gpx: $(cat asked/out)"
check asked/out "nvalid partition"

# ---- one job, requeued in the middle
recipe one 12 0.2
name=$(cd one && "$dtune" submit r.yaml --to 'slurm://main?time=10m') || fail "not submitted"
log=one/r.files/$name.log
await "a trial" grep -q "complete" "$log"
"$dtune" status "$name" >status 2>&1 || fail "status: $(cat status)"
check status "running on n"
job=$(squeue -h -o %i -n "$name")
scontrol requeue "$job" || fail "not requeued"
await "the end" grep -q "finished after" "$log"
check "$log" "continuing the study"
await "an empty queue" queue_is_empty
"$dtune" status "$name" >status 2>&1 || fail "status: $(cat status)"
check status "is not in the queue"
check status "finished"

# ---- a coordinator that asks for agents
recipe agents 8 0.3
name=$(cd agents && "$dtune" submit r.yaml --to 'slurm://main?max=2&poll=1s&idle=2s') ||
  fail "not submitted"
"$dtune" attach "$name" >attached 2>&1 || fail "attach: $(cat attached)"
check attached "asked for an agent: job"
check attached "finished after"
await "an empty queue" queue_is_empty
grep -rqE "^dtune-job-(server|agent) " agents "$XDG_STATE_HOME" && fail "a key is left behind"

# ---- cancelled: coordinator and agents leave
recipe long 1000 1
name=$(cd long && "$dtune" submit r.yaml --to 'slurm://main?max=2&poll=1s') || fail "not submitted"
await "an agent" grep -q "has joined" "long/r.files/$name.log"
"$dtune" cancel "$name" || fail "not cancelled"
await "an empty queue after cancel" queue_is_empty
sleep 2
queue_is_empty || fail "the job has come back: $(squeue -h)"
[ $failures -eq 0 ] && echo "submitted to Slurm: ok"
exit $((failures > 0))
