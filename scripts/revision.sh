#!/bin/bash
# Writes the commit that is about to be built to .build/revision.txt, which stands in the program (`campanile --version`). A file that says so
# already stays as it is, so that nothing is compiled for it.
set -euo pipefail
cd "$(dirname "$0")/.."
revision=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
if [ "$revision" != unknown ] && ! git diff --quiet HEAD --; then revision=$revision+changes; fi
mkdir -p .build
[ "$(cat .build/revision.txt 2>/dev/null || true)" != "$revision" ] || exit 0
# The compiler has noted of a file that wasn't there nothing to look at again.
[ -e .build/revision.txt ] || touch Sources/CEmbedded/files.c
printf %s "$revision" >.build/revision.txt
