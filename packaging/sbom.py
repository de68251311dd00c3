#!/usr/bin/env python3
"""sbom.py VERSION ARCH - prints the bill of materials of the static program in SPDX 2.3 JSON: what it is built from, by
sources.txt. The time is SOURCE_DATE_EPOCH, so that two builds have the same bytes. Only Python itself is needed."""

import datetime
import hashlib
import json
import os
import sys

REGISTRIES = {
    "crates": ("cargo", "https://crates.io/crates/{package}/{version}"),
    "pypi": ("pypi", "https://pypi.org/project/{package}/{version}/"),
    "bookworm": ("deb/debian", "https://sources.debian.org/src/{package}/{version}/"),
    "trixie": ("deb/debian", "https://sources.debian.org/src/{package}/{version}/"),
}


def read_sources(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#") and line.strip():
                name, version, registry, package, licence, digest = line.split()
                package, _, package_version = package.partition("=")
                yield name, version, registry, package, package_version, licence, digest


def describe_source(name, version, registry, package, package_version, licence, digest):
    kind, url = REGISTRIES[registry]
    quoted = package_version.replace("+", "%2B").replace("~", "~")
    suffix = "?arch=source" if kind.startswith("deb") else ""
    return {
        "SPDXID": f"SPDXRef-{name}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": url.format(package=package, version=package_version),
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        "comment": f"The SHA-256 of its package, {package} {package_version}, is {digest}.",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:{kind}/{package}@{quoted}{suffix}",
            }
        ],
    }


def main(version, arch):
    here = os.path.dirname(os.path.abspath(__file__))
    when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    sources = list(read_sources(os.path.join(here, "sources.txt")))
    digest = hashlib.sha256(repr((version, arch, sources)).encode()).hexdigest()
    packages = [
        {
            "SPDXID": "SPDXRef-ckpt",
            "name": "ckpt",
            "versionInfo": version,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseConcluded": "Apache-2.0",
            "licenseDeclared": "Apache-2.0",
            "copyrightText": "NOASSERTION",
            "primaryPackagePurpose": "APPLICATION",
        },
        {
            "SPDXID": "SPDXRef-musl",
            "name": "musl",
            "versionInfo": f"of zig {sources[0][1]}",
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "MIT",
            "copyrightText": "NOASSERTION",
        },
    ] + [describe_source(*source) for source in sources]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-ckpt"), ("SPDXRef-zig", "BUILD_TOOL_OF", "SPDXRef-ckpt")]
    relations += [
        ("SPDXRef-ckpt", "STATIC_LINK", package["SPDXID"])
        for package in packages
        if package["name"] != "ckpt"
    ]
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"ckpt-{version}-linux-{arch}",
        "documentNamespace": f"https://spdx.org/spdxdocs/ckpt-{version}-linux-{arch}-{digest}",
        "creationInfo": {"created": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": [f"Tool: ckpt-{version}"]},
        "packages": packages,
        "relationships": [
            {"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations
        ],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


main(*sys.argv[1:])
