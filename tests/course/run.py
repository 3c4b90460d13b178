"""Tests of the course: for each task the starter fails with the name of the task, the solution and the library's header pass, and
every wrong answer is rejected. The solution earns the speed points, and each slow answer passes its check but earns none, by the
counts of the emulator; times are not judged here. Prints `ok - ` or `not ok - ` lines; exits with 1 if a check fails.

  python3 tests/course/run.py                    all tasks, CUDA tasks on the emulator
  python3 tests/course/run.py --only 1.4         the task with this number or slug; `--only 01`: all tasks of a module
  python3 tests/course/run.py --tasks            only starters, solutions and wrong answers; `--wrong 1`: one of each task
  python3 tests/course/run.py --answers          only wrong answers
  python3 tests/course/run.py --library          only the library's headers, speed points, and all solutions together
  python3 tests/course/run.py --migrated         only files of the last version, migrated; `--migrated 2`: of two tasks
  python3 tests/course/run.py --device cuda      only CUDA tasks, on the GPU, without wrong answers that only the emulator is sure to reject
"""
import argparse
import os
import random
import re
import shutil
import sys
import tarfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "modules"), str(ROOT / "tests" / "hygiene")]
import course
import lints
import migrate
import speed
import tools

failed = 0


def report(name, good, why=""):
    global failed
    failed += 0 if good else 1
    print(("ok - " if good else "not ok - ") + name)
    if not good:
        print("\n".join("  " + line for line in str(why).strip().splitlines()[:40]))
    sys.stdout.flush()


def place_of(task, name):
    """A folder's name for an answer of a task. Tasks of two modules may have the same slug."""
    return f"{task.module.number}-{task.slug}-{re.sub(r'[^a-z0-9]+', '-', name.lower())}"


def headers(folder, module, texts):
    """Writes a student's folder: the module's solution, with `texts` in place of some files. Returns the folder."""
    for path in module.files():
        course.write_whole(folder / path, texts.get(path, module.whole(path)))
    return folder


def library_header(task, folder):
    """The folder of a student with a copy of the library's header, if the check of the task calls functions that the compiled
    library hides; otherwise no folder."""
    if not task.bodies:
        return []
    course.write_whole(folder / task.header, course.for_checks((course.INCLUDE / task.header).read_text(encoding="utf-8")))
    return [folder]


def check_headers(task, device, folder, shop, name, texts):
    """The verdict on the module's solution with `texts` in place of some files."""
    place = place_of(task, name)
    return shop.check(task, [headers(folder / place, task.module, texts)], device=device, name=place)


def prove_task(task, device, folder, shop):
    """[(name, good, why)]: the solution passes, the starter fails with the name of the task, and the task has wrong answers and
    hints."""
    module, rows = task.module, []
    solution = check_headers(task, device, folder, shop, "solution", {})
    rows.append((f"{task.id} solution passes ({solution.seconds:.1f} s)", solution.passed, f"{solution.stage}: {solution.text}"))
    starter = check_headers(task, device, folder, shop, "starter", {task.path: module.starter(task.path)})
    names = [w.split("#")[0] for w in task.write]
    if task.device == "cpu" or "TT-TODO" in starter.text:
        good = starter.stage == "failed" and f"TODO({task.id})" in starter.text and any(n in starter.text for n in names)
    else:
        good = starter.stage == "failed"
    rows.append((f"{task.id} starter compiles and fails with the name of the task", good, f"{starter.stage}: {starter.text}"))
    answers = module.wrong_answers(task)
    rows.append((f"{task.id} has at least two wrong answers", len(answers) >= 2, f"{len(answers)}"))
    hints = task.hints()
    rows.append((f"{task.id} has three hints", len(hints) == 3 and all(h.strip() for h in hints), str(hints)))
    return rows


def migrate_all(modules, folder):
    """Migrates the solutions of the last version (last_version.tar.xz) into folder/MODULE. Returns {id of a task: notes of the
    migration}; a task that the last version did not have is not in it."""
    left = {}
    with tarfile.open(Path(__file__).with_name("last_version.tar.xz")) as old:
        names = set(old.getnames())
        for task in (t for m in modules for t in m.tasks if f"{m.id}/{migrate.before(t.header)}" in names):
            text = old.extractfile(f"{task.module.id}/{migrate.before(task.header)}").read().decode()
            text, left[task.id] = migrate.migrated(task.module, task.header, text)
            course.write_whole(folder / task.module.id / task.path, text)
    return left


def prove_migrated(task, device, folder, shop, left):
    """[(name, good, why)]: the migrated solution of the last version passes."""
    verdict = shop.check(task, [folder / task.module.id], device=device, name=place_of(task, "migrated"))
    return [(f"{task.id} passes with the migrated file of the last version", verdict.passed and not left,
             f"{verdict.stage}: {verdict.text}\n" + "\n".join(left))]


