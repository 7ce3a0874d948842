#!/usr/bin/env bash
# Holds a running server to openapi.yaml with schemathesis. See `contract/schemathesis.sh --help`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=$("$here/venv.sh")
exec "$python" "$here/run_schemathesis.py" "$@"
