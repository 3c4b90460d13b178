"""Times decoding with GPT-2 124M on the CPU against Hugging Face's transformers with its cache, in interleaved rounds.

    bench/compare_decode.py --bench build/bin/bench_decode --python <a python with torch and transformers>

Both have the same random weights in f32 and get the same tokens. After each prompt both go on greedily for some tokens,
which must be the same. A round is a prompt and these steps by each; its ratio is the time of the peer / ours (above 1: ours
is faster), for the prompt and for the median step. Medians and quartiles go to bench/results/decode_cpu.json.
"""

import argparse
import datetime
import json
import pathlib
import random
import statistics
import sys
import tempfile

from compare_gpt2 import quartiles
from compare_ops import HERE, Contender, first_line, processor


def turn(contender, prompt, steps):
    """Seconds of the prompt and of each step, and the tokens that followed."""
    answer = contender.ask(json.dumps({"prompt": prompt}))
    first, seconds, tokens = answer["seconds"], [], [answer["next"]]
    for _ in range(steps):
        answer = contender.ask(json.dumps({"next": tokens[-1]}))
        seconds.append(answer["seconds"])
        tokens.append(answer["next"])
    return first, statistics.median(seconds), tokens


def race(ours, peer, prompt, rounds, steps):
    times = []
    for number in range(rounds):
        order = [ours, peer] if number % 2 == 0 else [peer, ours]
        answers = {contender: turn(contender, prompt, steps) for contender in order}
        if answers[ours][2] != answers[peer][2]:
            sys.exit(f"the tokens after {len(prompt)} tokens differ: {answers[ours][2]}, {answers[peer][2]}")
        times.append((answers[ours], answers[peer]))
    return {
        name: {
            "ratio": quartiles([b[i] / a[i] for a, b in times]),
            "ours": quartiles([a[i] for a, _ in times]),
            "peer": quartiles([b[i] for _, b in times]),
        }
        for i, name in enumerate(("prompt", "step"))
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/bin/bench_decode")
    parser.add_argument("--python", default=sys.executable, help="a Python that can import torch and transformers")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=16, help="tokens after each prompt")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--about", default="", help="a note about the machine for the file, such as other load")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results/decode_cpu.json")
    args = parser.parse_args()
    ours = Contender([args.bench, "--serve", "--threads", args.threads])
    peer = Contender([args.python, str(HERE / "peers/decode_torch.py"), "--threads", args.threads])
    with tempfile.TemporaryDirectory() as folder:
        ours.ask(json.dumps({"save": folder}))
        version = peer.ask(json.dumps({"load": folder}))
    result = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": first_line(["git", "rev-parse", "HEAD"]),
        "processor": processor(),
        "about": args.about,
        "compiler": first_line(["g++", "--version"]),
        "peer": version,
        "rounds": args.rounds,
        "steps": args.steps,
        "lengths": {},
    }
    partial = args.out.with_suffix(".partial")
    for length in (16, 512, 1000):
        prompt = random.Random(length).choices(range(50257), k=length)
        row = result["lengths"][length] = race(ours, peer, prompt, args.rounds, args.steps)
        for name, r in row.items():
            low, high = r["ratio"]["quartiles"]
            print(f"{name:<6} {length:>4} tokens: ours {r['ours']['median'] * 1e3:.1f} ms, transformers "
                  f"{r['peer']['median'] * 1e3:.1f} ms, ratio {r['ratio']['median']:.2f} ({low:.2f}-{high:.2f})")  # fmt: skip
        partial.write_text(json.dumps(result, indent=1) + "\n")
    partial.replace(args.out)


if __name__ == "__main__":
    main()