def prove_library(task, device, folder, shop):
    """[(name, good, why)]: the library's header passes, unless the solution is this header."""
    if all(task.module.reference(path) == course.INCLUDE / path for path in task.module.files()):
        return []
    student = library_header(task, folder / place_of(task, "library-header"))
    library = shop.check(task, student, device=device, name=place_of(task, "library"), clean=not task.bodies)
    return [(f"{task.id} passes with the library's header", library.passed, f"{library.stage}: {library.text}")]


def prove_wrong(task, device, folder, shop, name, texts):
    """[(name, good, why, message of the check)]: the check of the task fails for a wrong answer."""
    wrong = check_headers(task, device, folder, shop, name, texts)
    good = wrong.stage in ("failed", "crash", "time")
    row = (f"{task.id} rejects: {name}", good, f"{wrong.stage}: {wrong.text}")
    return [(*row, wrong.text) if good and wrong.stage == "failed" else row]


def prove_speed(task, device, folder, shop):
    """[(name, good, why)]: the solution earns the speed points; slow answers pass the check and do not earn them. CPU tasks are
    only run, because times are not judged here."""
    module, rows, cpu = task.module, [], task.device == "cpu"
    counted = "counted" in task.speed

    def measured(name, texts):
        """(good, why). `good`: for a CUDA task, whether the points are earned; for a CPU task, whether the program prints times;
        None if the measurement failed."""
        place = place_of(task, name)
        student = [headers(folder / f"speed-{place}", module, texts)]
        verdict = shop.check(task, student, device=device, name=f"speed-{place}")
        rows.append((f"{task.id} {name} passes the check", verdict.passed, f"{verdict.stage}: {verdict.text}"))
        try:
            if cpu:
                lines = speed.prepared(shop, task, student, [], "cpu", place)()
                return all(l["seconds"] > 0 and l["bytes"] > 0 for w, l in lines.items() if w != "limit"), f"{lines}"
            judged = speed.judge(task.speed, device, speed.measure(shop, task, student, [], device, place))
            return speed.earned(task.speed, judged) > 0, "; ".join(f"{j['what']} {j['value']:.2f}, at most {j['limit']}" for j in judged)
        except course.CourseError as problem:
            return None, str(problem)

    rule_good = task.speed["points"] > 0 and ("of_library" in task.speed or "of_limit" in task.speed) and counted != cpu
    rows.append((f"{task.id} has a rule for its speed", rule_good, f"{task.speed}"))
    good, why = measured("solution", {})
    rows.append((f"{task.id} solution {'runs and is timed' if cpu else 'earns its speed points'}", good, why))
    slow = module.wrong_answers(task, "slow") if not cpu or (module.folder / "slow" / f"{task.slug}.txt").exists() else []
    rows.append((f"{task.id} has slow answers", cpu or len(slow) >= 2, f"{len(slow)}"))
    for name, texts, _ in slow:
        good, why = measured(name, texts)
        rows.append((f"{task.id} too slow: {name}" if not cpu else f"{task.id} timed: {name}", good == cpu, why))
        if not cpu:
            rows[-1] += (why,)
    return rows


def prove_whole(modules, device, folder, shop):
    """[(name, good, why)]: every check passes with a library that is compiled with the solutions of all modules."""
    for module in modules:
        headers(folder / "whole", module, {})
    rows = []
    for task in (t for m in modules for t in m.tasks):
        verdict = shop.check(task, [folder / "whole"], device=device, clean=True, name="whole")
        rows.append((f"{task.id} passes with a library of all solutions", verdict.passed, f"{verdict.stage}: {verdict.text}"))
    return rows


# Folders of include/tinytorch that each module adds. A release up to a module has the folders of the modules up to it.
ADDED = {"01": ["core", "backend", "tensor"], "02": ["autograd"], "03": ["io", "data", "layers"], "04": ["kv_cache", "transformer"],
         "05": ["benchmarking", "profiling"], "06": ["acceleration"], "07": ["quantization"], "08": ["pruning"],
         "09": ["serving"]}


