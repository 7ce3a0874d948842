#!/usr/bin/env bash
# Builds the image of the Dockerfile where there is no container engine and no registry, with Debian's buildah, and lays its
# files and settings into a folder for e2e/contract/image.py and e2e/contract/stack.py. Needs root, buildah and debootstrap.
#
#   scripts/image.sh FOLDER                        compiles the program, as the Dockerfile says
#   scripts/image.sh FOLDER archive PROGRAM FILE   takes this program, and writes the image into an archive (scripts/oci_archive.py)
#   scripts/image.sh FOLDER open FILE              lays out the image of such an archive
#
# What stands in for what:
#   debian:bookworm-slim   a debootstrap of bookworm, without documentation and translations
#   swift:6.3-bookworm     the same with the compiler's packages; the Swift of this machine is mounted into it
#   github.com             PACKAGES, if it is set: a folder of clones, each at OWNER/NAME.git
#   overlay and an engine  buildah's storage `vfs` and its isolation `chroot`
#
# SWIFT_ROOT and MIRROR: stand_ins.sh. For an archive VERSION, REVISION and SOURCE_DATE_EPOCH: the image's labels and the time of its files,
# so that the same program on the same base makes the same bytes.
set -euo pipefail
folder=$(realpath -m "${1:?"the folder for the image"}")
task=${2:-build}
if [[ $task == archive ]]; then program=$(realpath "$3") archive=$(realpath -m "$4"); fi
if [[ $task == open ]]; then archive=$(realpath "$3"); fi
cd "$(dirname "$0")/.."
tools=buildah
source scripts/stand_ins.sh

store() { buildah --root "$folder/storage" --runroot "$folder/run" --storage-driver vfs "$@"; }

is_stored() { store inspect --type image "$1" >/dev/null 2>&1; }

# The folder's Debian as an image. All times are the same, since they tell nothing of what is in it.
base_image() {
    local container image=localhost/stand-in-base
    is_stored $image && return
    container=$(store from scratch)
    store add -q "$container" "$folder/base" / >/dev/null
    store commit -q --rm --format docker --timestamp 0 "$container" "$image" >/dev/null
}

# The image of the compiler: the base, the packages, and where Swift is mounted at.
swift_image() {
    local container image=localhost/stand-in-swift
    is_stored $image && return
    say "the compiler's packages, in the place of swift:6.3-bookworm"
    container=$(store from localhost/stand-in-base)
    store run --isolation chroot "$container" sh -c "apt-get update -q && DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends ${swift_packages[*]}" >"$folder/compiler.log" 2>&1 \
        || fail "the compiler's packages can't be installed: $folder/compiler.log"
    store config --env "PATH=/swift/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$container"
    store commit -q --rm --format docker "$container" "$image" >/dev/null
}

# of_dockerfile ARGUMENT…: what the Dockerfile makes, as localhost/campanile.
of_dockerfile() {
    store bud --isolation chroot --format docker --layers=false --pull-never --build-arg BASE_IMAGE=localhost/stand-in-base "$@" \
        --tag localhost/campanile .
}

build() {
    local mounts=(--volume "$swift_root:/swift:ro")
    if [[ -n ${PACKAGES:-} ]]; then
        packages_gitconfig
        mounts+=(--volume "$(realpath "$PACKAGES"):/packages:ro" --volume "$folder/gitconfig:/etc/gitconfig:ro")
    fi
    say "the image: two stages of the Dockerfile; compiling takes ten minutes and more"
    of_dockerfile "${mounts[@]}" --build-arg SWIFT_IMAGE=localhost/stand-in-swift \
        --build-arg REVISION="$(git rev-parse HEAD 2>/dev/null || echo unknown)"
}

# The stage that compiles is left out, and a folder that has the program where the stage would leave it takes its place.
archive() {
    local built=$folder/built
    : "${VERSION:?}" "${REVISION:?}" "${SOURCE_DATE_EPOCH:?}"
    rm -rf "$built"
    install -D -m 755 "$program" "$built/image/usr/local/bin/campanile"
    of_dockerfile --build-context build="$built" --build-arg SWIFT_IMAGE=localhost/not-needed --build-arg VERSION="$VERSION" \
        --build-arg REVISION="$REVISION" --build-arg SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" --timestamp "$SOURCE_DATE_EPOCH" \
        >"$folder/archive.log" 2>&1 || fail "the image can't be built: $folder/archive.log"
    rm -r "$built"
    rm -rf "$folder/pushed"
    store push -q localhost/campanile "dir:$folder/pushed" >/dev/null
    python3 scripts/oci_archive.py --pushed "$folder/pushed" --name "campanile:$VERSION" --archive "$archive"
    rm -rf "$folder/pushed"
}

# lay_out IMAGE: its files and settings, as e2e/contract/image.py wants them.
lay_out() {
    local container
    container=$(store from --pull-never "$1")
    rm -rf "$folder/root"
    cp -a "$(store mount "$container")" "$folder/root"
    store umount "$container" >/dev/null
    store rm "$container" >/dev/null
    store inspect --type image "$1" >"$folder/image.json"
    du -sb --apparent-size "$folder/base" | cut -f 1 >"$folder/base.bytes"
    say "its files are in $folder/root, its settings in $folder/image.json"
}

base
case $task in
    build)
        needs_swift
        base_image
        swift_image
        build
        lay_out localhost/campanile
        ;;
    archive)
        base_image
        archive
        ;;
    open)
        lay_out "$(store pull -q "oci-archive:$archive")"
        ;;
    *) fail "there is no task $task" ;;
esac
