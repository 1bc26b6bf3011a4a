#!/bin/bash
# mpirun with four ranks on one host: rank 0 coordinates, the others are agents.
#
#   mpi_test.sh DTUNE
set -u
dtune=$1
command -v mpirun >/dev/null || { echo "skipped: needs mpirun (Debian: openmpi-bin)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work/home XDG_CACHE_HOME=$work/cache
mkdir -p "$HOME"
cd "$work" || exit 1
fail() { echo "FAILED: $*"; cat "$work"/*.out; exit 1; }
cat > r.yaml <<'YAML'
study: mpi
command:
  run: >-
    awk -v lr={lr} 'BEGIN { x = log(lr / 0.01) / log(10); if (x < 0) x = -x;
    for (s = 1; s <= 3; ++s) { system("sleep 0.3");
    print "step=" s " val_accuracy=" 0.9 - 0.1 * x - 0.1 / s; fflush() } }'
  steps: 3
space:
  lr: { log: [1.0e-4, 1.0] }
sampler: sobol
scheduler: fifo
seed: 7
resources: { slots: 1 }
budget: { trials: 12 }
YAML
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun -n 4 --oversubscribe "$dtune" run r.yaml --verbose > first.out 2>&1 ||
  fail "mpirun: exit code $?"
for rank in 1 2 3; do
  grep -q "node $(hostname)-$rank has joined with 1 slot" first.out || fail "rank $rank is missing"
done
"$dtune" run r.yaml --db alone.db --slots 4 --quiet > alone.out 2>&1 || fail "alone: exit code $?"
best() { "$dtune" best "$1" --json | tr -d ' \n' | grep -o '"params":{[^}]*}'; }
[ -n "$(best alone.db)" ] && [ "$(best r.db)" = "$(best alone.db)" ] ||
  fail "$(best r.db) instead of $(best alone.db)"
[ "$("$dtune" export r.db --csv | cut -d, -f11 | sort -u | grep -c "$(hostname)")" -gt 1 ] ||
  fail "one rank had all trials"
grep -q "dtune1-\|dtune-job" first.out && fail "a secret is in the log"
[ ! -e r.files/job.key ] || fail "the job's key outlives the run"

# A finished study is shown once, and no rank waits.
timeout 20 mpirun -n 4 --oversubscribe "$dtune" run r.yaml > again.out 2>&1 ||
  fail "finished: exit code $?"
[ "$(grep -c '^best ' again.out)" -eq 1 ] || fail "finished: the result is there more than once"

# What ends mpirun ends all ranks, and the study can be resumed.
mpirun -n 2 --oversubscribe "$dtune" run r.yaml --db stopped.db --verbose > stopped.out 2>&1 &
run=$!
for _ in $(seq 300); do grep -q "step 1/3" stopped.out && break; sleep .1; done
kill -TERM $run
wait $run
"$dtune" run r.yaml --db stopped.db --quiet > resumed.out 2>&1 || fail "resumed: exit code $?"
[ "$(best stopped.db)" = "$(best alone.db)" ] || fail "resumed: $(best stopped.db)"
echo "mpi: ok"
