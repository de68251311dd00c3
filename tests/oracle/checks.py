"""What the checks *_files.py share: they run ckpt in a temporary folder and count checks."""
import os
import subprocess
import tempfile


class Checks:
    def __init__(self, ckpt, folder):
        self.ckpt, self.folder = ckpt, folder
        self.passed = self.failed = 0
        self.error = ""

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, command, *words):
        """Returns what a command of ckpt prints, or None if it fails."""
        options = [] if command in ("hash", "ls", "show") else ["-q", "-f", "--no-sync"]
        done = subprocess.run([self.ckpt, command, *options, *words], capture_output=True, text=True, errors="replace")
        self.error = done.stderr.strip()
        return None if done.returncode else done.stdout

    def expect(self, ok, title):
        """Counts a check as passed if OK, else as failed; then prints TITLE and the errors of the last command, too."""
        self.passed += bool(ok)
        self.failed += not ok
        if not ok:
            print("FAILED", title, self.error)

    def print_summary(self, name):
        print(f"{name}: {self.passed} passed, {self.failed} failed")


def check_seeds(ckpt, name, seeds, check):
    """Calls CHECK(checks, seed) for each of SEEDS seeds, prints the summary, and returns the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(ckpt, folder)
        for seed in range(seeds):
            check(checks, seed)
        checks.print_summary(name)
        return checks.failed != 0


def visit_datasets(group, prefix=""):
    """Yields the name and the data set of all data sets below GROUP, a group of h5py."""
    for name, item in group.items():
        if hasattr(item, "items"):
            yield from visit_datasets(item, f"{prefix}{name}/")
        else:
            yield prefix + name, item
