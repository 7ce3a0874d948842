#!/usr/bin/env bash
# Makes what a release consists of, from a clean tree: the program as a tarball, a Debian package, the gem of clients/ruby, the image as an OCI
# archive, an SBOM, and the sums of all.
#
#   scripts/release.sh FOLDER
#
# All times are the commit's, so that the same commit, Swift, resolved packages and packages of Debian make the same bytes in the same
# folder. The image needs root (image.sh), and no compiler: it has the program of the tarball. From the environment:
#   PROGRAM      a program that is built already, in place of a build
#   BUILD        the folder of the build, with the sources of the resolved packages, for versions and licences; .build
#   SWIFT        the compiler; swift
#   MAINTAINER   NAME <ADDRESS>, for the package; the commit's author
#   IMAGE        no: without the image
#   IMAGE_FOLDER where image.sh keeps its Debian from one time to the next; .build/image
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:?"the folder for the release"}")
export LC_ALL=C
umask 022

say() { echo "==> release: $*"; }
fail() { echo "release: $*" >&2; exit 1; }

swift=${SWIFT:-swift}
export SWIFT=$swift BUILD=${BUILD:-.build}
version=$(sed -n 's/.*static let current = "\(.*\)"$/\1/p' Sources/CampanileServer/Domain/ProgramVersion.swift)
[[ -n $version ]] || fail "ProgramVersion.swift names no version"
[[ -z $(git status --porcelain) ]] || fail "the tree isn't clean: commit or put away what git status shows"
[[ ${IMAGE:-} == no || $(id -u) == 0 ]] || fail "the image needs root, for debootstrap and buildah: run it as root, or set IMAGE=no"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
MAINTAINER=${MAINTAINER:-$(git log -1 --format='%aN <%aE>')}
export SOURCE_DATE_EPOCH MAINTAINER

if [[ -z ${PROGRAM:-} ]]; then
    say "building the program"
    make --no-print-directory SWIFT="$swift" build
    PROGRAM=$("$swift" build -c release --show-bin-path)/campanile
fi
said=$("$PROGRAM" --version)
[[ ${said%% *} == "$version" ]] || fail "$PROGRAM is version $said, and the sources are $version"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$folder"
mkdir -p "$folder"

# Without symbols, and without the RUNPATH that SwiftPM leaves: the libraries are found where Debian has them.
say "version $version: stripping the program, collecting licences"
strip --strip-all --remove-section=.comment -o "$work/campanile" "$PROGRAM"
chrpath --delete "$work/campanile" >/dev/null
# Two things tell the folder that it was built in: the compiler's notes on each module, and the id that the linker makes of all bytes.
# The notes become zeros, and the id the commit's. objcopy would lose the segment that is read-only after relocation.
place() { readelf --section-headers --wide "$work/campanile" | awk -v name="$1" '{ sub(/^ *\[ *[0-9]+\] */, "") } $1 == name { print $4, $5 }'; }
read -r start size < <(place .swift_modhash)
dd if=/dev/zero of="$work/campanile" bs=1 seek=$((16#$start)) count=$((16#$size)) conv=notrunc status=none
# NT_GNU_BUILD_ID: three numbers and "GNU", 16 bytes, then the id's 20.
read -r start size < <(place .note.gnu.build-id)
((16#$size == 36)) || fail "the program's build id has another size"
git rev-parse HEAD | tr -d '\n' | sed 's/../\\x&/g' | xargs -0 printf '%b' |
    dd of="$work/campanile" bs=1 seek=$((16#$start + 16)) conv=notrunc status=none
scripts/linked.py licences "$work/licences"

say "the tarball"
name=campanile-$version-linux-$(uname -m)
mkdir "$work/$name"
install -m 755 "$work/campanile" "$work/$name/"
cp -r "$work/licences" "$work/$name/"
cp campanile.example.yaml CHANGELOG.md packaging/campanile.{service,socket} packaging/{nginx.conf,nginx-app-host.conf,Caddyfile} \
    packaging/grafana-dashboard.json "$work/$name/"
cp packaging/tarball.md "$work/$name/README.md"
tar --create --directory "$work" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX "$name" | gzip -9n >"$folder/$name.tar.gz"

say "the Debian package"
package=$(scripts/debian.sh "$work/campanile" "$work/licences" "$version" "$folder")

say "the gem"
(cd clients/ruby && gem build campanile.gemspec --output "$folder/campanile-$version.gem" 2>&1 | grep -E 'ERROR|Name|Version|File' )

say "the SBOM, CycloneDX"
python=$(e2e/venv.sh release)
"$python" -m scripts.sbom --version "$version" --program "$work/campanile" \
    --depends "$(dpkg-deb --field "$package" Depends)" >"$folder/$name.cdx.json"

if [[ ${IMAGE:-} != no ]]; then
    say "the image, of the same program"
    VERSION=$version REVISION=$(git rev-parse HEAD) scripts/image.sh "${IMAGE_FOLDER:-.build/image}" archive "$work/campanile" \
        "$folder/campanile-$version-oci-$(dpkg --print-architecture).tar"
fi

say "the sums"
(cd "$folder" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
(cd "$folder" && chmod 644 -- * && ls -l && cat SHA256SUMS)
