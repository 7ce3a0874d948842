#!/usr/bin/env bash
# Makes the project's virtual environment .venv with e2e/requirements.txt in it, once; again when that file changes.
# With a word, .venv-WORD with requirements-WORD.txt. Prints the path of its python.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
name=.venv${1:+-$1}
venv=$root/$name
requirements=e2e/requirements${1:+-$1}.txt
wanted=$(sha256sum <"$root/$requirements")
if [[ ! -x $venv/bin/python || $(cat "$venv/requirements.sha256" 2>/dev/null) != "$wanted" ]]; then
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        echo "venv.sh: python3 with venv is needed: apt-get install python3 python3-venv" >&2
        exit 1
    fi
    echo "venv.sh: installing $requirements into $name" >&2
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$root/$requirements" >&2
    echo "$wanted" >"$venv/requirements.sha256"
fi
echo "$venv/bin/python"
