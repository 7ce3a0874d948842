#!/usr/bin/env bash
# Makes the Debian package of a program that release.sh has stripped, and of what packaging/debian holds. Prints its path.
#
#   scripts/debian.sh PROGRAM LICENCES VERSION FOLDER
#
# PROGRAM is the program, LICENCES the folder of linked.py, VERSION the program's; the package is written into FOLDER. From the
# environment: SOURCE_DATE_EPOCH, the time of all files; MAINTAINER, `NAME <ADDRESS>`; BUILD and SWIFT, which linked.py reads.
# The same input makes the same bytes.
set -euo pipefail
program=$(realpath "$1") licences=$(realpath "$2") version=$3-1 folder=$(realpath "$4")
cd "$(dirname "$0")/.."
: "${SOURCE_DATE_EPOCH:?}" "${MAINTAINER:?}"
export LC_ALL=C
umask 022

fail() { echo "debian.sh: $*" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
architecture=$(dpkg --print-architecture)

# install_file SOURCE TARGET [MODE]
install_file() { install -D -m "${3:-644}" "$1" "$root$2"; }

compressed() { gzip -9n >"$root$1"; chmod 644 "$root$1"; }

# Prints the libraries that the program links, as Debian's packages name them.
libraries() {
    local place=debian/campanile
    mkdir -p "$work/source/$place/DEBIAN"
    install -D "$program" "$work/source/$place/usr/bin/campanile"
    printf 'Source: campanile\n\nPackage: campanile\nArchitecture: any\n' >"$work/source/debian/control"
    (cd "$work/source" && dpkg-shlibdeps -O -e "$place/usr/bin/campanile") | sed -n 's/^shlibs:Depends=//p'
}

# The units of packaging/, with the place of the packaged program. The database isn't set in the service here: the package's
# campanile.yaml names it, so that changing it there is enough.
units() {
    local unit target=$root/lib/systemd/system
    mkdir -p "$target"
    for unit in campanile.service campanile.socket; do
        sed -e 's| docs/running.md says how to install it\.||' -e 's|^# docs/running.md says how to install it\. |# |' \
            -e '/^Description=/a Documentation=man:campanile(1)' \
            -e '/^# The database of who names no other/,/^Environment=CAMPANILE_DATABASE=/d' \
            -e 's|^ExecStart=/usr/local/bin/campanile |ExecStart=/usr/bin/campanile |' "packaging/$unit" >"$target/$unit"
        chmod 644 "$target/$unit"
        grep -q '^Documentation=' "$target/$unit" || fail "packaging/$unit has no Description= any more"
    done
    grep -q '^ExecStart=/usr/bin/campanile serve --config /etc/campanile/campanile.yaml$' "$target/campanile.service" \
        || fail "packaging/campanile.service starts the program otherwise: adapt debian.sh"
    ! grep -qE 'CAMPANILE_DATABASE|/usr/local|docs/' "$target"/campanile.* \
        || fail "packaging/campanile.service or campanile.socket changed: adapt debian.sh"
    grep -q '^RestrictNamespaces=yes$' "$target/campanile.service" || fail "the hardening is lost"
}

documents() {
    local place=/usr/share/doc/campanile
    mkdir -p "$root$place" "$root/usr/share/man/man1"
    scripts/linked.py list | sed 's/^/ - /' >"$work/linked"
    sed -e "s|@VERSION@|$version|" -e "s|@YEAR@|$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y)|" \
        -e "/@LINKED@/{r $work/linked" -e 'd}' packaging/debian/copyright >"$work/copyright"
    install_file "$work/copyright" $place/copyright
    compressed $place/changelog.Debian.gz <<CHANGELOG
campanile ($version) bookworm; urgency=medium

  * Packaged from commit $(git rev-parse --short=12 HEAD).
    /usr/share/doc/campanile/changelog.gz says what changed.

 -- $MAINTAINER  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
CHANGELOG
    compressed $place/changelog.gz <CHANGELOG.md
    sed "s|@VERSION@|${version%-*}|" packaging/debian/campanile.1 | compressed /usr/share/man/man1/campanile.1.gz
    cp -r "$licences" "$root$place/licences"
    local file
    for file in campanile.example.yaml packaging/{nginx.conf,nginx-app-host.conf,Caddyfile,grafana-dashboard.json}; do
        install_file "$file" "$place/examples/$(basename "$file")"
    done
}

control() {
    local depends script
    depends=$(libraries)
    [[ $depends == *libmicrohttpd12* && $depends == *libsqlite3-0* && $depends == *libyaml-0-2* ]] || fail "dpkg-shlibdeps found only: $depends"
    # dpkg-shlibdeps looks at the functions of the C library alone. The packed relocations (Package.swift) need 2.36.
    depends=$(sed 's/libc6 (>= 2\.\([0-9]\|[12][0-9]\|3[0-5]\))/libc6 (>= 2.36)/' <<<"$depends")
    install -d "$root/DEBIAN"
    # As dpkg-gencontrol counts: each file in whole KiB, and one for each folder.
    local size
    size=$(find "$root" -mindepth 1 -path "$root/DEBIAN" -prune -o -type f -printf '%s\n' -o -printf '1\n' \
        | awk '{ all += int(($1 + 1023) / 1024) } END { print all }')
    sed -e "s|@VERSION@|$version|" -e "s|@ARCHITECTURE@|$architecture|" -e "s|@MAINTAINER@|$MAINTAINER|" -e "s|@SIZE@|$size|" \
        -e "s|@DEPENDS@|$depends|" packaging/debian/control >"$root/DEBIAN/control"
    for script in postinst prerm postrm; do install_file "packaging/debian/$script" "/DEBIAN/$script" 755; done
    echo /etc/campanile/campanile.yaml >"$root/DEBIAN/conffiles"
    (cd "$root" && find . -type f -not -path './DEBIAN/*' -not -path './etc/*' -printf '%P\0' | sort -z | xargs -0 md5sum) \
        >"$root/DEBIAN/md5sums"
    chmod 644 "$root"/DEBIAN/{control,conffiles,md5sums}
}

install_file "$program" /usr/bin/campanile 755
install_file packaging/debian/campanile.yaml /etc/campanile/campanile.yaml
install_file packaging/debian/lintian-overrides /usr/share/lintian/overrides/campanile
units
documents
control
chmod -R u=rwX,go=rX "$root"
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
package=$folder/campanile_${version}_$architecture.deb
# One thread: how many there are decides how xz cuts.
dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$root" "$package" >/dev/null
echo "$package"
