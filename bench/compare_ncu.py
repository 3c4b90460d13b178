#!/usr/bin/env python3
"""The profiler's GPU times against Nsight Compute's: one step of a model, op by op.

  bench/compare_ncu.py --tinymlperf build-cuda/bin/tinymlperf --model gpt2 --dtype bf16 --out comparison.json

Nsight Compute counts from a kernel's first to its last cycle, one kernel at a time; the profiler from event to event,
with the kernels as they run. A pair of events costs some 4 us on an H200, and nothing is subtracted; so only ops that take
twenty times as long are compared strictly. Exits with 1 when such an op is off by more than --tolerance.

Both must run at one clock, which Nsight Compute's pauses between kernels keep high: a step of 16 sequences draws an H200's
700 W, which slows it from 1980 to 1800 MHz, and its products take up to 5 % longer than they do one by one. Hence 4.
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
SCOPES = ("module ", "scope ")  # how the ranges of scopes begin (tensor/observer.hpp)
STEP = "profiled step"  # the range of `tinymlperf profile` around each step that it times


def profiled(command, folder):
    """({op: (seconds, calls)}, kernel launches of a step) as tinymlperf says. It leaves its files in `folder`."""
    done = subprocess.run([*command, "--out", folder], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare_ncu: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    launches = re.search(r"Kernel launches: ([\d.e+]+) a step", done.stdout)
    if not launches:
        sys.exit("compare_ncu: the report names no kernel launches; was it measured on a GPU?")
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
    """What was measured where, when and of which commit, as the profile in `folder` says beside its peaks. A value that is
    not known is null, and said so: a table that nobody can trace proves little."""
    peaks = json.loads((Path(folder) / "peaks.json").read_text())
    known = {key: peaks.get(key) for key in ("device", "driver", "machine", "date", "commit")}
    for key in (k for k, value in known.items() if not value):
        print(f"compare_ncu: the profile does not tell its {key}", file=sys.stderr)
    return {**known, "command": shlex.join(["bench/compare_ncu.py", *sys.argv[1:]])}


def op_of(ranges):
    """The op in which a kernel was launched; None for one launched outside of the profiled step.

    `ranges`: a cell of Nsight Compute's table, the stack of ranges from the outermost to the innermost, as
    `4711  "<default domain>:profiled step:none:..."  "<default domain>:matmul:none:..."`. Of ops within ops the outermost
    counts, as in profiled(). Modules and other scopes are ranges, too, but no ops."""
    names = re.findall(r"<default domain>:([^:]+):", ranges)
    if STEP not in names:
        return None
    return next((name for name in names if name != STEP and not name.startswith(SCOPES)), OUTSIDE)


def times_by_op(table):
    """{op: (seconds, kernels)} of the profiled step, from the table of all kernels that Nsight Compute prints."""
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
    """{op: (seconds, kernels)} as Nsight Compute says. It measures every kernel of the run: which are the step's is told by
    a range of NVTX, since a call of a library counts as one launch and may be several kernels."""
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
    parser.add_argument("--long", type=float, default=80e-6, help="seconds an op takes on average to count")
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
        strict = each >= options.long and op != OUTSIDE  # which the profiler does not time
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
