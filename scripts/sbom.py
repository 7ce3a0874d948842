"""Writes the SBOM of a release to standard output, in CycloneDX's JSON: what linked.py lists, and Debian's libraries.

Debian's versions are those of this machine, against which the program was linked. The time is SOURCE_DATE_EPOCH, and the serial number
is made of the content: the same release has the same SBOM. cyclonedx-python-lib writes it (e2e/requirements-release.txt).
"""
import argparse
import datetime
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import uuid

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.contrib.this.builders import this_component
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from scripts.linked import MissingError, linked

# Debian's words for libraries that the program opens, and for programs that the package's scripts call.
NO_LIBRARIES = {"adduser", "ca-certificates"}


def of_packages(licences):
    for one in linked():
        component = Component(
            type=ComponentType.LIBRARY, name=one.name, version=one.version, bom_ref=one.purl or one.name,
            purl=PackageURL.from_string(one.purl) if one.purl else None, licenses=[licences.make_from_string(one.licence)],
            external_references=[ExternalReference(type=ExternalReferenceType.VCS, url=XsUri(one.home))])
        if one.revision:
            component.properties.add(Property(name="campanile:revision", value=one.revision))
        component.properties.add(Property(name="campanile:linked", value="statically"))
        yield component


def of_debian(depends):
    names = sorted({re.match(r"[a-z0-9.+-]+", one.strip())[0] for one in depends.split(",")} - NO_LIBRARIES)
    for name in names:
        done = subprocess.run(["dpkg-query", "--show", "--showformat=${Version} ${Architecture}", name], capture_output=True, text=True)
        if done.returncode:
            raise MissingError(f"{name} isn't installed here: {done.stderr.strip()}")
        version, architecture = done.stdout.split()
        purl = PackageURL("deb", "debian", name, version, {"arch": architecture, "distro": "bookworm"})
        yield Component(type=ComponentType.LIBRARY, name=name, version=version, bom_ref=purl.to_string(), purl=purl,
                        properties=[Property(name="campanile:linked", value="opened at run time" if name == "libpq5" else "dynamically")])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="the stripped program")
    parser.add_argument("--depends", required=True, help="the Depends of the Debian package")
    options = parser.parse_args()
    whole = Component(
        type=ComponentType.APPLICATION, name="campanile", version=options.version, bom_ref=f"campanile@{options.version}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(options.program.read_bytes()).hexdigest())])
    bom = Bom(components=[*of_packages(LicenseFactory()), *of_debian(options.depends)])
    bom.metadata.component = whole
    bom.metadata.tools.components.add(this_component())
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.UTC)
    bom.register_dependency(whole, bom.components)
    bom.serial_number = uuid.UUID(int=0)
    content = JsonV1Dot6(bom).output_as_string(indent=2)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_OID, content)
    print(JsonV1Dot6(bom).output_as_string(indent=2))


if __name__ == "__main__":
    try:
        main()
    except MissingError as error:
        sys.exit(f"sbom.py: {error}")
