#!/usr/bin/env bash
# Holds a running server to openapi.yaml with schemathesis. See `e2e/contract/schemathesis.sh --help`.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
python=$("$root/e2e/venv.sh")
PYTHONPATH=$root exec "$python" -m e2e.contract.run_schemathesis "$@"
