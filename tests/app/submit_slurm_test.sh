#!/bin/bash
# Studies submitted to a Slurm of four hosts (slurm_cluster.sh): what they need
# is asked before, they finish, survive a requeue, and leave nothing in the queue.
#
#   submit_slurm_test.sh DTUNE
. "$(dirname "$0")/engine_fixture.sh"
in_namespaces "$here/slurm_cluster.sh"

# ---- real limits of a minute, Slurm's least, while the rest is tested: of a
# job that is requeued, and of agents that others take the place of
recipe limited 18 1
limited=$(cd limited && "$dtune" submit r.yaml --to 'slurm://main?time=1m') ||
  fail "not submitted"
limited_job=$(squeue -h -o %i -n "$limited")
recipe relayed 20 1.1
relayed=$(cd relayed && "$dtune" submit r.yaml \
  --to 'slurm://main?max=1&time=1m&head_time=10m&poll=1s&idle=2s') || fail "not submitted"

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
recipe one 12 "0.2$held_later"
touch one/hold
name=$(cd one && "$dtune" submit r.yaml --to 'slurm://main?time=10m') || fail "not submitted"
log=one/r.files/$name.log
await says "$log" "complete"
"$dtune" status "$name" >status 2>&1 || fail "status: $(cat status)"
check status "running on n"
job=$(squeue -h -o %i -n "$name")
scontrol requeue "$job" || fail "not requeued"
rm one/hold
await says "$log" "finished after"
check "$log" "continuing the study"
await not_in_queue "$name"
"$dtune" status "$name" >status 2>&1 || fail "status: $(cat status)"
check status "is not in the queue"
check status "finished"

# ---- a coordinator that asks for agents
recipe agents 8 "0.3$held"
touch agents/hold
name=$(cd agents && "$dtune" submit r.yaml --to 'slurm://main?max=2&poll=1s&idle=2s') ||
  fail "not submitted"
await says "agents/r.files/$name.log" "has joined"
secrets_of agents/r.files/job.key >secrets
[ "$(wc -l <secrets)" -eq 2 ] || fail "agents: no job key"
visible >shown
says shown "--job-key" || fail "agents: not among what was looked at"
grep -qFf secrets shown && fail "agents: a secret is shown"
rm agents/hold
"$dtune" attach "$name" >attached 2>&1 || fail "attach: $(cat attached)"
check attached "asked for an agent: job"
check attached "finished after"
await not_in_queue "$name\|dtune-agents"
grep -rqFf secrets agents "$XDG_STATE_HOME" && fail "agents: a secret is left behind"

# ---- cancelled: coordinator and agents leave
recipe long 1000 1
name=$(cd long && "$dtune" submit r.yaml --to 'slurm://main?max=2&poll=1s') || fail "not submitted"
await says "long/r.files/$name.log" "has joined"
"$dtune" cancel "$name" || fail "not cancelled"
await not_in_queue "$name\|dtune-long"
sleep 2
not_in_queue "$name\|dtune-long" || fail "the job has come back: $(squeue -h)"

# ---- the two with limits
await says "limited/r.files/$limited.log" "finished after"
check "limited/r.files/$limited.log" "continuing the study"
scontrol show job "$limited_job" | grep -q "Restarts=[1-9]" || fail "limited: no requeue"
check_history limited "limited/r.files/$limited.log" 18
await says "relayed/r.files/$relayed.log" "finished after"
[ "$(grep -c "asked for an agent" "relayed/r.files/$relayed.log")" -ge 2 ] ||
  fail "relayed: no other agent was asked for: $(cat "relayed/r.files/$relayed.log")"
says "relayed/r.files/$relayed.log" "silent" && fail "relayed: an agent did not leave in time"
check_history relayed "relayed/r.files/$relayed.log" 20
scontrol show jobs | grep -q JobState=TIMEOUT && fail "Slurm had to end a job"
await queue_is_empty
finish "submitted to Slurm"
