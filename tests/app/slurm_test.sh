#!/bin/bash
# dtune on a Slurm of four hosts: symmetric, elastic, what dies and comes back,
# and where no secret may be.
#
#   slurm_test.sh DTUNE
. "$(dirname "$0")/engine_fixture.sh"
in_namespaces "$here/slurm_cluster.sh"

# ---- the same search on this host alone
recipe local 8 0.05
(cd local && "$dtune" run r.yaml --quiet > out 2>&1) || fail "local: $(cat local/out)"
want=$(best local/r.db)
[ -n "$want" ] || fail "local: no best point"

# ---- symmetric
recipe symmetric 8 "0.3$held"
touch symmetric/hold
release_when_joined symmetric symmetric/out n2 n3 n4
(cd symmetric && srun -N4 --ntasks-per-node=1 -o out --open-mode=append \
  "$dtune" run r.yaml --verbose) || fail "symmetric: exit code $?"
[ "$(best symmetric/r.db)" = "$want" ] || fail "symmetric: $(best symmetric/r.db) instead of $want"
for node in n2 n3 n4; do check symmetric/out "node $node has joined"; done
[ ! -e symmetric/r.files/job.key ] || fail "the job's key outlives the run"
# A finished study is shown, and its ranks do not wait for one that runs.
(cd symmetric && timeout 20 srun -N4 --ntasks-per-node=1 -o again "$dtune" run r.yaml) ||
  fail "symmetric, finished: exit code $?"

# ---- two studies on the same two nodes, and an agent with the other's key
for study in twin other; do
  recipe $study 8 "0.2$held"
  touch $study/hold
  (cd $study && srun -N2 -w n1,n2 --ntasks-per-node=1 -c1 -o out --open-mode=append \
    "$dtune" run r.yaml --verbose) &
done
await says twin/out "node n2 has joined"
await says other/out "node n2 has joined"
[ "$(squeue -h -t R -w n2 | wc -l)" -eq 2 ] || fail "n2 does not run both: $(squeue)"
endpoint=$(grep -o 'tcp://.*' twin/r.files/job.key)
timeout 30 "$dtune" agent --job-key other/r.files/job.key --connect "$endpoint" \
  --node stranger > stranger 2>&1
code=$?
[ $code -eq 2 ] || fail "stranger: exit code $code: $(cat stranger)"
rm twin/hold other/hold
wait
says twin/out "node stranger has joined" && fail "an agent came in with another's key"
for study in twin other; do
  [ "$(best $study/r.db)" = "$want" ] || fail "$study: $(best $study/r.db) instead of $want"
  check_history $study $study/out 8
done

# ---- the key through stdin: no file with the secret, no environment, no argument
recipe stdin 8 "0.1$held"
touch stdin/hold
release_when_joined stdin stdin/out n3
(cd stdin && "$dtune" keygen --job --port 5777 | timeout 60 srun --input=all -N3 \
  --ntasks-per-node=1 -o out --open-mode=append "$dtune" run r.yaml --verbose --job-key -) ||
  fail "stdin: exit code $?"
[ "$(best stdin/r.db)" = "$want" ] || fail "stdin: $(best stdin/r.db) instead of $want"
check stdin/out "node n3 has joined"

# ---- symmetric, requeued in the middle; its end is looked at below
recipe requeued 8 "0.3$held_later"
cd requeued
touch hold
job=$(sbatch --parsable --requeue --open-mode=append -N2 --ntasks-per-node=1 -o out \
  --wrap "srun --ntasks-per-node=1 $dtune run r.yaml --verbose")
await says out "step 3\|complete"
scontrol requeue "$job"
rm hold
cd ..

