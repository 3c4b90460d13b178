#!/usr/bin/env python3
"""Compares the profiler's GPU times with Nsight Compute's, op by op, for one step of a model.

  bench/compare_ncu.py --tinymlperf build-cuda/bin/tinymlperf --model gpt2 --dtype bf16 --out comparison.json

Nsight Compute runs one kernel at a time and counts from its first to its last cycle. The profiler measures between two
events while the kernels run back to back. A pair of events takes about 4 us on an H200, which is not subtracted, so only
ops that take at least twenty times as long (--long) are compared strictly. The exit status is 1 if such an op differs by
more than --tolerance.

Both must run at the same clock. Nsight Compute's pauses between kernels keep the clock high, but a step of 16 sequences
reaches the power limit of an H200, 700 W: the clock falls from 1980 to 1800 MHz and matrix products take up to 5 % longer
than one by one. Therefore the default is a batch of 4.
"""
import argparse
import collections
import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path


TIME = "gpu__time_duration.sum"
OUTSIDE = "outside of ops"
SCOPES = ("module ", "scope ")  # prefixes of the NVTX ranges of scopes (tensor/observer.hpp)
STEP = "profiled step"  # NVTX range that `tinymlperf profile` opens around each timed step


def profiled(command, folder):
    """Returns ({op: (seconds, calls)}, kernel launches per step) by tinymlperf, which writes its files into `folder`."""
    done = subprocess.run([*command, "--out", folder], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare_ncu: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    launches = re.search(r"Kernel launches: ([\d.e+]+) a step", done.stdout)
    if not launches:
        sys.exit("compare_ncu: the report has no number of kernel launches; was it measured on a GPU?")
    ops, end = collections.defaultdict(lambda: [0.0, 0]), 0.0
    events = [e for e in json.loads((Path(folder) / "trace.json").read_text())["traceEvents"] if e["cat"] == "kernel"]
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        if event["ts"] + event["dur"] <= end:
            continue  # within another op
        end = event["ts"] + event["dur"]
        ops[event["name"]][0] += event["dur"] * 1e-6
        ops[event["name"]][1] += 1
    return ops, int(float(launches.group(1)))


def provenance(folder):
    """Returns device, driver, machine, date and commit from the file of peaks of the profile in `folder`. A missing value
    is null and causes a warning."""
    peaks = json.loads((Path(folder) / "peaks.json").read_text())
    known = {key: peaks.get(key) for key in ("device", "driver", "machine", "date", "commit")}
    for key in (k for k, value in known.items() if not value):
        print(f"compare_ncu: the profile has no value for {key}", file=sys.stderr)
    return {**known, "command": shlex.join(["bench/compare_ncu.py", *sys.argv[1:]])}


def op_of(ranges):
    """Returns the op that launched a kernel, or None if the kernel was launched outside of the profiled step.

    `ranges` is a cell of Nsight Compute's table: the stack of NVTX ranges from the outermost to the innermost, such as
    `4711  "<default domain>:profiled step:none:..."  "<default domain>:matmul:none:..."`. If an op calls other ops, the
    outermost counts, like in profiled(). Modules and other scopes are ranges, too, but no ops."""
    names = re.findall(r"<default domain>:([^:]+):", ranges)
    if STEP not in names:
        return None
    return next((name for name in names if name != STEP and not name.startswith(SCOPES)), OUTSIDE)


def times_by_op(table):
    """Returns {op: (seconds, kernels)} of the profiled step from Nsight Compute's table of all kernels."""
    ops = collections.defaultdict(lambda: [0.0, 0])
    scale = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3}
    rows = list(csv.DictReader(io.StringIO(table)))
    unit = rows[0][TIME]  # the first row holds the units
    ranges = next((key for key in rows[0] if "Push/Pop_Range" in key), None)
    for row in rows[1:]:
        name = op_of(row[ranges]) if ranges else None
        if name is not None:
            ops[name][0] += float(row[TIME].replace(",", "")) * scale[unit]
            ops[name][1] += 1
    if not ops:
        sys.exit(f"compare_ncu: none of the {len(rows) - 1} kernels was launched in the range \"{STEP}\"; was the program "
                 "built with the headers of NVTX?")
    return ops


def counted(command, folder):
    """Returns {op: (seconds, kernels)} by Nsight Compute, which measures every kernel of the run. An NVTX range marks the
    kernels of the step; counting launches would not do, because one call of a library may launch several kernels."""
    ncu = ["ncu", "--nvtx", "--csv", "--page", "raw", "--clock-control", "none", "--cache-control", "none",
           "--metrics", TIME]
    done = subprocess.run([*ncu, *map(str, command), "--out", folder], capture_output=True, text=True,
                          env=dict(os.environ, TINYTORCH_RANGES="1"))
    start = done.stdout.find('"ID"')
    if start < 0:
        sys.exit(f"compare_ncu: ncu printed no table:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return times_by_op(done.stdout[start:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tinymlperf", required=True, help="the program, of a build with CUDA")
    parser.add_argument("--model", default="gpt2")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--batch", type=int, default=4, help="sequences; few, so that the step does not reach the power limit")
    parser.add_argument("--length", type=int, default=1024, help="tokens of a sequence")
    parser.add_argument("--long", type=float, default=80e-6, help="least average seconds of an op to be compared strictly")
    parser.add_argument("--tolerance", type=float, default=0.05)
    parser.add_argument("--out", default="", help="a JSON file for the table")
    options = parser.parse_args()
    command = [options.tinymlperf, "profile", options.model, "--device", "cuda", "--dtype", options.dtype, "--steps", "1",
               "--batch", str(options.batch), "--length", str(options.length)]
    with tempfile.TemporaryDirectory() as folder:
        ours, launches = profiled(command, folder)
        where = provenance(folder)
        theirs = counted(command, folder)
    rows, bad = [], 0
    for op in sorted(set(ours) | set(theirs), key=lambda name: -theirs[name][0]):
        seconds, kernels = theirs[op]
        each = seconds / ours[op][1] if kernels and ours[op][1] else 0
        strict = each >= options.long and op != OUTSIDE  # the profiler does not time kernels outside of ops
        off = ours[op][0] / seconds - 1 if seconds else None
        bad += strict and (off is None or abs(off) > options.tolerance)
        rows.append({"op": op, "profiler_seconds": ours[op][0], "ncu_seconds": seconds, "calls": ours[op][1],
                     "kernels": kernels, "strict": strict, "off": off})
        print(f"{op:<32}{1e3 * ours[op][0]:10.3f} ms{1e3 * seconds:10.3f} ms {kernels:5} kernels"
              f"{'' if off is None else f'{100 * off:+7.1f} %'}{'' if strict or op == OUTSIDE else '   (short)'}")
    strict = [r for r in rows if r["strict"]]
    total = sum(r["profiler_seconds"] for r in strict) / max(1e-12, sum(r["ncu_seconds"] for r in strict)) - 1
    print(f"long ops together: {100 * total:+.1f} %; {bad} of {len(strict)} beyond {100 * options.tolerance:g} %")
    if options.out:
        partial = Path(options.out + ".partial")
        partial.write_text(json.dumps({**where, "model": options.model, "dtype": options.dtype, "batch": options.batch,
                                       "length": options.length, "launches": launches, "rows": rows,
                                       "long_ops_off": total}, indent=1) + "\n")
        partial.replace(options.out)
    return 1 if bad or not strict else 0


if __name__ == "__main__":
    sys.exit(main())
