"""Three rings of tests around every change. Each has a time limit.

  modules/tt test PATH...      the tests of these files (inner.py): a minute; --changed: of the files that git reports as changed
  modules/tt test              the first ring, meant for twenty minutes on two cores, eight with a warm compiler cache
  modules/tt test --all        both rings, meant for ninety minutes; --slice K/N: a part of them, for N machines

The first ring contains every kind of test. All that it leaves out is a stage of the second ring. The commit draws one of these
stages, which the first ring runs for as long as there is time. A run prints the stages that it left out, each with its command.
"""
import contextlib
import math
import os
import random
import re
import signal
import threading
import time

from course import Course
from suite import builds, checkers, inner, programs, times, unit_tests
from suite.counting import Cut, Tally
from tools import BAD, CORES, FAIL, GOOD, PASS, SetupProblem, running, set_up, stop

MODULES = tuple(m.number for m in Course().modules if m.tasks)

# What is quick first. `readme` runs the main job, whose numbers the notebook reads.
FIRST = {"format": checkers.stage_format, "hygiene": checkers.stage_hygiene, "tests": unit_tests.stage_tests,
         "course": checkers.stage_course, "python": checkers.stage_python, "readme": programs.stage_readme,
         "consumer": checkers.stage_consumer, "notebook": programs.stage_notebook}
SECOND = {"headers": checkers.stage_headers, "emulator": unit_tests.stage_emulator, "matches": unit_tests.stage_matches,
          "optimized": unit_tests.stage_optimized, **{f"clang-{part}": unit_tests.stage_clang(part) for part in unit_tests.CLANG_PARTS},
          "fuzz": unit_tests.stage_fuzz, **{f"cuda-{a}": unit_tests.stage_cuda(a) for a in builds.CUDA},
          **{f"answers-{m}": checkers.stage_answers(m) for m in MODULES}, "library": checkers.stage_library,
          "commands": checkers.stage_commands, "lessons": checkers.stage_lessons, "milestones": checkers.stage_milestones,
          "packaging": checkers.stage_packaging, "examples": programs.stage_examples, "browser": checkers.stage_browser,
          "notebooks": programs.stage_notebooks}
STAGES = {**FIRST, **SECOND}

MINUTES_AT_MOST = 87  # whoever waits for a run ends it after 90, and would see no result at all
FIRST_SECONDS = 1170  # of the first ring, which is to take at most twenty minutes
SLICE_SECONDS, SLICE_SHARE = 300, 0.25  # of the drawn stage: at most so long, and such a part of the time before it


@contextlib.contextmanager
def limit(seconds):
    """Raises Cut inside after so many seconds. Limits nest: the nearer end counts."""
    began, (before, _) = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
    own = seconds if not before else min(seconds, before)
    kept = signal.signal(signal.SIGALRM, raise_cut)
    signal.setitimer(signal.ITIMER_REAL, max(own, 0.01))
    try:
        yield
    finally:
        left = before - (time.monotonic() - began)
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.01) if before else 0)
        signal.signal(signal.SIGALRM, kept)


def raise_cut(*_):
    for child in list(running):
        stop(child)
    raise Cut


