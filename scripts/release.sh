#!/usr/bin/env bash
# Makes what a release consists of, from a clean tree: the program as a tarball, a Debian package, an SBOM, and the sums of all.
#
#   scripts/release.sh FOLDER
#
# All times are the commit's, so that the same commit, Swift and resolved packages make the same bytes in the same folder. From
# the environment:
#   PROGRAM      a program that is built already, in place of a build
#   BUILD        the folder of the build, with the sources of the resolved packages, for versions and licences; .build
#   SWIFT        the compiler; swift
#   MAINTAINER   NAME <ADDRESS>, for the package; the commit's author
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
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
MAINTAINER=${MAINTAINER:-$(git log -1 --format='%aN <%aE>')}
export SOURCE_DATE_EPOCH MAINTAINER

if [[ -z ${PROGRAM:-} ]]; then
    say "building the program"
    flags=(-c release --product campanile --static-swift-stdlib)
    "$swift" build "${flags[@]}"
    PROGRAM=$("$swift" build "${flags[@]}" --show-bin-path)/campanile
fi
[[ $("$PROGRAM" --version) == "$version" ]] || fail "$PROGRAM is version $("$PROGRAM" --version), and the sources are $version"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$folder"
mkdir -p "$folder"

# Without symbols, and without the RUNPATH that SwiftPM leaves: the libraries are found where Debian has them.
say "version $version: stripping the program, collecting licences"
strip --strip-all --remove-section=.comment -o "$work/campanile" "$PROGRAM"
chrpath --delete "$work/campanile" >/dev/null
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

say "the SBOM, CycloneDX"
python=$(e2e/venv.sh release)
"$python" -m scripts.sbom --version "$version" --program "$work/campanile" \
    --depends "$(dpkg-deb --field "$package" Depends)" >"$folder/campanile-$version.cdx.json"

say "the sums"
(cd "$folder" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
(cd "$folder" && chmod 644 -- * && ls -l && cat SHA256SUMS)
