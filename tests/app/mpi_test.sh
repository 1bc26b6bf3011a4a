#!/bin/bash
# mpirun with four ranks on one host: rank 0 coordinates, the others are agents.
#
#   mpi_test.sh DTUNE
. "$(dirname "$0")/engine_fixture.sh"
command -v mpirun >/dev/null || skip "needs mpirun (Debian: openmpi-bin)"
new_folder
enter_folder
fail() { echo "FAILED: $*"; cat "$work"/mpi/*.out; exit 1; }
recipe mpi 12 "0.2$held_later" 'resources: { slots: 1 }'
cd mpi || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
touch hold
release_when_joined . first.out "$(hostname)-1" "$(hostname)-2" "$(hostname)-3"
mpirun -n 4 --oversubscribe "$dtune" run r.yaml --verbose > first.out 2>&1 ||
  fail "mpirun: exit code $?"
for rank in 1 2 3; do
  grep -q "node $(hostname)-$rank has joined with 1 slot" first.out || fail "rank $rank is missing"
done
"$dtune" run r.yaml --db alone.db --slots 4 --quiet > alone.out 2>&1 || fail "alone: exit code $?"
[ -n "$(best alone.db)" ] && [ "$(best r.db)" = "$(best alone.db)" ] ||
  fail "$(best r.db) instead of $(best alone.db)"
[ "$("$dtune" export r.db --csv | cut -d, -f11 | sort -u | grep -c "$(hostname)")" -gt 1 ] ||
  fail "one rank had all trials"
grep -q "dtune2-\|dtune-job" first.out && fail "a secret is in the log"
[ ! -e r.files/job.key ] || fail "the job's key outlives the run"

# A finished study is shown once, and no rank waits.
timeout 20 mpirun -n 4 --oversubscribe "$dtune" run r.yaml > again.out 2>&1 ||
  fail "finished: exit code $?"
[ "$(grep -c '^best ' again.out)" -eq 1 ] || fail "finished: the result is there more than once"

# What ends mpirun ends all ranks, and the study can be resumed.
touch hold
mpirun -n 2 --oversubscribe "$dtune" run r.yaml --db stopped.db --verbose > stopped.out 2>&1 &
run=$!
await says stopped.out "step 1/3"
kill -TERM $run
wait $run
rm hold
# mpirun can return before rank 0 has ended; until then the study is held (75).
resume() {
  "$dtune" run r.yaml --db stopped.db --quiet > resumed.out 2>&1
  resumed=$?
  [ $resumed -ne 75 ]
}
await resume
[ $resumed -eq 0 ] || fail "resumed: exit code $resumed"
[ "$(best stopped.db)" = "$(best alone.db)" ] || fail "resumed: $(best stopped.db)"
finish mpi
