#!/usr/bin/env python3
"""Makes an OCI archive of an image that buildah has pushed into a folder (`buildah push IMAGE dir:FOLDER`, in Docker's format).

    scripts/oci_archive.py --pushed FOLDER --name NAME:TAG --archive FILE

buildah's own archives lose the health check, for which OCI's configuration has no field; as Docker's do, this one has the configuration as it
was built, with OCI's types around it. manifest.json beside index.json is the list of older archives, for `docker load`. Layers are compressed
here, the archive tells no time, and nothing stays of the containers that the image was built in: the same image makes the same bytes.
"""
import argparse
import gzip
import hashlib
import io
import json
import pathlib
import tarfile

OCI = "application/vnd.oci.image"
GZIP = b"\x1f\x8b"


def descriptor(kind, content):
    return {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


def place(described):
    return "blobs/" + described["digest"].replace(":", "/")


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


def files(pushed, name):
    """The archive's files, each with its content."""
    def blob(described):
        return (pushed / described["digest"].removeprefix("sha256:")).read_bytes()

    given = json.loads((pushed / "manifest.json").read_text())
    settings = json.loads(blob(given["config"]))
    for of_the_machine in ("container", "container_config", "parent"):
        settings.pop(of_the_machine, None)
    settings["config"].pop("Hostname", None)
    config = compact(settings)
    layers = [content if content.startswith(GZIP) else gzip.compress(content, 9, mtime=0) for content in map(blob, given["layers"])]
    described = [descriptor("layer.v1.tar+gzip", content) for content in layers]
    manifest = {"schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json", "config": descriptor("config.v1+json", config), "layers": described}
    whole = descriptor("manifest.v1+json", compact(manifest))
    index = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": [{
        **whole,
        "platform": {"architecture": settings["architecture"], "os": settings["os"]},
        "annotations": {"io.containerd.image.name": f"docker.io/library/{name}", "org.opencontainers.image.ref.name": name.partition(":")[2]},
    }]}
    return {
        "oci-layout": compact({"imageLayoutVersion": "1.0.0"}),
        "index.json": compact(index),
        "manifest.json": compact([{"Config": place(manifest["config"]), "RepoTags": [name], "Layers": [place(one) for one in described]}]),
        place(whole): compact(manifest),
        place(manifest["config"]): config,
        **{place(one): content for one, content in zip(described, layers, strict=True)},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pushed", required=True, type=pathlib.Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--archive", required=True, type=pathlib.Path)
    options = parser.parse_args()
    with tarfile.open(options.archive, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files(options.pushed, options.name).items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    main()
