#!/usr/bin/env bash
# A server and the simulator of Apple and Google on this machine: real pushes over HTTP/2 and TLS to phones to look at.
# Takes the path of the campanile binary. Ctrl-C stops both; what was made stays in data/demo.
set -euo pipefail
binary=${1:?"the path of the campanile binary"}
folder=data/demo
server=http://127.0.0.1:3001
page=http://127.0.0.1:2198
mkdir -p "$folder"

stop() {
    trap - EXIT INT TERM
    kill "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
}
pids=()
trap stop EXIT INT TERM

# Waits until something answers at an address.
answers() {
    for _ in $(seq 100); do
        curl --silent --fail --output /dev/null "$1" && return
        sleep 0.1
    done
    echo "demo: nothing answers at $1; is its port taken?" >&2
    exit 1
}

"$binary" simulator --strict --make-keys "$folder/simulator" 2>"$folder/simulator.log" &
pids+=($!)
answers "$page/devices"
export CAMPANILE_CONSOLE=${CAMPANILE_CONSOLE:-true}
"$binary" serve --config "$folder/simulator/campanile.yaml" --database "$folder/campanile.sqlite" 2>"$folder/server.log" &
pids+=($!)
answers "$server/healthz"

key=$("$binary" keys create "demo-$$" --database "$folder/campanile.sqlite" 2>/dev/null)
token=$("$binary" token alice --database "$folder/campanile.sqlite")
device() {
    curl --silent --show-error --fail --output /dev/null "$server/device_tokens" -H "Authorization: Bearer $token" \
        -H 'Content-Type: application/json' -d "{\"token\":\"$1\",\"platform\":\"$2\"}"
}
device "$(printf 'a%.0s' {1..64})" ios
device "$(printf 'b%.0s' {1..64})" ios
device "alices-android-phone" android

cat <<END

The phones of alice: $page/
The server:          $server   (its log: $folder/server.log)
The console:         $server/console   (its token and key are in the commands below; the phones' address: $page)

Push to them, and look at the page:
  curl $server/notifications -H "Authorization: Bearer $key" -H 'Content-Type: application/json' \\
    -d '{"user_id":"alice","title":"Hello","body":"from the demo"}'
Open the inbox as the app does, and the icons go back to 0:
  curl $server/notifications -H "Authorization: Bearer $token" -A 'Demo Hotwire Native iOS'
Faults on command: docs/simulator.md. Ctrl-C stops both.
END
while :; do sleep 1; kill -0 "${pids[@]}" 2>/dev/null || { echo "demo: one of the programs ended; see $folder" >&2; exit 1; }; done
