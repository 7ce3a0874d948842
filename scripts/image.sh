#!/usr/bin/env bash
# Builds the image of the Dockerfile where there is no container engine and no registry, with Debian's buildah, and lays its
# files and settings into a folder for e2e/contract/image.py and e2e/contract/stack.py. Needs root, buildah and debootstrap.
#
#   scripts/image.sh FOLDER
#
# What stands in for what:
#   debian:bookworm-slim   a debootstrap of bookworm, without documentation and translations
#   swift:6.3-bookworm     the same with the compiler's packages; the Swift of this machine is mounted into it
#   github.com             PACKAGES, if it is set: a folder of clones, each at OWNER/NAME.git
#   overlay and an engine  buildah's storage `vfs` and its isolation `chroot`
#
# SWIFT_ROOT and MIRROR: stand_ins.sh.
set -euo pipefail
folder=$(realpath -m "${1:?"the folder for the image"}")
cd "$(dirname "$0")/.."
tools=buildah
source scripts/stand_ins.sh

store() { buildah --root "$folder/storage" --runroot "$folder/run" --storage-driver vfs "$@"; }

# The image of the compiler: the base, the packages, and where Swift is mounted at.
images() {
    local image container
    image=localhost/stand-in-base
    if ! store inspect --type image "$image" >/dev/null 2>&1; then
        container=$(store from scratch)
        store add -q "$container" "$folder/base" / >/dev/null
        store commit -q --rm --format docker "$container" "$image" >/dev/null
    fi
    image=localhost/stand-in-swift
    if ! store inspect --type image "$image" >/dev/null 2>&1; then
        say "the compiler's packages, in the place of swift:6.3-bookworm"
        container=$(store from localhost/stand-in-base)
        store run --isolation chroot "$container" sh -c "apt-get update -q && DEBIAN_FRONTEND=noninteractive \
            apt-get install -q -y --no-install-recommends ${swift_packages[*]}" >"$folder/compiler.log" 2>&1 \
            || fail "the compiler's packages can't be installed: $folder/compiler.log"
        store config --env "PATH=/swift/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$container"
        store commit -q --rm --format docker "$container" "$image" >/dev/null
    fi
}

build() {
    local mounts=(--volume "$swift_root:/swift:ro")
    if [[ -n ${PACKAGES:-} ]]; then
        packages_gitconfig
        mounts+=(--volume "$(realpath "$PACKAGES"):/packages:ro" --volume "$folder/gitconfig:/etc/gitconfig:ro")
    fi
    say "the image: two stages of the Dockerfile; compiling takes ten minutes and more"
    store bud --isolation chroot --format docker --layers=false --pull-never "${mounts[@]}" \
        --build-arg SWIFT_IMAGE=localhost/stand-in-swift --build-arg BASE_IMAGE=localhost/stand-in-base \
        --build-arg REVISION="$(git rev-parse HEAD 2>/dev/null || echo unknown)" --tag localhost/campanile .
}

# The image's files and settings, as e2e/contract/image.py wants them.
lay_out() {
    local container
    container=$(store from --pull-never localhost/campanile)
    rm -rf "$folder/root"
    cp -a "$(store mount "$container")" "$folder/root"
    store umount "$container" >/dev/null
    store rm "$container" >/dev/null
    store inspect --type image localhost/campanile >"$folder/image.json"
    du -sb --apparent-size "$folder/base" | cut -f 1 >"$folder/base.bytes"
    say "its files are in $folder/root, its settings in $folder/image.json"
}

base
images
build
lay_out
