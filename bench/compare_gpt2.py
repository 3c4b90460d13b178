"""Times a training step of GPT-2 124M against PyTorch on the CPU, in interleaved rounds: A B A B ...

    bench/compare_gpt2.py --bench build/bin/bench_gpt2 --python <a python with torch and safetensors>

Both start from the same weights and use the same tokens. Before the measurement, their losses over the first steps must
agree, which shows that they do the same work. A round is one step of each; its ratio is PyTorch's time / ours (above 1:
ours is faster). Medians and quartiles of wall-clock time and of processor time go to bench/results/gpt2_cpu.json. Other
users of a shared machine change processor time least, but it includes threads that spin while they wait.

Both use GNU OpenMP, whose threads by default spin for some milliseconds while they wait. If other programs need the
cores, set GOMP_SPINCOUNT=3000 for this command: then the threads of both programs spin only for some microseconds.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

from compare_ops import HERE, Contender, first_line, processor

AGREE_STEPS, TOLERANCE = 3, 2e-4


def check_losses(ours, peer):
    losses = [[c.ask('{"step": true}')["loss"] for c in (ours, peer)] for _ in range(AGREE_STEPS)]
    for a, b in losses:
        if not abs(a - b) <= TOLERANCE * abs(b):
            sys.exit(f"the losses of the first steps differ (ours, PyTorch's): {losses}")
    return losses


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": round(middle, 4), "quartiles": [round(low, 4), round(high, 4)]}


def race(ours, peer, rounds):
    times = []
    for number in range(rounds):
        order = [ours, peer] if number % 2 == 0 else [peer, ours]
        answers = {}
        for contender in order:
            time.sleep(0.05)  # until the other program's worker threads stop spinning
            answers[contender] = contender.ask('{"step": true}')
        times.append((answers[ours], answers[peer]))
    return {
        key: {
            "ratio": quartiles([b[key] / a[key] for a, b in times]),
            "ours": quartiles([a[key] for a, _ in times]),
            "peer": quartiles([b[key] for _, b in times]),
        }
        for key in ("seconds", "processor")
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/bin/bench_gpt2")
    parser.add_argument("--python", default=sys.executable, help="a Python that can import torch and safetensors")
    parser.add_argument("--batch", default="4")
    parser.add_argument("--tokens", default="64")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--fused", action="store_true", help="PyTorch's fused AdamW, which is not its default")
    parser.add_argument("--about", default="", help="a note about the machine for the file, such as other load")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results/gpt2_cpu.json")
    args = parser.parse_args()
    ours = Contender([args.bench, "--serve", "--threads", args.threads, "--batch", args.batch, "--tokens", args.tokens])
    peer_command = [args.python, str(HERE / "peers/gpt2_torch.py"), "--threads", args.threads]
    peer = Contender(peer_command + ["--fused"] * args.fused)
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "start.safetensors")
        ours.ask(json.dumps({"save": path}))
        version = peer.ask(json.dumps({"load": path}))
    losses = check_losses(ours, peer)
    result = race(ours, peer, args.rounds)
    for key, row in result.items():
        low, high = row["ratio"]["quartiles"]
        print(f"{key:<10} ours {row['ours']['median']:.3f} s, PyTorch {row['peer']['median']:.3f} s, "
              f"PyTorch / ours {row['ratio']['median']:.2f} ({low:.2f}-{high:.2f})")  # fmt: skip
    about = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": first_line(["git", "rev-parse", "HEAD"]),
        "processor": processor(),
        "about": args.about,
        "threads": int(args.threads),
        "load_average": os.getloadavg()[0],
        "environment": {name: value for name, value in os.environ.items() if name.startswith(("OMP_", "GOMP_"))},
        "compiler": first_line(["g++", "--version"]),
        "peer": version,
        "batch": int(args.batch),
        "tokens": int(args.tokens),
        "rounds": args.rounds,
        "first_losses": losses,
    }
    partial = args.out.with_suffix(".partial")
    partial.write_text(json.dumps({**about, **result}, indent=1) + "\n")
    partial.replace(args.out)


if __name__ == "__main__":
    main()
