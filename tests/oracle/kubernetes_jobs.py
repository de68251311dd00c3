"""Checks that examples/scale/kubernetes.yaml has only what the schemas of Kubernetes allow.

    kubernetes_jobs.py

The oldest version is the one that the file names. A key of wrong case shows that an error would be found.
"""
import sys

import kubernetes_validate
import yaml

VERSIONS = ("1.29", kubernetes_validate.latest_version())


def error_of(text, version):
    """Returns the first error in the documents of TEXT, or None."""
    try:
        for document in yaml.safe_load_all(text):
            kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return error.message
    return None


def main():
    with open("examples/scale/kubernetes.yaml", encoding="utf-8") as file:
        text = file.read()
    failed = 0
    for version in VERSIONS:
        error = error_of(text, version)
        if error or not error_of(text.replace("completionMode", "completionmode"), version):
            failed += 1
            print("FAILED", version, error)
    print(f"oracle-kubernetes: {len(VERSIONS) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
