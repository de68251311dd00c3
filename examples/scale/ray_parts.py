"""Converts a checkpoint in parts that are tasks of Ray, and merges them. Edit the three lines, then:

    RAY_ADDRESS=HOST:6379 python3 ray_parts.py

Without RAY_ADDRESS, Ray uses the processors of this machine. If a part failed three times, run it again: parts that
are done end at once.
"""
import subprocess

import ray

PARTS = 16
OUT = "/shared/model-bf16"
CONVERT = ["ckpt", "convert", "/shared/model", OUT, "--cast", "bfloat16", "--max-shard-size", "5GB"]


@ray.remote(num_cpus=1, max_retries=2, retry_exceptions=True)
def write_part(index):
    subprocess.run([*CONVERT, "-j", "1", "--part", f"{index}/{PARTS}"], check=True)


ray.init()
ray.get([write_part.remote(index) for index in range(PARTS)])
subprocess.run(["ckpt", "merge-parts", OUT], check=True)
