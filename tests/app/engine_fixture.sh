# What the tests of engines have in common. Sourced with their arguments:
#
#   TEST.sh DTUNE [in FOLDER]
#
# `in FOLDER` is what in_namespaces adds where it starts the test once more.
set -u
dtune=$1
here=$(cd "$(dirname "$0")" && pwd)
work=${3:-}
failures=0

fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
skip() { echo "skipped: $1"; exit 77; }
says() { grep -q -- "$2" "$1" 2>/dev/null; } # FILE TEXT
check() { says "$1" "$2" || { fail "$1 does not say '$2':"; cat "$1"; }; }
# Tries until a command succeeds, two minutes at most.
await() {
  for _ in $(seq 1200); do "$@" >/dev/null 2>&1 && return 0; sleep .1; done
  fail "waited in vain: $*"
  return 1
}
finish() { # NAME
  [ $failures -eq 0 ] && echo "$1: ok"
  exit $((failures > 0))
}

# A folder of this test, removed at its end.
new_folder() {
  work=$(mktemp -d)
  chmod 755 "$work" # munged and pods are other users
  trap 'rm -rf "$work"' EXIT
}
enter_folder() {
  export HOME=$work/home XDG_CACHE_HOME=$work/cache XDG_STATE_HOME=$work/state
  mkdir -p "$HOME"
  cd "$work" || exit 1
}
# Goes on in namespaces of its own, where SCRIPT (slurm_cluster.sh), if there is
# one, has made a cluster in a folder there.
in_namespaces() { # [SCRIPT]
  if [ -z "$work" ]; then
    new_folder
    local enter=(unshare -m -n -u -p -f --mount-proc)
    "${enter[@]}" true 2>/dev/null || skip "namespaces need root"
    "${enter[@]}" bash ${1:+"$1" "$work/cluster" bash} "$0" "$dtune" in "$work"
    exit $?
  fi
  unset SLURM_JOB_ID SLURM_STEP_ID
  enter_folder
}

# NAME/r.yaml. Trial n tries the n-th point, on any node, so the best is always
# the same.
recipe() { # NAME TRIALS SECONDS_A_STEP [MORE_YAML]
  mkdir -p "$1"
  cat >"$1/r.yaml" <<YAML
study: $1
command:
  run: >-
    awk -v lr={lr} 'BEGIN { x = log(lr / 0.01) / log(10); if (x < 0) x = -x;
    for (s = 1; s <= 3; ++s) { system("sleep $3");
    print "step=" s " val_accuracy=" 0.9 - 0.1 * x - 0.1 / s; fflush() } }'
  steps: 3
space:
  lr: { log: [1.0e-4, 1.0] }
sampler: sobol
scheduler: fifo
seed: 7
budget: { trials: $2 }
limits: { lease: 3s, heartbeat: 500ms, grace: 1s }
${4:-}
YAML
}
# Behind the seconds of a recipe's steps: no step ends, or none of a trial after
# the fourth, while there is a file `hold` beside the recipe. What is to happen
# during a study so happens during it.
held='; while [ -e hold ]; do sleep .05; done'
held_later='; while [ -e hold ] && [ $DTUNE_TRIAL -gt 4 ]; do sleep .05; done'
# Lets the steps go on once these nodes have joined.
release_when_joined() { # STUDY LOG NODE...
  local study=$1 log=$2 node
  shift 2
  (
    for node; do await says "$log" "node $node has joined"; done
    rm "$study/hold"
  ) &
}
best() { # DATABASE
  "$dtune" best "$1" --json | tr -d ' \n' | grep -o '"params":{[^}]*}'
}
trials_run() { # DATABASE
  "$dtune" export "$1" --csv | cut -d, -f1 | sort -un | grep -c '[0-9]'
}

# No step that was shown is lost, and each trial of TRIALS is there once.
check_history() { # STUDY LOG TRIALS
  local complete lost
  complete=$(sed -n 's/.* trial \([0-9]*\) complete at .*/\1/p
    s/.* trial \([0-9]*\) step .*: complete$/\1/p' "$2" | sort -n)
  [ "$complete" = "$(seq "$3")" ] || fail "$1: not each of $3 trials once: $complete"
  lost=$(awk '$2 == "trial" && $4 == "step" && $5 + 0 > shown[$3] { shown[$3] = $5 + 0 }
    /: resumed$/ && $7 + 0 < shown[$3]' "$2")
  [ -z "$lost" ] || fail "$1: steps are lost: $lost"
  [ "$(trials_run "$1/r.db")" = "$3" ] || fail "$1: $(trials_run "$1/r.db") trials"
  "$dtune" export "$1/r.db" --curves >curves || fail "$1: no curves"
  [ "$(grep -c '^[0-9]' curves)" -eq $((3 * $3)) ] || fail "$1: steps are missing"
}

# What other users may see: what Slurm keeps of each job, and arguments and
# environments of all processes.
visible() {
  for job in $(squeue -h -o %i 2>/dev/null); do
    scontrol show job "$job"
    scontrol write batch_script "$job" - 2>/dev/null
  done
  cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n'
}
# The secret halves of a job's key, a line each.
secrets_of() { # JOB_KEY
  grep -h 'dtune-job-\(agent\|server\)' "$1" | cut -d' ' -f3
}
queue_is_empty() { [ -z "$(squeue -h)" ]; }
not_in_queue() { ! squeue -h -o %j | grep -q "$1"; }
