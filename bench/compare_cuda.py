"""Times the CUDA kernels against PyTorch and against the bandwidth of a copy, in interleaved rounds: A B A B ...

    python3 bench/compare_cuda.py --bench build/bin/bench_cuda --python python3 --commit "$(git rev-parse HEAD)" \\
        --out bench/results/cuda.json --readme bench/README.md
    python3 bench/compare_cuda.py --from bench/results/cuda.json --readme bench/README.md     only prints and writes the table

Both programs stay alive and answer one request at a time. Both prepare a case (PyTorch compiles it), then it is measured
in rounds: ours, each variant of PyTorch, and in the next round in reverse order. A case can have rivals, which are
other cases of our program; each is measured by a process of its own in the same rounds. The ratio of a round is PyTorch's
time / ours (above 1: ours is faster). The result is the median over the rounds, for the variant of PyTorch that is fastest.
Bandwidth goals are shares of the bandwidth of the largest copy in the same run, by the faster of both programs. A row of
the table has the geometric mean over its cases and the worst case. The exit status is 1 if a case failed or if there was
no time for it; the report lists these cases.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import threading
import time

import cuda_report

HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    pass


class Contender:
    """A program that answers JSON requests line by line. It is restarted after a failure, because a CUDA error is sticky:
    all later calls of the process would fail, too."""

    def __init__(self, command):
        self.command, self.process = command, None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self.read, args=(self.process, self.lines), daemon=True)
        self.reader.start()

    @staticmethod
    def read(process, lines):
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        with contextlib.suppress(OSError):  # close() flushes requests that the ended process never read
            self.process.stdin.close()

    def ask(self, request, timeout=60):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.lines.get(timeout=timeout)
        except (BrokenPipeError, OSError):
            line = None
        except queue.Empty:
            self.stop()
            self.start()
            raise Failed(f"no answer within {timeout} s") from None
        if line is None:
            code = self.process.wait()
            self.stop()
            self.start()
            raise Failed(f"the program ended with status {code}")
        answer = json.loads(line)
        if "error" in answer:
            if any(
                word in answer["error"].lower()
                for word in ("illegal", "cuda error", "unspecified launch", "misaligned")
            ):
                self.stop()
                self.start()
            raise Failed(answer["error"])
        return answer


def gpu_state():
    """Driver, clocks, temperature and power, which may explain a difference between two runs."""
    fields = ["name", "driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "temperature.gpu", "power.draw"]
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader", "--id=0"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
        return dict(zip(fields, (value.strip() for value in text.splitlines()[0].split(","))))
    except (OSError, subprocess.SubprocessError, IndexError):
        return {}


class ClockLog:
    """Logs the SM clock and the power twice a second by nvidia-smi; an empty log if there is none."""

    def __init__(self):
        command = [
            "nvidia-smi",
            "--query-gpu=clocks.sm,power.draw",
            "--format=csv,noheader,nounits",
            "--id=0",
            "-lms",
            "500",
        ]
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            self.process = None

    def stop(self):
        if self.process is None:
            return {}
        self.process.terminate()
        rows = [line.split(",") for line in self.process.communicate()[0].splitlines()]
        pairs = [
            (float(r[0]), float(r[1]))
            for r in rows
            if len(r) == 2 and all(x.strip().replace(".", "").isdigit() for x in r)
        ]
        if not pairs:
            return {}
        clocks, power = zip(*pairs)
        return {
            "sm_mhz": [min(clocks), statistics.median(clocks), max(clocks)],
            "watts_max": max(power),
            "readings": len(pairs),
        }


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def warm(args, cases, seconds):
    """Fills the compiler's cache by several processes. Cases of max_autotune are left to the measuring process, because
    autotuning needs a GPU without other load."""
    cases = [case for case in cases if "compile" in case["peers"]]
    count = min(args.warm_processes, len(cases))
    if count == 0:
        return
    start = time.monotonic()
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "2"}
    command = [args.python, str(HERE / "peers/cuda_torch.py"), "--device", args.device, "--warm"]
    processes = []
    for i in range(count):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=environment)
        process.stdin.write("".join(json.dumps(case) + "\n" for case in cases[i::count]))
        process.stdin.close()
        processes.append(process)
    for process in processes:
        try:
            process.wait(max(1, seconds - (time.monotonic() - start)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    print(f"compiled {len(cases)} cases in {count} processes: {time.monotonic() - start:.0f} s", flush=True)


def median_and_quartiles(values):
    """Median and quartiles."""
    low, mid, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0],) * 3
    return mid, [low, high]


class Comparison:
    def __init__(self, args, deadline):
        self.args, self.deadline = args, deadline
        device = ["--device", args.device]
        self.ours = Contender([args.bench, "--serve", *device, "--shrink", str(args.shrink)])
        os.environ.setdefault("TORCHINDUCTOR_MAX_AUTOTUNE_REPORT_CHOICES_STATS", "0")
        self.peer = None if args.alone else Contender([args.python, str(HERE / "peers/cuda_torch.py"), *device])
        self.rivals = {}  # name of a column -> a process of our program
        self.bytes = {}  # of each case, by its name
        self.failures = []

    def list(self):
        cases = self.ours.ask({"do": "list"})["cases"]
        self.bytes = {case["name"]: case["bytes"] for case in cases}
        return [{**case, "peers": []} for case in cases] if self.args.alone else cases

    def rival(self, column):
        if column not in self.rivals:
            self.rivals[column] = Contender(self.ours.command)
        return self.rivals[column]

    def contenders(self):
        return [c for c in (self.ours, self.peer, *self.rivals.values()) if c]

    def fail(self, case, who, message):
        self.failures.append({"case": case["name"], "who": who, "error": message})
        print(f"{case['name']}: {who}: {message}", flush=True)

    def check_mode(self, case, who, prepared):
        if "capture_error" in prepared:
            self.fail(case, who, "not captured as a graph, timed call by call: " + prepared["capture_error"])

    def prepare(self, case):
        """Returns (name, program, request fields, answer) of each contender that could prepare the case."""
        ready = []
        try:
            prepared = self.ours.ask({"do": "prepare", "name": case["name"]}, 60)
            self.check_mode(case, "ours", prepared)
            ready.append(("ours", self.ours, {}, prepared))
        except Failed as error:
            self.fail(case, "ours", str(error))
            return []
        for variant in case["peers"]:
            try:
                prepared = self.peer.ask({"do": "prepare", "case": case, "variant": variant}, 150)
                self.check_mode(case, variant, prepared)
                ready.append((variant, self.peer, {"variant": variant}, prepared))
            except Failed as error:
                self.fail(case, variant, str(error))
        for column, name in case.get("rivals", {}).items():
            try:
                prepared = self.rival(column).ask({"do": "prepare", "name": name}, 60)
                self.check_mode(case, column, prepared)
                ready.append((column, self.rival(column), {}, prepared))
            except Failed as error:
                self.fail(case, column, str(error))
        return ready

    def measure(self, case, ready):
        times = {name: [] for name, *_ in ready}
        for round_number in range(self.args.rounds):
            for name, contender, which, _ in ready if round_number % 2 == 0 else ready[::-1]:
                try:
                    answer = contender.ask({"do": "measure", "seconds": self.args.sample_seconds, **which}, 60)
                    times[name].append(answer["seconds"])
                except Failed as error:
                    self.fail(case, name, str(error))
                    if name == "ours":
                        return {}
                    times.pop(name)
                    ready = [entry for entry in ready if entry[0] != name]
        return times

    def run(self, case):
        """Returns the result of a case, or None if ours could not be timed. A training step of a language model fills the
        memory, so it is compared with one peer at a time."""
        if not case.get("tokens"):
            return self.run_together(case)
        whole = None
        for variant in case["peers"]:
            result = self.run_together({**case, "peers": [variant]})
            if result is None:
                break
            whole = whole or result
            whole["peers"] |= result["peers"]
        return whole

    def run_together(self, case):
        if time.monotonic() > self.deadline:
            self.fail(case, "ours", "not measured: the time was used up (--seconds)")
            return None
        ready = self.prepare(case)
        times = self.measure(case, ready) if ready else {}
        for contender in self.contenders():
            try:
                contender.ask({"do": "release"}, 60)
            except Failed as error:
                self.fail(case, "release", str(error))
        if not times:
            return None
        seconds, quartiles = median_and_quartiles(times["ours"])
        result = {key: case[key] for key in ("name", "group", "bytes", "flops", "tensor_bytes", "sets", "calls")}
        result |= {"seconds": seconds, "quartiles": quartiles, **ready[0][3], "peers": {}}
        result["gb_per_s"], result["tflop_per_s"] = case["bytes"] / seconds * 1e-9, case["flops"] / seconds * 1e-12
        if case.get("tokens"):
            result["tokens"] = case["tokens"]
        for name, *_, prepared in ready[1:]:
            if name not in times:
                continue
            peer_seconds, _ = median_and_quartiles(times[name])
            ratio, spread = median_and_quartiles([theirs / own for theirs, own in zip(times[name], times["ours"])])
            result["peers"][name] = {"seconds": peer_seconds, "ratio": ratio, "quartiles": spread, "mode": prepared["mode"]}
            if name in case.get("rivals", {}):
                result["peers"][name]["speed"] = ratio * case["bytes"] / self.bytes[case["rivals"][name]]
            else:
                result["peers"][name]["prepared_in"] = round(prepared["prepared_in"], 2)
            if "peak_bytes" in prepared:
                result["peers"][name]["peak_bytes"] = prepared["peak_bytes"]
        return result


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/bin/bench_cuda")
    parser.add_argument("--python", default=sys.executable, help="a Python that can import torch")
    parser.add_argument(
        "--only", default="", help="cases whose name contains one of these, with commas between: softmax,norm"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=360, help="time limit of the whole run; cases not measured by then are failures"
    )
    parser.add_argument("--sample-seconds", type=float, default=0.02, help="time of one measurement")
    parser.add_argument(
        "--warm-processes", type=int, default=max(1, min(10, (os.cpu_count() or 2) - 2)),
        help="processes that compile PyTorch's cases before the measurement; 0: none",
    )
    parser.add_argument("--alone", action="store_true", help="without PyTorch: only our cases and their rivals")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: a dry run, with --shrink 1024")
    parser.add_argument("--shrink", type=int, default=1)
    parser.add_argument("--commit", help="commit that was built; default: HEAD of the repository")
    parser.add_argument("--out", type=pathlib.Path, help="JSON file of all results")
    parser.add_argument("--readme", type=pathlib.Path, help="file whose section between the markers is written")
    parser.add_argument(
        "--from", dest="source", type=pathlib.Path, help="JSON file of an earlier run, instead of a run"
    )
    return parser.parse_args(argv)


def chosen(cases, only):
    """The requested cases and all copies, whose bandwidth is the reference, in the order of the table's rows."""
    parts = [part for part in only.split(",") if part]
    wanted = [c for c in cases if c["group"] == "copy" or not parts or any(part in c["name"] for part in parts)]
    return sorted(wanted, key=lambda c: cuda_report.ORDER.index(c["group"]))


