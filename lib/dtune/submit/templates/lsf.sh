#!/bin/bash
# Study {{name}} on LSF, written by dtune submit. Start it:
#   mkdir -p {{folder}} && bsub <THIS_FILE
#BSUB -J {{name}}
{{if place}}
#BSUB -q {{place}}
{{end}}
{{if account}}
#BSUB -P {{account}}
{{end}}
#BSUB -n {{nodes}} -R "span[ptile=1]"
{{if time}}
#BSUB -W {{hours_minutes}}
{{end}}
# A job that has to leave (75), or is interrupted (130), starts again.
#BSUB -r -Q "75 130" -oo {{log}}
{{raw}}
umask 077
# The same command on every node; rank 0 coordinates.
exec mpirun --map-by ppr:1:node --bind-to none \
  {{command*}}
