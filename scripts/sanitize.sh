#!/usr/bin/env bash
# The Swift tests under a sanitizer: `address` for what is read after it was freed or beyond its end, `thread` for what two
# threads touch without order. Builds into .build/asan or .build/tsan, everything anew at the first time.
#
#   scripts/sanitize.sh address|thread [arguments of swift test, such as --filter SQLEngineTests]
#
# A finding makes the run fail and is printed at its end, those of programs that tests start among them. Tests/Sanitizers holds
# what is none, each with its reason.
set -euo pipefail
cd "$(dirname "$0")/.."
swift=${SWIFT:-swift}
sanitizer=${1:-}
lists=$PWD/Tests/Sanitizers
case $sanitizer in
address) scratch=.build/asan ;;
thread) scratch=.build/tsan ;;
*)
    echo "usage: scripts/sanitize.sh address|thread [arguments of swift test]" >&2
    exit 2
    ;;
esac
shift
build=(--sanitize="$sanitizer" --scratch-path "$scratch")

echo "==> ${scratch#.build/}: building the tests with --sanitize=$sanitizer"
"$swift" build "${build[@]}" --build-tests
echo "==> ${scratch#.build/}: the Swift tests"
findings=$PWD/$scratch/findings
rm -f "$findings".*
if [[ $sanitizer == thread ]]; then
    # The build is over: what runs now is the tests and `swift test` itself.
    libraries=$("${swift}c" -print-target-info | sed -n 's/.*"runtimeResourcePath": "\(.*\)".*/\1/p')
    clang=$libraries/../../bin/clang
    "$clang" -shared -fPIC -O1 -Wall -Wextra -Werror -o "$scratch/mutex.so" "$lists/mutex.c"
    export TSAN_OPTIONS="suppressions=$lists/thread.supp:log_path=$findings"
    export LD_PRELOAD=$PWD/$scratch/mutex.so
else
    export ASAN_OPTIONS="detect_stack_use_after_return=1:detect_leaks=1:log_path=$findings"
    export LSAN_OPTIONS="suppressions=$lists/leak.supp:print_suppressions=0"
fi
# Several times slower than usual: with all tests at once those that have a time limit would miss it.
export SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=4
status=0
"$swift" test "${build[@]}" --skip-build "$@" || status=$?
unset LD_PRELOAD
shopt -s nullglob
found=("$findings".*)
if [[ ${#found[@]} -gt 0 ]]; then
    cat "${found[@]}"
    echo "==> ${scratch#.build/}: the findings above are in $scratch" >&2
    status=1
fi
exit $status
