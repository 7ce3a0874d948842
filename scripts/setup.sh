#!/usr/bin/env bash
# Installs the system packages that building and measuring need, if any is missing, and checks that Swift is there. With
# the word `unit` also PostgreSQL, which the Swift tests start; with `tests` also what the other tests need, which is a browser,
# Rails with Puma, its own client of ActionCable, Java for the Kotlin compiler, and what stands around a server; with `generators`
# what a generated Ruby client runs on; with `release` what `make release` calls. Asks nothing; does nothing when everything is there.
# Needs Debian 12 or a relative of it for the packages.
set -euo pipefail

# Libraries and the compiler for the program; python3, sqlite3, curl, wrk and nghttp2 for tests and measurements.
packages=(
    libmicrohttpd-dev libsqlite3-dev libyaml-dev libpq-dev pkg-config binutils gcc libc6-dev
    python3 python3-venv sqlite3 curl wrk git ca-certificates nghttp2-server nghttp2-client
)
if [[ ${1:-} == tests ]]; then
    packages+=(
        chromium nodejs ruby-actioncable ruby-activesupport ruby-railties ruby-rails ruby-bundler puma openjdk-17-jdk-headless nginx caddy openssl
        postgresql iproute2 prometheus strace systemd docker-compose ruby-activejob ruby-activerecord ruby-sqlite3 ruby-rspec ruby-devise ruby-foreman
    )
fi
if [[ ${1:-} == unit ]]; then packages+=(postgresql); fi
if [[ ${1:-} == generators ]]; then packages+=(ruby ruby-typhoeus); fi
if [[ ${1:-} == release ]]; then
    packages+=(dpkg-dev lintian chrpath xz-utils libpq5 adduser ruby)
    if [[ ${IMAGE:-} != no ]]; then packages+=(buildah debootstrap); fi
fi
swift_needed=6.3

say() { echo "==> setup: $*"; }
fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

# Before anything that asks Debian: a Mac has neither its packages nor a bash that reads all of this script.
if [[ $(uname -s) == Darwin ]]; then
    fail "This is a Mac, and Campanile's server is made for Linux. Run it in containers:" \
        "  docker compose up" \
        "docs/containers.md says what that starts. Of this repository the library for apps builds here:" \
        "  swift build --target CampanileClient"
fi

missing_packages() {
    local package
    for package in "${packages[@]}"; do
        [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
    done
}

install() {
    local as_root=()
    if [[ $(id -u) != 0 ]]; then
        command -v sudo >/dev/null || fail "These packages are missing, and there is no sudo. Run as root:" \
            "  apt-get install --no-install-recommends $*"
        as_root=(sudo)
    fi
    say "installing with ${as_root[*]:+sudo }apt-get: $*"
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
    # Debian starts what it installs. Here only the programs are wanted.
    local service
    for service in nginx caddy postgresql prometheus; do
        [[ " $* " == *" $service "* && -d /run/systemd/system ]] || continue
        "${as_root[@]}" systemctl disable --now "$service"
    done
}

check_packages() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "this is no Debian: install what corresponds to ${packages[*]}"
        return
    fi
    local missing
    mapfile -t missing < <(missing_packages)
    if [[ ${#missing[@]} -gt 0 ]]; then install "${missing[@]}"; fi
}

check_swift() {
    local how="Install it as https://www.swift.org/install/linux/ says; with swiftly: swiftly install $swift_needed"
    local swift=${SWIFT:-swift}
    command -v "$swift" >/dev/null || fail "Swift $swift_needed is needed, and there is no $swift on the PATH." "$how"
    local version
    version=$("$swift" --version 2>/dev/null | sed -n 's/.*Swift version \([0-9][0-9.]*\).*/\1/p' | head -n 1)
    [[ -n $version ]] || fail "$swift --version names no version. Swift $swift_needed is needed." "$how"
    if [[ $(printf '%s\n' "$swift_needed" "$version" | sort -V | head -n 1) != "$swift_needed" ]]; then
        fail "Swift $swift_needed or later is needed; this is $version." "$how"
    fi
    say "the system packages and Swift $version are there"
}

check_packages
check_swift
