#!/usr/bin/env bash
# What compose.yaml's demo has at its start: a producer's key, the phones of a user alice; and the lines to try. The image holds
# no curl, so the calls are made by bash itself.
set -euo pipefail
umask 077
user=alice

# call METHOD PATH BODY: the server's answer must be a 2xx.
call() {
    local status=
    exec 3<>/dev/tcp/campanile/3001
    {
        printf '%s %s HTTP/1.1\r\nHost: campanile\r\nConnection: close\r\nAuthorization: Bearer %s\r\n' "$1" "$2" "$token"
        printf 'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "${#3}" "$3"
    } >&3
    read -r _ status _ <&3 || true
    exec 3<&-
    [[ $status == 2* ]] || { echo "seed: $1 $2 was answered ${status:-nothing}" >&2; exit 1; }
}

# Made once, and kept beside the database: a key is shown when it is made and never again.
if [[ ! -s /data/demo.key ]]; then
    key=$(campanile keys create "demo-$(date +%s)")
    echo "$key" >/data/demo.key
fi
key=$(</data/demo.key)
token=$(campanile token "$user" --ttl 30d)

for device in "$(printf 'a%.0s' {1..64}) ios" "$(printf 'b%.0s' {1..64}) ios" "alices-android-phone android"; do
    call POST /device_tokens "{\"token\":\"${device% *}\",\"platform\":\"${device#* }\"}"
done

server=http://127.0.0.1:3001
cat <<END

The phones of $user: http://127.0.0.1:2198/
The console:         $server/console   (its token and key are in the commands below; the phones' address: http://127.0.0.1:2198)

Push to the phones, and look at them:
  curl $server/notifications -H "Authorization: Bearer $key" -H 'Content-Type: application/json' \\
    -d '{"user_id":"$user","title":"Hello","body":"from the demo"}'
Open the inbox as the app does, and the icons go back to 0:
  curl $server/notifications -H "Authorization: Bearer $token" -A 'Demo Hotwire Native iOS'
END