def compare(args):
    start = time.monotonic()
    comparison = Comparison(args, start + args.seconds)
    cases = chosen(comparison.list(), args.only)
    about = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": args.commit or first_line(["git", "rev-parse", "HEAD"]),
        "rounds": args.rounds,
        "seconds": args.seconds,
        "only": args.only,
        "ours": comparison.ours.ask({"do": "about"}),
        "peer": comparison.peer.ask({"do": "about"}, 120) if comparison.peer else {},
        "nvcc": first_line(["sh", "-c", "nvcc --version | grep release"]),
        "gpu_before": gpu_state(),
    }
    report = {"about": about, "copy_gb_per_s": 0, "table": [], "failures": comparison.failures, "cases": []}
    warm(args, cases, args.seconds / 3)
    clocks = ClockLog()
    for number, case in enumerate(cases, 1):
        result = comparison.run(case)
        if result is None:
            continue
        report["cases"].append(result)
        if result["group"] == "copy":
            speeds = cuda_report.copy_speeds(report["cases"])
            report["copy_gb_per_s"] = speeds[max(speeds)]
        peers = " ".join(f"{name} {p['ratio']:.2f}" for name, p in result["peers"].items())
        progress = f"[{number}/{len(cases)} {time.monotonic() - start:4.0f} s]"
        speed = f"{result['seconds'] * 1e6:>10.2f} us {result['gb_per_s']:>7.0f} GB/s"
        print(f"{progress} {case['name']:<54} {speed}  {peers}", flush=True)
        if args.out and number % 10 == 0:
            finish(args, report, cases)
    about["clock_min_median_max"] = clocks.stop()
    about["gpu_after"], about["wall_seconds"] = gpu_state(), round(time.monotonic() - start, 1)
    for contender in comparison.contenders():
        contender.stop()
    finish(args, report, cases)
    return report


def finish(args, report, cases):
    cuda_report.add_shares(report["cases"])
    report["table"] = cuda_report.summarize(cases, report["cases"])
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        cuda_report.write_whole(args.out, cuda_report.as_text(report))


def main():
    args = parse(sys.argv[1:])
    if args.readme and not args.readme.is_file():
        sys.exit(f"compare_cuda: --readme {args.readme}: no such file")
    if args.readme and not args.source and (args.device != "cuda" or args.shrink != 1):
        sys.exit("compare_cuda: a dry run has no results for the README; omit --readme")
    try:
        report = json.loads(args.source.read_text()) if args.source else compare(args)
    except Failed as error:
        sys.exit(f"compare_cuda: {error}")
    cuda_report.print_report(report)
    if args.readme:
        cuda_report.write_readme(args.readme, report)
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
