#!/bin/bash
# Study {{name}} on PBS, written by dtune submit. Start it:
#   mkdir -p {{folder}} && qsub THIS_FILE
#PBS -N {{name}}
{{if place}}
#PBS -q {{place}}
{{end}}
{{if account}}
#PBS -A {{account}}
{{end}}
#PBS -l select={{nodes}}:ncpus={{cpus}}:mpiprocs=1 -l place=scatter
{{if time}}
#PBS -l walltime={{time}}
{{end}}
# A job that the site takes back starts again, and the study goes on.
#PBS -r y -j oe -o {{log}}
{{raw}}
umask 077
# The same command on every node; rank 0 coordinates.
exec mpirun --map-by ppr:1:node --bind-to none \
  {{command*}}
