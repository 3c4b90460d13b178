"""Compares captured graphs with micrograd on its training demo, step by step in turns.

    bench/compare_micrograd.py --bench build/bin/bench_micrograd --python <a python with micrograd> --json out.json

The demo: 100 points of two moons, a network of 2-16-16-1 neurons with relu, hinge loss, 1e-4 of the squared weights, plain
gradient descent with a rate that falls from 1 to 0.1. All forms begin with micrograd's weights, and the losses of each step must
agree to 1e-9. The first steps, in which a graph is captured, checked and compiled, do not count.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Peer:
    """A process that answers each line of JSON with a line."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args[0]} ended with {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench", default="build/bin/bench_micrograd")
    parser.add_argument("--python", default=sys.executable, help="a python with micrograd")
    parser.add_argument("--steps", type=int, default=20, help="measured steps")
    parser.add_argument("--first", type=int, default=6, help="steps before them")
    parser.add_argument("--json", help="write the results to this file")
    options = parser.parse_args()
    micrograd = Peer([options.python, str(HERE / "peers" / "micrograd_demo.py")])
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(folder, "demo.json")
        demo.write_text(json.dumps(micrograd.ask({"demo": True})))
        ours = Peer([options.bench, str(demo)])
        seconds, losses = {"micrograd": []}, []
        for k in range(options.first + options.steps):
            rate = 1.0 - 0.9 * k / 100
            theirs, answer = micrograd.ask({"rate": rate}), ours.ask({"rate": rate})
            losses.append(theirs["loss"])
            for form, step in answer.items():
                if abs(step["loss"] - theirs["loss"]) > 1e-9 * abs(theirs["loss"]):
                    sys.exit(f"step {k}: {form} has the loss {step['loss']}, micrograd {theirs['loss']}")
                if k >= options.first:
                    seconds.setdefault(form, []).append(step["seconds"])
            if k >= options.first:
                seconds["micrograd"].append(theirs["seconds"])
        kernels = {key: answer["scalar"][key] for key in ("kernels_captured", "kernels")}
        ours.close()
    micrograd.close()
    result = {"steps": options.steps, "points": 100, "network": "2-16-16-1", "scalar": kernels, "loss_first": losses[0],
              "loss_last": losses[-1], "seconds": {form: statistics.median(s) for form, s in seconds.items()}}
    result["times_micrograd"] = {form: statistics.median(m / s for m, s in zip(seconds["micrograd"], own))
                                 for form, own in seconds.items() if form != "micrograd"}
    print(json.dumps(result, indent=1))
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