def prove_prefix(module):
    """[(name, good, why)]: the module builds if only the modules up to it are released. Its checks, and the parts of the library
    that they link, include no file of a later module. (CUDA tasks are left out: all kernels are in folders of module 01.)"""
    present = {name for number, names in ADDED.items() for name in names if number <= module.number}
    rows = []
    for task in (t for t in module.tasks if t.device == "cpu"):
        folders = [course.INCLUDE / "tinytorch" / f for part in task.needs for f in course.PARTS[part]]
        own = [task.check, course.INCLUDE / task.header, course.MODULES / "support" / "precompiled.hpp"]
        files = lints.reached(own + sorted(h for f in folders for h in f.rglob("*.hpp")), (course.INCLUDE, course.MODULES))
        later = [f"{path} (included by {by or 'the compiled library'})" for path, by in files.items()
                 if course.INCLUDE in path.parents and path.relative_to(course.INCLUDE).parts[1] not in present]
        rows.append((f"{task.id} needs no file of a later module", not later, "\n".join(later)))
    return rows


def rows_of(job):
    """The rows of a job; an exception in a job is a failure, and the other jobs still count."""
    try:
        return job.result()
    except Exception:
        return [("the test of the course has no exception", False, traceback.format_exc())]


def wrong_answers(tasks, options):
    """[(task, name, texts)] of the wrong answers to test: all, or --wrong of each task, chosen at random with --draw as the seed."""
    draw = random.Random(options.draw)
    chosen = []
    for task in tasks:
        answers = [(task, name, texts) for name, texts, silent in task.module.wrong_answers(task)
                   if not (silent and options.device == "cuda")]
        chosen += answers if options.wrong is None else draw.sample(answers, min(options.wrong, len(answers)))
    return chosen


def chosen_tasks(modules, options):
    tasks = [t for m in modules for t in m.tasks if options.device == "sim" or t.device == "cuda"]
    return [t for t in tasks if not options.only or any(
        o in (t.id, t.slug, t.module.number) or t.id.startswith(o + ".") for o in options.only)]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", action="append", default=[])
    options.add_argument("--device", choices=("sim", "cuda"), default="sim")
    options.add_argument("--tasks", action="store_true", help="only starters, solutions and wrong answers")
    options.add_argument("--answers", action="store_true", help="only wrong answers")
    options.add_argument("--migrated", nargs="?", const=-1, type=int, metavar="N", help="files of the last version, of all tasks or of N")
    options.add_argument("--library", action="store_true", help="only the library's headers, speed points, and all solutions together")
    options.add_argument("--speed", action="store_true", help="only speed points")
    options.add_argument("--wrong", type=int, metavar="N", help="only N wrong answers of each task")
    options.add_argument("--draw", default="", metavar="WORD", help="seed of random choices")
    options.add_argument("--show", action="store_true", help="print the message of the check for each wrong answer")
    options.add_argument("--build", default=str(ROOT / "build" / "course"))
    options.add_argument("--fresh", action="store_true", help="use other random numbers in every run, as for students")
    options = options.parse_args()
    if not options.fresh:  # a fixed seed, so that rare random values in hundreds of programs do not fail an unrelated change
        os.environ.setdefault("TT_SEED", "20260101")
    everything = not (options.tasks or options.answers or options.library or options.speed or options.migrated)
    shop = course.Workshop(options.build, tools.call, common=course.COMMON)
    modules = course.Course().modules
    tasks = chosen_tasks(modules, options)
    # The folder has a fixed name, not a temporary one, so that the compiler cache finds objects of an earlier run.
    folder = Path(options.build) / "students"
    shutil.rmtree(folder, ignore_errors=True)
    jobs = []
    with ThreadPoolExecutor(max_workers=shop.jobs) as pool:
        def submit(proof, task, *more):
            jobs.append(pool.submit(proof, task, options.device, folder, shop, *more))

        if (options.library or everything) and not options.only and options.device == "sim":  # the longest job first
            with_tasks = [m for m in modules if m.tasks]
            submit(prove_whole, with_tasks)
            jobs.extend(pool.submit(prove_prefix, m) for m in with_tasks)
        for task in tasks:
            if options.tasks or everything:
                submit(prove_task, task)
            if options.library or everything:
                submit(prove_library, task)
            if task.speed and options.device == "sim" and (options.speed or options.library or everything):
                submit(prove_speed, task)
        if options.migrated or everything:
            left = migrate_all(modules, folder / "migrated")
            chosen = [t for t in tasks if t.id in left]
            if (options.migrated or 0) > 0:
                chosen = random.Random(options.draw).sample(chosen, min(options.migrated, len(chosen)))
            for task in chosen:
                jobs.append(pool.submit(prove_migrated, task, options.device, folder / "migrated", shop, left[task.id]))
        if options.tasks or options.answers or everything:
            for task, name, texts in wrong_answers(tasks, options):
                submit(prove_wrong, task, name, texts)
        for job in jobs:
            for name, good, why, *said in rows_of(job):
                report(name, good, why)
                if options.show and said:
                    print("\n".join("  | " + line for line in said[0].splitlines()))
    if not tasks:
        report("there are tasks", False, "the options choose no task")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
