"""Checks the YAML files of examples/ci by the schemas of GitHub and GitLab that check-jsonschema brings.

    ci_files.py

A key that does not exist is put into each, to see that an error would be found.
"""
import pathlib
import subprocess
import sys
import tempfile

FILES = (
    # file, schema, text, and what makes it wrong
    ("action.yml", "vendor.github-actions", "using: composite", "using: nothing"),
    ("github-review.yml", "vendor.github-workflows", "runs-on:", "run-on:"),
    ("github-comment.yml", "vendor.github-workflows", "runs-on:", "run-on:"),
    ("gitlab.yml", "vendor.gitlab-ci", "artifacts:", "artefacts:"),
)


def check(text, schema, folder):
    path = pathlib.Path(folder, "file.yml")
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, schema, word, wrong in FILES:
            text = pathlib.Path("examples/ci", name).read_text(encoding="utf-8")
            result = check(text, schema, folder)
            if result.returncode or not check(text.replace(word, wrong), schema, folder).returncode:
                failed += 1
                print("FAILED", name, result.stdout, result.stderr)
    print(f"oracle-ci: {len(FILES) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
