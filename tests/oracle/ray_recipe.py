"""Runs examples/scale/ray_parts.py, with other paths and sizes, on a cluster of two processors that is started here.

    ray_recipe.py CKPT MKCKPT

One part fails the first time. The output must be the one of a single process.
"""
import filecmp
import os
import subprocess
import sys
import tempfile

import ray

# Runs CKPT, but fails when part 1 is run for the first time.
FAILING_ONCE = """#!/bin/sh
case $* in
*'--part 1/'*) mkdir "{folder}/failed" 2>/dev/null && exit 2 ;;
esac
exec "{ckpt}" "$@"
"""


def edit_recipe(folder):
    """Returns the path of the recipe with the paths and sizes of this test, and its output."""
    recipe, out = f"{folder}/ray_parts.py", f"{folder}/out"
    with open("examples/scale/ray_parts.py", encoding="utf-8") as file:
        text = file.read()
    with open(recipe, "w", encoding="utf-8") as file:
        file.write(text.replace("/shared/model-bf16", out).replace("/shared/model", f"{folder}/in.safetensors")
                   .replace("5GB", "8MB").replace("PARTS = 16", "PARTS = 4"))
    return recipe, out


def run_recipe(recipe, folder):
    """Runs RECIPE on a cluster with the `ckpt` of FOLDER, where Ray keeps its files, too; returns the ended process."""
    os.environ.update(HOME=folder, PATH=f"{folder}:{os.environ['PATH']}", RAY_USAGE_STATS_ENABLED="0")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=f"{folder}/ray")
    os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    try:
        return subprocess.run([sys.executable, recipe], timeout=120, capture_output=True, text=True, errors="replace")
    finally:
        ray.shutdown()


def main(ckpt, mkckpt):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        source, expected = f"{folder}/in.safetensors", f"{folder}/expected"
        subprocess.run([mkckpt, "-n", "9", "-b", "40000000", source], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([ckpt, "convert", "-q", source, expected, "--cast", "bfloat16", "--max-shard-size", "8MB"],
                       check=True)
        with open(f"{folder}/ckpt", "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
            f.write(FAILING_ONCE.format(folder=folder, ckpt=os.path.abspath(ckpt)))
        recipe, out = edit_recipe(folder)
        done = run_recipe(recipe, folder)
        names = sorted(os.listdir(expected))
        good = (done.returncode == 0 and os.path.exists(f"{folder}/failed") and sorted(os.listdir(out)) == names
                and filecmp.cmpfiles(expected, out, names, shallow=False)[0] == names)
    if not good:
        print("FAILED ray_parts.py", done.stdout, done.stderr)
    print(f"oracle-ray: {int(good)} passed, {int(not good)} failed")
    return not good


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
