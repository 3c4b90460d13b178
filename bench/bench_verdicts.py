"""Times the check of every task of the course: a comment is added to the student's header, then the check is rebuilt and
run. CUDA tasks run on the emulator or, with --device cuda, on the GPU. The last rows are syntax errors in a folder where nothing is
built but what `start` prepares, which is the worst case. `cpu` is the processor time, which other work of the machine changes less.

  python3 bench/bench_verdicts.py [--rounds 3] [--only 1.4] [--out bench/results/verdicts.json]
"""
import argparse
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "modules"))
import course
import tools
from compare_cuda import gpu_state

LIMITS = {"cpu": 2.0, "sim": 4.0, "cuda": 4.0, "syntax": 1.5}  # upper bounds of a verdict, in seconds
SYNTAX = ("1.1", "2.1", "4.5", "4.8", "5.4", "10.12", "1.8")  # tasks with few and with many includes


def processor():
    """Seconds of processor time of this program's finished children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(task, device, shop, folder, rounds):
    for path in task.module.files():
        course.write_whole(folder / path, task.module.whole(path))
    header = folder / task.path
    text, samples = header.read_text(encoding="utf-8"), []
    for turn in range(rounds + 1):  # the first turn also builds the shared files; it is not counted
        header.write_text(text + f"// edit no. {turn}\n", encoding="utf-8")
        began, used = time.monotonic(), processor()
        verdict = shop.check(task, [folder], device=device, name="verdicts")
        if not verdict.passed:
            raise SystemExit(f"{task.id}: {verdict.stage}: {verdict.text}")
        if turn:
            samples.append((time.monotonic() - began, processor() - used))
    return samples


def row_of(task, title, device, samples):
    seconds, cpu = zip(*samples)
    return {"task": task.id, "title": title, "device": device, "seconds": statistics.median(seconds), "worst": max(seconds),
            "cpu": statistics.median(cpu)}


def show(row):
    print(f"{row['task']:<6}{row['title']:<44}{row['device']:<7}{row['seconds']:6.2f} s   at most {row['worst']:.2f}   "
          f"cpu {row['cpu']:.2f} s", flush=True)


def measure_syntax(task, rounds):
    """Seconds until a syntax error is reported if nothing is built but what `start` prepares."""
    samples = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as held:
            student = Path(held) / "student"
            for path in task.module.files():
                course.write_whole(student / path, task.module.whole(path))
            header = student / task.path
            header.write_text(header.read_text(encoding="utf-8") + "int missing_semicolon\nint other;\n", encoding="utf-8")
            shop = course.Workshop(Path(held) / "build", tools.call)
            shop.prepare(task.module)
            began, used = time.monotonic(), processor()
            verdict = shop.check(task, [student], name="verdicts")
            samples.append((time.monotonic() - began, processor() - used))
            if verdict.stage != "compile":
                raise SystemExit(f"{task.id}: a syntax error was not reported, but {verdict.stage}")
    return samples


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", default="")
    options.add_argument("--device", choices=("sim", "cuda"), default="sim")
    options.add_argument("--syntax", action="store_true", help="only the syntax errors")
    options.add_argument("--out")
    options = options.parse_args()
    shop, rows = course.Workshop(call=tools.call), []
    for task in course.Course().tasks:
        device = "cpu" if task.device == "cpu" else options.device
        if options.syntax or not task.id.startswith(options.only) or (options.device == "cuda" and device == "cpu"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            samples = measure(task, device, shop, Path(folder), options.rounds)
        rows.append(row_of(task, task.title, device, samples))
        show(rows[-1])
        if options.out:  # the results so far survive if a later task fails
            course.write_whole(Path(options.out + ".partial"), json.dumps({"tasks": rows}, indent=1) + "\n")
    for task in (t for t in course.Course().tasks if t.id in SYNTAX and t.id.startswith(options.only) and options.device == "sim"):
        samples = measure_syntax(task, options.rounds)
        rows.append(row_of(task, "a syntax error, nothing built", "syntax", samples))
        show(rows[-1])
    summary = {}
    for device in sorted({r["device"] for r in rows}):
        times = sorted(r["seconds"] for r in rows if r["device"] == device)
        summary[device] = {"tasks": len(times), "median": statistics.median(times), "limit": LIMITS[device],
                           "p90": times[min(len(times) - 1, int(0.9 * len(times)))], "worst": times[-1],
                           "worst_cpu": max(r["cpu"] for r in rows if r["device"] == device)}
        print(f"{device}: {len(times)} tasks, median {summary[device]['median']:.2f} s, p90 {summary[device]['p90']:.2f} s, "
              f"worst {times[-1]:.2f} s, of processor time {summary[device]['worst_cpu']:.2f} s (limit {LIMITS[device]:g} s)")
    if options.out:
        # COMMIT names the commit on a machine that has the files without .git (cuda_session.sh).
        commit = os.environ.get("COMMIT") or tools.call(["git", "-C", ROOT, "rev-parse", "HEAD"], 20).text.strip()
        about = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit, "cores": tools.CORES,
                 "machine": platform.machine(), "compiler": tools.program_version("g++"), "rounds": options.rounds}
        if options.device == "cuda":
            about["gpu"] = gpu_state()
        course.write_whole(Path(options.out), json.dumps({"about": about, "summary": summary, "tasks": rows}, indent=1) + "\n")
        Path(options.out + ".partial").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
