"""Times decoding steps of GPT-2 124M, or of a Llama of 1.2 billion parameters, on a GPU against PyTorch steps that were captured by
hand as CUDA graphs, in interleaved rounds.

    bench/compare_decode_cuda.py --bench build-cuda/bin/bench_decode_cuda --python <a python with torch and triton>

B sequences have 512 tokens each, in bf16. Ours is the host's whole loop with a paged cache, in which the sequences go on; the
peer's is the replay alone, at one position. A round is some steps by each; its ratio is the time of the peer's fastest way /
ours (above 1: ours is faster). Medians and quartiles go to bench/results/decode_cuda.json, or to decode_llama_cuda.json.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys

from compare_gpt2 import quartiles
from compare_ops import HERE, Contender, first_line


def race(ours, peer, batch, rounds, steps):
    question = json.dumps({"batch": batch, "after": 512, "steps": steps})
    answers = [(ours.ask(question), peer.ask(question)) for _ in range(rounds + 1)][1:]  # the first one prepares
    ways = answers[0][1]["seconds"]
    best = min(ways, key=lambda way: sum(b["seconds"][way] for _, b in answers))
    return {
        "peer_way": best,
        "ratio": quartiles([b["seconds"][best] / a["seconds"] for a, b in answers]),
        "ours": quartiles([a["seconds"] * 1e6 for a, _ in answers]),
        "peer": {way: quartiles([b["seconds"][way] * 1e6 for _, b in answers]) for way in ways},
        "captures": answers[-1][0]["captures"],
    }, answers[-1][1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build-cuda/bin/bench_decode_cuda")
    parser.add_argument("--python", default=sys.executable, help="a Python that can import torch and triton")
    parser.add_argument("--model", choices=["gpt2", "llama"], default="gpt2")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--eager-only", action="store_true", help="do not measure torch.compile")
    parser.add_argument("--commit", default="", help="commit of the measured program, if this is no clone")
    parser.add_argument("--out", type=pathlib.Path, help="default: bench/results/decode_cuda.json or decode_llama_cuda.json")
    args = parser.parse_args()
    args.out = args.out or HERE / f"results/decode_{'' if args.model == 'gpt2' else 'llama_'}cuda.json"
    model = ["--model", args.model]
    ours = Contender([args.bench, "--serve", *model])
    flags = [*model, "--eager-only"] if args.eager_only else model
    peer = Contender([args.python, str(HERE / "peers/decode_graph_torch.py"), *flags])
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    result = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": args.commit or first_line(["git", "rev-parse", "HEAD"]),
        "device": subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip(),
        "model": args.model,
        "rounds": args.rounds,
        "steps": args.steps,
        "microseconds": {},
    }
    partial = args.out.with_suffix(".partial")
    for batch in (1, 8, 64):
        row, about = race(ours, peer, batch, args.rounds, args.steps)
        result["microseconds"][batch] = row
        result["peer"] = {"torch": about["torch"]}
        low, high = row["ratio"]["quartiles"]
        peers = ", ".join(f"{way} {t['median']:.0f}" for way, t in row["peer"].items())
        print(f"B = {batch:>2}: ours {row['ours']['median']:.0f} us ({batch / row['ours']['median'] * 1e6:.0f} tokens/s), PyTorch "
              f"{peers} us, ratio {row['ratio']['median']:.2f} ({low:.2f}-{high:.2f})", flush=True)  # fmt: skip
        partial.write_text(json.dumps(result, indent=1) + "\n")
    partial.replace(args.out)


if __name__ == "__main__":
    main()
