# What image.sh, stranger.sh and e2e/contract/package.py have in common: a new Debian, and Swift and the packages of GitHub where neither
# can be fetched.
# Sourced with $folder set. Needs root and debootstrap.
#
# SWIFT_ROOT is the folder of Swift that holds usr/bin/swift (found by PATH), MIRROR the Debian mirror, PACKAGES, if it is set, a
# folder of clones that stand in for github.com, each at OWNER/NAME.git.

mirror=${MIRROR:-http://deb.debian.org/debian}
swift_root=${SWIFT_ROOT:-$(dirname "$(dirname "$(dirname "$(readlink -f "$(command -v swift || echo /usr/bin/swift)")")")")}
# What Swift itself needs of Debian, as swift.org lists it.
swift_packages=(
    binutils ca-certificates gcc git libc6-dev libcurl4 libedit2 libgcc-12-dev libncurses6 libpython3.11 libsqlite3-0
    libstdc++-12-dev libxml2 libz3-4 pkg-config tzdata zlib1g-dev
)
name=$(basename "$0" .sh)

say() { echo "==> $name: $*"; }
fail() { echo "$name: $*" >&2; exit 1; }

[[ $(id -u) == 0 ]] || fail "root is needed, for debootstrap and chroot"
for tool in debootstrap ${tools:-}; do
    command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install --no-install-recommends debootstrap ${tools:-}"
done
mkdir -p "$folder"

needs_swift() { [[ -x $swift_root/usr/bin/swift ]] || fail "there is no $swift_root/usr/bin/swift: name Swift's folder with SWIFT_ROOT"; }

# A Debian as the slim images are, without documentation and translations: $folder/base.
base() {
    local root=$folder/base
    [[ -e $root.done ]] && return
    say "debootstrap of bookworm, in the place of debian:bookworm-slim"
    rm -rf "$root"
    debootstrap --variant=minbase bookworm "$root" "$mirror" >"$folder/debootstrap.log" \
        || fail "debootstrap failed: $folder/debootstrap.log"
    {
        echo "deb $mirror bookworm main"
        echo "deb $mirror bookworm-updates main"
        echo "deb ${mirror%/debian}/debian-security bookworm-security main"
    } >"$root/etc/apt/sources.list"
    printf 'path-exclude /usr/share/%s/*\n' doc man info locale lintian >"$root/etc/dpkg/dpkg.cfg.d/slim"
    # Logs tell times, and ldconfig's list of what it has seen tells numbers of files: nobody needs either, and no two would be the same.
    rm -rf "$root"/usr/share/{doc,man,info,locale,lintian}/* "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* \
        "$root"/var/cache/ldconfig/* "$root"/var/log/*
    touch "$root.done"
}

# git's settings where $PACKAGES is mounted at /packages: $folder/gitconfig.
packages_gitconfig() {
    printf '[url "/packages/"]\n\tinsteadOf = https://github.com/\n[safe]\n\tdirectory = *\n' >"$folder/gitconfig"
}
