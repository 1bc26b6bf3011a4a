#!/bin/bash
# Study {{name}} on Flux, written by dtune submit. Start it:
#   mkdir -p {{folder}} && flux batch THIS_FILE
# flux: --job-name={{name}}
# flux: --nodes={{nodes}}
{{if place}}
# flux: --queue={{place}}
{{end}}
{{if time}}
# flux: --time-limit={{seconds!}}s
{{end}}
# flux: --output={{log}}
{{raw}}
umask 077
# The same command on every node; rank 0 coordinates.
exec flux run --nodes={{nodes!}} --tasks-per-node=1 --exclusive \
  {{command*}}
