#!/usr/bin/env python3
"""wheel.py PLATFORM LIBRARY PROGRAM LICENCES SBOM DIR - writes the wheel of the Python package to DIR: for PLATFORM,
with libckpt.so LIBRARY, the program PROGRAM and its manual, and what is linked into them: the licences in LICENCES, and
the bill of materials SBOM.

wheel.py sdist DIR - writes the sources from which pip compiles the package.

pip calls the functions build_wheel and build_sdist, by pyproject.toml, whose metadata go into both. The times in them
are SOURCE_DATE_EPOCH, so that two builds have the same bytes. Python 3.11 needs nothing else."""

import base64
import glob
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile

try:
    import tomllib
except ImportError:  # Python before 3.11
    import tomli as tomllib

# What pip needs to compile the package, and what shows its user what it is
SOURCES = (
    "CHANGELOG.md LICENSE Makefile README.md SECURITY.md cli completion lib libckpt.pc.in man packaging pyproject.toml "
    "python share"
)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def project():
    """What pyproject.toml has in [project], and the version of lib/ckpt.h."""
    about = tomllib.loads(read("pyproject.toml").decode())["project"]
    about["version"] = re.search(rb'^#define CKPT_VERSION +"(.*)"', read("lib/ckpt.h"), re.M).group(1).decode()
    return about


def licence_expression(about, linked):
    """The licence of what is in the wheel, and with LINKED that of the libraries in it, by sources.txt."""
    licences = [about["license"]]
    if linked:
        lines = [line for line in read("packaging/sources.txt").decode().splitlines() if line and line[0] != "#"]
        licences += sorted({line.split()[4] for line in lines} - {about["license"]})
    return " AND ".join(licences)


def metadata(about, licences, linked):
    """The text of METADATA and PKG-INFO. LICENCES are the paths of the licences."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {about['name']}",
        f"Version: {about['version']}",
        f"Summary: {about['description']}",
        f"Keywords: {','.join(about['keywords'])}",
        f"License-Expression: {licence_expression(about, linked)}",
        *[f"License-File: {path}" for path in licences],
        *[f"Classifier: {classifier}" for classifier in about["classifiers"]],
        f"Requires-Python: {about['requires-python']}",
    ]
    for extra, requirements in sorted(about["optional-dependencies"].items()):
        name = extra.replace("_", "-")  # as the specification of metadata normalizes it
        lines.append(f"Provides-Extra: {name}")
        lines += [f'Requires-Dist: {package}; extra == "{name}"' for package in requirements]
    lines += ["Description-Content-Type: text/markdown", "", read(about["readme"]).decode()]
    return "\n".join(lines).encode()


def epoch():
    return max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800)  # zip begins with 1980


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write_wheel(folder, platform, library, program, licences=(), sbom=None):
    """Writes the wheel to FOLDER and returns its name. LICENCES are the files of what is linked."""
    about = project()
    name = f"{about['name']}-{about['version']}"
    info = f"{name}.dist-info"
    script = f"{name}.data/scripts/ckpt"
    licence_files = {os.path.basename(path): path for path in about["license-files"]}
    licence_files.update({f"licences/{os.path.basename(path)}": path for path in licences})
    sources = glob.glob("python/libckpt/*.py") + ["python/libckpt/py.typed"]
    files = {path[len("python/") :]: read(path) for path in sources}
    files["libckpt/libckpt.so.0"] = read(library)
    files[script] = read(program)
    for page in glob.glob("man/*.[157]"):
        if page != "man/ckpt-mpi.1":  # which is built with the MPI of a cluster
            files[f"{name}.data/data/share/man/man{page[-1]}/{page[len('man/') :]}"] = read(page)
    files.update({f"{info}/licenses/{short}": read(path) for short, path in licence_files.items()})
    if sbom:
        files[f"{info}/sboms/libckpt.spdx.json"] = read(sbom)
    files[f"{info}/METADATA"] = metadata(about, sorted(licence_files), bool(licences))
    tag = f"py3-none-{platform}"
    lines = ["Wheel-Version: 1.0", f"Generator: ckpt {about['version']}", "Root-Is-Purelib: false", f"Tag: {tag}"]
    files[f"{info}/WHEEL"] = "\n".join([*lines, ""]).encode()
    files = dict(sorted(files.items(), key=lambda item: (item[0].startswith(info), item[0])))
    record = [f"{path},sha256={digest(data)},{len(data)}" for path, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    wheel = f"{name}-{tag}.whl"
    when = time.gmtime(epoch())[:6]
    with zipfile.ZipFile(os.path.join(folder, wheel), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for path, data in files.items():
            member = zipfile.ZipInfo(path, when)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3  # Unix, which has modes
            member.external_attr = (0o100755 if path == script or path.endswith(".so.0") else 0o100644) << 16
            out.writestr(member, data)
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """pip's: compiles the program and the library as `make` does, for this machine and its libraries."""
    subprocess.run(["make", f"-j{os.cpu_count()}", "build/ckpt", "build/libckpt.so"], check=True)
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    return write_wheel(wheel_directory, platform, "build/libckpt.so", "build/ckpt")


def build_sdist(sdist_directory, config_settings=None):
    """pip's: writes the sources that git has."""
    about = project()
    name = f"{about['name']}-{about['version']}"
    listed = subprocess.run(["git", "ls-files", "-z", *SOURCES.split()], check=True, stdout=subprocess.PIPE).stdout
    files = {path: (read(path), os.access(path, os.X_OK)) for path in sorted(os.fsdecode(listed).split("\0")[:-1])}
    files["PKG-INFO"] = (metadata(about, about["license-files"], False), False)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as out:
        for path, (data, is_program) in files.items():
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mtime, member.mode = len(data), epoch(), 0o755 if is_program else 0o644
            out.addfile(member, io.BytesIO(data))
    with open(os.path.join(sdist_directory, f"{name}.tar.gz"), "wb") as out:
        out.write(gzip.compress(archive.getvalue(), 9, mtime=epoch()))
    return f"{name}.tar.gz"


def main(arguments):
    if arguments[0] == "sdist":
        build_sdist(arguments[1])
    else:
        platform, library, program, licences, sbom, folder = arguments
        write_wheel(folder, platform, library, program, sorted(glob.glob(f"{licences}/*")), sbom)


if __name__ == "__main__":
    main(sys.argv[1:])
