#!/usr/bin/env bash
# Makes the project's virtual environment .venv with contract/requirements.txt in it, once; again when that file changes.
# Prints the path of its python.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
wanted=$(sha256sum <"$root/contract/requirements.txt")
if [[ ! -x $root/.venv/bin/python || $(cat "$root/.venv/requirements.sha256" 2>/dev/null) != "$wanted" ]]; then
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        echo "venv.sh: python3 with venv is needed: apt-get install python3 python3-venv" >&2
        exit 1
    fi
    echo "venv.sh: installing contract/requirements.txt into .venv" >&2
    python3 -m venv --clear "$root/.venv"
    "$root/.venv/bin/pip" install --quiet --disable-pip-version-check -r "$root/contract/requirements.txt" >&2
    echo "$wanted" >"$root/.venv/requirements.sha256"
fi
echo "$root/.venv/bin/python"
