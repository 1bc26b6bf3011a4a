#!/bin/bash
# Study {{name}} on Slurm, written by dtune submit. By hand:
#   mkdir -p {{folder}} && sbatch THIS_FILE
#SBATCH --job-name={{name}}
{{if many}}
# One task on each node: dtune is the same command everywhere, and splits the
# cores and GPUs of its node by itself.
#SBATCH --nodes={{nodes}} --ntasks-per-node=1
{{end}}
{{if elastic}}
# The coordinator alone: it asks for jobs with agents as trials could use them.
#SBATCH --ntasks=1 --cpus-per-task=1
{{end}}
{{if single}}
#SBATCH --nodes=1 --ntasks=1
{{end}}
{{if options}}
#SBATCH {{options}}
{{end}}
# What dtune says; a job that starts again adds to it.
#SBATCH --output="{{log_pattern}}" --open-mode=append
# After preemption, or where a node is lost, the job starts again under its id
# and the study goes on. USR2 comes some time before the time limit, to this
# script alone (NCCL takes USR1 for itself).
#SBATCH --requeue --signal=B:USR2@{{warning}}
{{raw}}
umask 077

near_the_end=
warn() {
  near_the_end=yes
  kill -TERM "$study" 2>/dev/null
}
trap warn USR2
# A job that is cancelled does not come back; what was preempted Slurm brings
# back by itself.
told_to_end=
leave() {
  told_to_end=yes
  kill -TERM "$study" 2>/dev/null
}
trap leave TERM

{{if many}}
# srun does not take over the cores of a task by itself; binding is the agents'.
srun --kill-on-bad-exit=0 --cpu-bind=none \
  --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" \
  {{command*}} &
{{end}}
{{if alone}}
{{command*}} &
{{end}}
study=$!
wait "$study"
code=$?
# A signal to this script ends a wait, not the study.
while kill -0 "$study" 2>/dev/null; do
  wait "$study"
  code=$?
done

# 0 to 3 are final: done, an expectation failed, the recipe is wrong, the study
# failed. All others mean that there is something left to do, and a time limit
# is no end: the same job again, or, where the cluster refuses that, another one
# behind it.
again() {
  local so_far=$((${SLURM_RESTART_COUNT:-0} + ${DTUNE_FOLLOWED:-0}))
  if [ "$so_far" -ge {{restarts!}} ]; then
    echo "dtune: the job does not start again: restarts={{restarts!}} is reached"
    return
  fi
  scontrol requeue "$SLURM_JOB_ID" && exit 0
  sbatch --parsable --dependency=afterany:"$SLURM_JOB_ID" \
    --export=ALL,DTUNE_FOLLOWED=$((so_far + 1)) {{script}} >{{job_file}} &&
    echo "dtune: job $(cat {{job_file}}) goes on with the study"
}
case $code in
  0 | 1 | 2 | 3) exit "$code" ;;
esac
if [ -n "$near_the_end" ] || { [ "$code" = 75 ] && [ -z "$told_to_end" ]; }; then
  again
fi
exit "$code"