# ---- elastic, with scancel of an agent and kill -9 of the coordinator, which is
# started again on another node: its agents find it there
recipe elastic 8 "0.3$held_later" 'nodes: ["slurm://main?max=3&time=10m&poll=1s&idle=2s"]'
cd elastic
touch hold
"$dtune" run r.yaml --verbose > out 2>&1 &
run=$!
await says out "has joined with"
await says out "asked for an agent: job"
secrets_of r.files/job.key > ../secrets
[ "$(wc -l < ../secrets)" -eq 2 ] || fail "elastic: no job key"
[ "$(stat -c %a r.files/job.key)" = 600 ] || fail "elastic: others can read the job's key"
visible > shown
grep -q -- "--job-key" shown || fail "elastic: the agents are not among what was looked at"
grep -qFf ../secrets shown && fail "elastic: a secret is shown"
first=$(squeue -h -t R -o '%i %j' | grep dtune-elastic | head -1 | cut -d' ' -f1)
scancel "$first"
await says out "is leaving\|has left"
kill -9 $run
wait $run 2>/dev/null
rm hold
[ -e r.files/job.key ] || fail "elastic: the key of a killed run is gone"
srun -N1 -n1 -w n4 "$dtune" run r.yaml --verbose >> out 2>&1
code=$?
[ $code -eq 0 ] || { fail "elastic, resumed: exit code $code"; cat out; }
cd ..
[ "$(best elastic/r.db)" = "$want" ] || fail "elastic: $(best elastic/r.db) instead of $want"
check_history elastic elastic/out 8
await not_in_queue dtune-elastic
grep -qFf secrets -r elastic --include='*.log' --include=out && fail "elastic: a secret is in a log"

# ---- the requeued one
await queue_is_empty
check requeued/out "continuing the study"
check_history requeued requeued/out 8
[ "$(best requeued/r.db)" = "$want" ] || fail "requeued: $(best requeued/r.db) instead of $want"

# ---- the node of an agent dies, and is back when the study is over
recipe dead 8 0.6 'nodes: ["slurm://main?max=3&time=10m&poll=1s&idle=2s"]'
cd dead
"$dtune" run r.yaml --verbose > out 2>&1 &
run=$!
await says out "node n1 has joined"
await says out "node n2 has joined"
ip link set v1 down
await says out "node n1.* has been silent"
wait $run
code=$?
[ $code -eq 0 ] || { fail "dead: exit code $code"; cat out; }
ip link set v1 up
cd ..
[ "$(best dead/r.db)" = "$want" ] || fail "dead: $(best dead/r.db) instead of $want"
check_history dead dead/out 8

# ---- elastic on a partition whose jobs are preempted
recipe preempted 8 "0.3$held" 'nodes: ["slurm://low?max=2&time=10m&poll=1s&idle=2s"]'
cd preempted
touch hold
"$dtune" run r.yaml --verbose > out 2>&1 &
run=$!
await says out "has joined with"
urgent=$(sbatch --parsable -p high -N4 --exclusive -o urgent --wrap 'sleep 2')
await says out "is leaving\|has left\|has been silent"
rm hold
wait $run
code=$?
[ $code -eq 0 ] || { fail "preempted: exit code $code"; cat out; }
[ "$(grep -c 'asked for an agent' out)" -gt 2 ] || { fail "preempted: no other agent was asked for"; cat out; }
check out "is pending: "
cd ..
check_history preempted preempted/out 8
[ "$(best preempted/r.db)" = "$want" ] || fail "preempted: $(best preempted/r.db) instead of $want"
await queue_is_empty

# ---- Ctrl-C of an elastic run
recipe interrupted 8 0.5 'nodes: ["slurm://main?max=1&poll=1s&idle=2s"]'
cd interrupted
"$dtune" run r.yaml --verbose > out 2>&1 &
run=$!
await says out "asked for an agent"
kill -INT $run
wait $run
code=$?
[ $code -eq 130 ] || { fail "interrupted: exit code $code"; cat out; }
await not_in_queue dtune-interrupted
cd ..

# ---- what is wrong is said at once
recipe wrong 8 0.1 'nodes: ["slurm://gpx?max=1"]'
(cd wrong && timeout 30 "$dtune" run r.yaml > out 2>&1)
code=$?
[ $code -eq 3 ] || fail "wrong: exit code $code"
check wrong/out "sinfo lists the partitions"

finish slurm
