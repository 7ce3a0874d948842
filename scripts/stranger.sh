#!/usr/bin/env bash
# Follows README.md to the letter on a new Debian 12, as somebody does who has never seen this repository, and keeps every line
# that is printed, with its time, in FOLDER/log.package and FOLDER/log.sources. Needs root and debootstrap.
#
#   scripts/stranger.sh FOLDER package FILE   the Debian package, in a Debian that systemd has booted: installed, enabled, the first badge
#                                             within three minutes, the tour (e2e/contract/readme_package.py); needs systemd-container
#   scripts/stranger.sh FOLDER sources        what README.md has installed, a clone, `make`, `make run` with the tour in another terminal,
#                                             `make demo`, `make test`: about forty minutes on two cores
#
# What stands in for what, for the sources:
#   a new Debian 12   a debootstrap of bookworm in which everything runs (chroot, with processes and mounts of its own)
#   Swift 6.3         the Swift of this machine, mounted, with the packages that swift.org lists
#   github.com        PACKAGES, if it is set (stand_ins.sh); the clone is of this repository's HEAD
#   pypi.org          is asked with the certificates of PIP_CERT, if it is set
# Not followed: `docker compose up`, which needs an engine (e2e/contract/stack.py starts its services), and real phones.
set -euo pipefail
folder=$(realpath -m "${1:?"the folder for the new Debian and the log"}")
way=${2:?"the way: package FILE, or sources"}
if [[ $way == package ]]; then package=$(realpath "${3:?"the Debian package"}"); fi
cd "$(dirname "$0")/.."
source scripts/stand_ins.sh

README=README.md
says() { grep -qF -- "$1" "$README" || fail "README.md doesn't say \"$1\" any more: adapt stranger.sh"; }

# The path itself, for bash within the new Debian.
path() {
    says '(`apt-get install make git`)'
    says 'make run                           # installs'
    says 'PATH=$PWD/.build/release:$PATH     # in another terminal'
    says '`make demo` serves beside'
    says '`make test` runs all tests'
    says '`make` alone says'
    cat <<'PATH_WITHIN'
set -euo pipefail
step() { printf '\n$ %s\n' "$*"; }
wait_for() {
    local left
    for ((left = 1800; left > 0; left--)); do
        curl --silent --fail --output /dev/null "$1" 2>/dev/null && return
        kill -0 "$2" || { echo "it ended before it served $1"; exit 1; }
        sleep 1
    done
    echo "$1 doesn't answer"; exit 1
}
interrupt() { kill -INT -- "-$1"; wait "$1" || true; }

step apt-get install make git
apt-get -q install -y make git
step git clone /srv/campanile.git campanile
git clone -q /srv/campanile.git campanile
cd campanile
step make
make

set -m
step make run
make run & run=$!
wait_for http://127.0.0.1:3001/healthz $run
step "the tour, in another terminal"
python3 -m e2e.contract.readme_tour
step Ctrl-C
interrupt $run

step make demo
make demo & demo=$!
wait_for http://127.0.0.1:2198/devices $demo
wait_for http://127.0.0.1:3001/console $demo
step Ctrl-C
interrupt $demo
set +m

step make test
make test
step "the end of README.md's path"
PATH_WITHIN
}

# A new Debian each time, with Swift's packages: a stranger has nothing of an earlier run.
new_debian() {
    root=$folder/root
    rm -rf --one-file-system "$root"
    cp -a "$folder/base" "$root"
    mkdir -p "$root"/{swift,packages}
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
    git clone -q --bare . "$root/srv/campanile.git"
    path >"$root/root/path.sh"
    if [[ -n ${PACKAGES:-} ]]; then
        packages_gitconfig
        cp "$folder/gitconfig" "$root/etc/gitconfig"
    fi
    if [[ -n ${PIP_CERT:-} ]]; then
        cp "$PIP_CERT" "$root/etc/pip.pem"
        printf '[global]\ncert = /etc/pip.pem\n' >"$root/etc/pip.conf"
    fi
}

# Runs bash within it. Whatever it starts ends with it, and so do the mounts.
within() {
    PACKAGES=${PACKAGES:+$(realpath "$PACKAGES")} ROOT=$root SWIFT_ROOT=$swift_root \
        unshare --mount --pid --fork --kill-child bash -c '
            set -e
            mount -t proc proc "$ROOT/proc"
            mount --rbind /sys "$ROOT/sys"
            mount --rbind /dev "$ROOT/dev"
            mount -t tmpfs tmpfs "$ROOT/tmp"
            mount --bind -o ro "$SWIFT_ROOT" "$ROOT/swift"
            [[ -z $PACKAGES ]] || mount --bind -o ro "$PACKAGES" "$ROOT/packages"
            exec env -i PATH=/swift/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
                HOME=/root TERM=dumb LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
                chroot "$ROOT" bash -c "cd; exec bash \"\$@\"" _ "$@"' _ "$@"
}

with_times() { while IFS= read -r line; do printf '%(%H:%M:%S)T %s\n' -1 "$line"; done; }

# keep NAME COMMAND…: shows what it prints and keeps it, each line with its time.
keep() {
    local log=$folder/log.$1
    shift
    say "every line is kept in $log"
    "$@" </dev/null 2>&1 | with_times | tee "$log"
    say "followed to its end: $log"
}

sources() {
    needs_swift
    base
    new_debian
    say "Swift's packages, and Debian's lists"
    within -c "apt-get -q update && apt-get -q install -y --no-install-recommends ${swift_packages[*]}" >"$folder/swift.log" 2>&1 \
        || fail "Swift's packages can't be installed: $folder/swift.log"
    keep sources within path.sh
}

! (exec 3<>/dev/tcp/127.0.0.1/3001) 2>/dev/null || fail "port 3001 is taken, which README.md's server listens on"
case $way in
    package) keep package python3 -m e2e.contract.readme_package --package "$package" --folder "$folder/package" ;;
    sources) sources ;;
    *) fail "there is no way $way" ;;
esac
