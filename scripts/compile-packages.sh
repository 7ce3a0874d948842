#!/usr/bin/env bash
# Fetches and compiles the packages that Package.swift names, without Campanile's own sources: for a layer of the image that
# stays as long as Package.swift does. SwiftPM wants every target to have a source and every resource to be there, so they
# are made, empty, and taken away again. Of a file that a target excludes and that isn't there it only warns.
set -euo pipefail
test -e Package.swift
test ! -e Sources || { echo "compile-packages: this is for a folder without Sources" >&2; exit 2; }

# Package.swift in one line: the first argument before a name in quotes.
named() { tr -d '\n ' <Package.swift | grep -oiE "$1\"[A-Za-z._-]+\"" | cut -d '"' -f 2; }

for target in $(named 'target\(name:'); do
    mkdir -p "Sources/$target" "Tests/$target"
    touch "Sources/$target/empty.swift" "Tests/$target/empty.swift"
    for resource in $(named 'copy\('); do touch "Sources/$target/$resource"; done
done
for library in $(named 'systemLibrary\(name:'); do
    mkdir -p "Sources/$library"
    touch "Sources/$library/empty.h"
    echo "module $library [system] { header \"empty.h\" export * }" >"Sources/$library/module.modulemap"
done
# A target in C.
mkdir -p Sources/CMicroHTTPD/include
mv Sources/CMicroHTTPD/empty.swift Sources/CMicroHTTPD/empty.c

swift build "$@" --target campanile
# The tests' targets must be somewhere, also later.
rm -r Sources
