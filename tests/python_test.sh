#!/bin/sh
# Runs python_test.py where there is a Python for it: python_test.sh ROOT BUILD
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
  { echo "skipped: there is no Python 3.9 or newer"; exit 77; }
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$1/tests/python_test.py" "$1" "$2"
