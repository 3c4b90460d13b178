"""Times every operation of the library against PyTorch on the CPU, in interleaved rounds: A B A B ...

    bench/compare_ops.py --bench build/bin/bench_ops --python <a python with torch>

Both programs stay alive and answer one request at a time, so other load, clock and caches affect both alike. A round
is one request to each; its ratio is our time / PyTorch's (below 1: ours is faster). The table has the median ratio
and its quartiles, and goes to bench/results/ops_cpu.json with machine, date, commit and versions. On a shared machine,
--statistic best compares the fastest samples, and --statistic processor with --threads 1 compares processor times,
which do not include the time in which other programs use the core.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
EIGEN = "Eigen "  # prefix of a case's name: bench_ops does the same work with Eigen
SIZES = [1 << 10, 1 << 20, 1 << 24]
SECONDS = {1 << 10: 0.01, 1 << 20: 0.03, 1 << 24: 0.1}


class Contender:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{self.process.args} ended before it answered {line}")
        return json.loads(answer)


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def compare(ours, peer, offered, n, rounds, statistic, with_eigen):
    """offered: the case as bench_ops describes it."""
    name = offered["name"]
    turns = [(ours, name), (peer, name)] + ([(ours, EIGEN + name)] if with_eigen else [])
    answers = {turn: [] for turn in turns}
    for round_number in range(rounds):
        for contender, case in turns if round_number % 2 == 0 else turns[::-1]:
            time.sleep(0.002)  # until the other program's worker threads stop spinning
            request = json.dumps({**offered, "name": case, "n": n, "seconds": SECONDS.get(n, 0.1)})
            answers[contender, case].append(contender.ask(request))
    key = {"median": "seconds"}.get(statistic, statistic)
    a, b, *eigen = ([answer[key] for answer in answers[turn]] for turn in turns)
    ratios = [x / y for x, y in zip(a, b)]
    low, _, high = statistics.quantiles(ratios, n=4) if rounds > 1 else (ratios[0],) * 3
    if statistic == "best":
        seconds, peer_seconds = min(a), min(b)
        ratio = seconds / peer_seconds
    else:
        seconds, peer_seconds, ratio = statistics.median(a), statistics.median(b), statistics.median(ratios)
    mine = answers[ours, name]
    share = statistics.median(answer["share_of_limit"] for answer in mine)
    row = {"name": name, "n": n, "ratio": round(ratio, 4), "quartiles": [round(low, 4), round(high, 4)],
           "seconds": seconds, "peer_seconds": peer_seconds, "rounds": rounds, "bytes": mine[0]["bytes"],
           "flops": mine[0]["flops"], "share_of_limit": round(share, 4)}  # fmt: skip
    if eigen:
        row["eigen_ratio"] = round(statistics.median(x / y for x, y in zip(a, eigen[0])), 4)
    return row


def summarize(rows):
    for n in sorted({r["n"] for r in rows}):
        ratios = sorted((r["ratio"], r["name"]) for r in rows if r["n"] == n)
        slow = [f"{name} {ratio:.2f}" for ratio, name in reversed(ratios) if ratio > 3]
        print(f"{n} elements: {len(ratios)} cases, median ratio {statistics.median(r for r, _ in ratios):.2f}, "
              f"slowest {ratios[-1][1]} {ratios[-1][0]:.2f}; above 3: {', '.join(slow) or 'none'}")  # fmt: skip


def as_text(about, rows):
    rows_text = ",\n  ".join(map(json.dumps, rows))
    return json.dumps(about, indent=1)[:-2] + ',\n "cases": [\n  ' + rows_text + "\n ]\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/bin/bench_ops")
    parser.add_argument("--python", default=sys.executable, help="a Python that can import torch")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--only", nargs="+", default=[""], help="cases whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--statistic", choices=["median", "best", "processor"], default="median")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--out", type=pathlib.Path, help="default: bench/results/ops_cpu.json when all cases run")
    args = parser.parse_args()
    ours = Contender([args.bench, "--serve", "--threads", args.threads])
    peer = Contender([args.python, str(HERE / "peers/ops_torch.py"), "--threads", args.threads])
    offered = ours.ask("list")
    by_eigen = {case["name"].removeprefix(EIGEN) for case in offered if case["name"].startswith(EIGEN)}
    # PyTorch has no counterpart of a case without a text; bench_ops alone times it.
    cases = [case for case in offered if case["torch"] and any(part in case["name"] for part in args.only)]
    out = args.out or (HERE / "results/ops_cpu.json" if args.only == [""] else None)
    about = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": first_line(["git", "rev-parse", "HEAD"]),
        "processor": processor(),
        "threads": int(args.threads),
        "statistic": args.statistic,
        "bandwidth": "triad",  # the bandwidth in the roofline of bench_ops
        "load_average": os.getloadavg()[0],
        "compiler": first_line(["g++", "--version"]),
        "peer": peer.ask("version"),
    }
    rows = []
    print(f"{'case':<24} {'elements':>9} {'ours us':>12} {'torch us':>12} {'ratio':>7}  quartiles   of limit")
    work = [(case, n) for n in args.sizes for case in cases if case["n"] == 0]
    work += [(case, case["n"]) for case in cases if case["n"] > 0]
    for case, n in work:
        name = case["name"]
        r = compare(ours, peer, case, n, args.rounds if n < 1 << 24 else max(1, args.rounds // 2), args.statistic, name in by_eigen)
        rows.append(r)
        if out:  # the results so far survive if a later case fails
            partial = out.with_suffix(".partial")
            partial.write_text(as_text(about, rows))
        low, high = r["quartiles"]
        print(f"{name:<24} {n:>9} {r['seconds'] * 1e6:>12.2f} {r['peer_seconds'] * 1e6:>12.2f} {r['ratio']:>7.2f}"
              f"  {low:.2f}-{high:.2f} {r['share_of_limit'] * 100:>9.0f}%"
              + (f"  of Eigen {r['eigen_ratio']:.2f}" if "eigen_ratio" in r else ""), flush=True)  # fmt: skip
    summarize(rows)
    if out and rows:
        partial.replace(out)


if __name__ == "__main__":
    main()