def part_of(names, text):
    """The stages of slice K of N: the dearest first, each to the slice that has least so far."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    k, n = (int(g) for g in found.groups()) if found else (0, 0)
    if not 1 <= k <= n:
        raise SetupProblem(f"--slice {text}: write K/N with 1 <= K <= N, as in --slice 1/3")
    costs, slices = [0.0] * n, [[] for _ in range(n)]
    for name in sorted(names, key=lambda name: -times.usual_seconds(name)):
        least = costs.index(min(costs))
        costs[least] += times.usual_seconds(name)
        slices[least].append(name)
    return [name for name in names if name in slices[k - 1]]


def chosen(options):
    """The names of the stages that these options ask for."""
    unknown = [s for s in (options.only or []) + options.skip if s not in STAGES]
    if unknown:
        raise SetupProblem(f"no stage named {', '.join(unknown)}; there are {', '.join(STAGES)}")
    names = options.only or list(STAGES if options.all or options.slice else FIRST)
    names = part_of(names, options.slice) if options.slice else names
    return [s for s in names if s not in options.skip]


def run_stage(tally, name, seconds=math.inf):
    """Runs one stage and records it; whether the run may go on. After `seconds` it is cut, which is no failure."""
    console = tally.console
    console.say(f"{name} \u2026")
    before, began, processor = tally.counts(), time.monotonic(), processor_seconds()
    tally.stage, tally.ends, going = name, began + seconds, True
    os.environ["TT_STAGE"] = name  # times.py notes it beside what a compiler cost
    try:
        with limit(seconds) if seconds < math.inf else contextlib.nullcontext():
            STAGES[name](tally)
    except Cut:
        if time.monotonic() < tally.ends - 2:  # the limit of the whole run
            tally.check(False, name, f"    it was stopped: {MINUTES_AT_MOST} minutes are gone")
            going = False
        else:
            tally.skip(1, f"the rest of {name}", f"it is cut after {seconds:.0f} s: modules/tt test --only {name}")
    except KeyboardInterrupt:
        going = False
    except (OSError, ValueError, KeyError) as problem:  # a stage that breaks is a failure, the others still run
        tally.check(False, name, f"    {type(problem).__name__}: {problem}")
    passed, failed, skipped = (now - then for now, then in zip(tally.counts(), before))
    taken = time.monotonic() - began
    tally.stages.append({"stage": name, "passed": passed, "failed": failed, "skipped": skipped, "seconds": round(taken, 1),
                         "processor_seconds": round(processor_seconds() - processor, 1)})
    if going and passed + failed + skipped == 0:
        going = tally.check(False, name, "    the stage checked nothing") or going
    mark = BAD if tally.failed > before[1] else GOOD if passed else "-"
    left_out = f", {skipped} skipped" if skipped else ""
    console.say(f"  {mark} {name}: {passed} passed, {tally.failed - before[1]} failed{left_out}, {taken:.0f} s")
    return going


def run_slice(tally):
    """One stage of the second ring, for as long as there is time."""
    name = random.Random(builds.commit()).choice(list(SECOND))
    seconds = min(SLICE_SECONDS, SLICE_SHARE * tally.seconds(), FIRST_SECONDS - tally.seconds())
    if seconds < 5:
        tally.skip(1, name, f"drawn by this commit, and no time is left: modules/tt test --only {name}")
        return True, name
    tally.console.say(f"of the second ring, this commit draws {name}, for {seconds:.0f} s at most:")
    return run_stage(tally, name, seconds), name


def processor_seconds():
    """Of this process and of all children that ended: what a stage costs, whatever else the machine does."""
    return sum(os.times()[:4])


def say_times(console, tally):
    console.say(f"\n{'stage':<14}{'passed':>8}{'failed':>8}{'seconds':>9}{'processor':>11}")
    total = {key: sum(s[key] for s in tally.stages) for key in ("passed", "failed", "seconds", "processor_seconds")}
    for row in tally.stages + [dict(total, stage="all")]:
        console.say(f"{row['stage']:<14}{row['passed']:>8}{row['failed']:>8}{row['seconds']:>9.0f}"
                    f"{row['processor_seconds']:>11.0f}")
    dearest = sorted(tally.programs, key=lambda p: -p[3])[:10]
    if dearest:
        console.say("\nthe ten dearest tests (processor seconds): " +
                    ", ".join(f"{what} {processor:.1f}" for _, what, _, processor in dearest))
    console.say()


def say_if_long(console, names):
    """Before anything runs: what would be stopped is better asked for in parts."""
    minutes = sum(times.usual_seconds(name) for name in names) / 60 * 2 / max(2, CORES)
    if minutes > MINUTES_AT_MOST:
        parts = math.ceil(minutes / (MINUTES_AT_MOST - 10))
        console.say(f"this takes about {minutes:.0f} minutes on {CORES} cores with an empty compiler cache, and is stopped after "
                    f"{MINUTES_AT_MOST};\n  modules/tt test --all --slice 1/{parts} to {parts}/{parts} are {parts} runs that end\n")


def say_left_out(console, ran):
    left = [name for name in STAGES if name not in ran]
    if left:
        console.say("not part of this run: " + ", ".join(left) +
                    "\n  modules/tt test --only NAME runs one, modules/tt test --all runs everything\n")


def run(console, options):
    if options.paths or options.changed:
        return inner.run(console, options)
    names = chosen(options)
    tally = Tally(console, names)  # what is installed takes of the time, too
    first_ring = names == list(FIRST) and not options.only
    if not options.only:
        say_if_long(console, names)
    set_up(console, "test", not options.no_install)
    going = True
    with times.recording(options.times, tally), limit(60 * MINUTES_AT_MOST - tally.seconds()) if not options.only \
            else contextlib.nullcontext():
        if first_ring:  # it waits for a network, beside the first stages
            threading.Thread(target=programs.notebook_packages, daemon=True).start()
        for name in names:
            going = going and run_stage(tally, name)
        if going and first_ring and not options.skip:
            going, drawn = run_slice(tally)
            names = [*names, drawn]
    console.result({"command": "test", "passed": tally.passed, "failed": tally.failed, "skipped": tally.skipped,
                    "stages": tally.stages, "interrupted": not going, "seconds": round(tally.seconds(), 1)})
    say_times(console, tally)
    for reason in tally.reasons:  # once more, where who reads only the end of a long log finds it
        console.say("\n".join(reason.splitlines()[:12]) + "\n")
    say_left_out(console, names)
    if not going:
        console.say("interrupted: the rest was not run")
    if tally.skipped:
        console.say(f"{tally.skipped} skipped, for the reasons above")
    console.say(tally.line())
    return FAIL if not going or tally.failed or not tally.passed else PASS
