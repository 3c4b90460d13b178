"""Three rings of tests, from the smallest to all. Each has a time limit.

  modules/tt test PATH...      the tests of these files (inner.py), a minute; --changed: the files that git reports as changed
  modules/tt test              the first ring, meant for twenty minutes on two cores, eight with a warm compiler cache
  modules/tt test --all        both rings, meant for ninety minutes; --slice K/N: a part of them, for N machines

The first ring contains every kind of test. The tests that it leaves out are stages of the second ring. The hash of the commit
chooses one of these stages at random, and the first ring runs it until its time is over. A run prints the stages that it left
out and the command that runs them.
"""
import contextlib
import difflib
import math
import os
import random
import re
import signal
import threading
import time

import notebook
from course import Course
from suite import builds, checkers, inner, programs, times, unit_tests
from suite.counting import Cut, Tally
from tools import BAD, CORES, FAIL, GOOD, PASS, SetupProblem, running, set_up, stop

MODULES = tuple(m.number for m in Course().modules if m.tasks)

# The quickest stages come first. `readme` comes before `notebook`, because it runs the race whose results a notebook reads.
FIRST = {"format": checkers.stage_format, "hygiene": checkers.stage_hygiene, "tests": unit_tests.stage_tests,
         "course": checkers.stage_course, "python": checkers.stage_python, "readme": programs.stage_readme,
         "consumer": checkers.stage_consumer, "notebook": programs.stage_notebook}
SECOND = {"headers": checkers.stage_headers, "emulator": unit_tests.stage_emulator, "matches": unit_tests.stage_matches,
          "optimized": unit_tests.stage_optimized, **{f"clang-{part}": unit_tests.stage_clang(part) for part in unit_tests.CLANG_PARTS},
          "fuzz": unit_tests.stage_fuzz, **{f"cuda-{a}": unit_tests.stage_cuda(a) for a in builds.CUDA},
          **{f"answers-{m}": checkers.stage_answers(m) for m in MODULES}, "mutants": checkers.stage_mutants,
          "library": checkers.stage_library,
          "commands": checkers.stage_commands, "lessons": checkers.stage_lessons, "milestones": checkers.stage_milestones,
          "packaging": checkers.stage_packaging, "run": programs.stage_run, "examples": programs.stage_examples,
          "server": checkers.stage_server, "browser": checkers.stage_browser,
          "notebooks": programs.stage_notebooks}
STAGES = {**FIRST, **SECOND}

MINUTES_AT_MOST = 87  # of a run; a caller may end it after 90, and would then see no result
FIRST_SECONDS = 1170  # of the first ring, which takes at most twenty minutes
SLICE_SECONDS, SLICE_SHARE = 300, 0.25  # limits of the randomly chosen stage: seconds, and share of the time before it


@contextlib.contextmanager
def limit(seconds):
    """Raises Cut inside the block after so many seconds. Of nested limits, the earlier one counts."""
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
    """The stages of slice K of N. The longest stages are assigned first, each to the slice with the least time so far."""
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
    """The names of the stages that these options select."""
    unknown = [s for s in (options.only or []) + options.skip if s not in STAGES]
    if unknown:
        near = difflib.get_close_matches(unknown[0], STAGES, 3, 0.6)
        raise SetupProblem(f"there is no stage named {', '.join(unknown)}" + (f"; did you mean {', '.join(near)}?" if near else "")
                           + f"\n  the stages are {', '.join(STAGES)}")
    names = options.only or list(STAGES if options.all or options.slice else FIRST)
    names = part_of(names, options.slice) if options.slice else names
    return [s for s in names if s not in options.skip]


def run_stage(tally, name, seconds=math.inf):
    """Runs one stage and records its result. Returns whether the run continues. The stage is stopped after `seconds`, which is
    no failure."""
    console = tally.console
    console.say(f"{name} \u2026")
    before, began, processor = tally.counts(), time.monotonic(), processor_seconds()
    tally.stage, tally.ends, going = name, began + seconds, True
    os.environ["TT_STAGE"] = name  # timed.py logs the name with the processor time of each compiler
    try:
        with limit(seconds) if seconds < math.inf else contextlib.nullcontext():
            STAGES[name](tally)
    except Cut:
        if time.monotonic() < tally.ends - 2:  # the limit of the whole run
            tally.check(False, name, f"    the stage was stopped: the run may take {MINUTES_AT_MOST} minutes")
            going = False
        else:
            tally.skip(1, f"the rest of {name}", f"stopped after {seconds:.0f} s: modules/tt test --only {name}")
    except KeyboardInterrupt:
        going = False
    except (OSError, ValueError, KeyError) as problem:  # an exception is a failure of this stage; the others still run
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
    """Runs one randomly chosen stage of the second ring until the time of the first ring is over."""
    name = random.Random(builds.commit()).choice(list(SECOND))
    seconds = min(SLICE_SECONDS, SLICE_SHARE * tally.seconds(), FIRST_SECONDS - tally.seconds())
    if seconds < 5:
        tally.skip(1, name, f"chosen at random, but no time is left: modules/tt test --only {name}")
        return True, name
    tally.console.say(f"{name}, chosen at random from the second ring, runs for at most {seconds:.0f} s:")
    return run_stage(tally, name, seconds), name


def processor_seconds():
    """Processor seconds of this process and of all children that ended. Other programs on the machine do not change it."""
    return sum(os.times()[:4])


def say_times(console, tally):
    console.say(f"\n{'stage':<14}{'passed':>8}{'failed':>8}{'seconds':>9}{'processor':>11}")
    total = {key: sum(s[key] for s in tally.stages) for key in ("passed", "failed", "seconds", "processor_seconds")}
    for row in tally.stages + [dict(total, stage="all")]:
        console.say(f"{row['stage']:<14}{row['passed']:>8}{row['failed']:>8}{row['seconds']:>9.0f}"
                    f"{row['processor_seconds']:>11.0f}")
    longest = sorted(tally.programs, key=lambda p: -p[3])[:10]
    if longest:
        console.say("\nthe ten tests with the most processor seconds: " +
                    ", ".join(f"{what} {processor:.1f}" for _, what, _, processor in longest))
    console.say()


def say_if_long(console, names):
    """Says before a run that it would be stopped at the time limit, and how to run it in parts."""
    minutes = sum(times.usual_seconds(name) for name in names) / 60 * 2 / max(2, CORES)
    if minutes > MINUTES_AT_MOST:
        parts = math.ceil(minutes / (MINUTES_AT_MOST - 10))
        console.say(f"this takes about {minutes:.0f} minutes on {CORES} cores with an empty compiler cache, and is stopped after "
                    f"{MINUTES_AT_MOST};\n  modules/tt test --all --slice 1/{parts} to {parts}/{parts} are {parts} shorter runs\n")


def say_left_out(console, ran):
    left = [name for name in STAGES if name not in ran]
    if left:
        console.say("not part of this run: " + ", ".join(left) +
                    "\n  modules/tt test --only NAME runs one, modules/tt test --all runs everything\n")


def run(console, options):
    if options.paths or options.changed:
        return inner.run(console, options)
    names = chosen(options)
    tally = Tally(console, names)  # before set_up, because the time limit includes installation
    first_ring = names == list(FIRST) and not options.only
    if not options.only:
        say_if_long(console, names)
    set_up(console, "test", not options.no_install)
    going = True
    with times.recording(options.times, tally), limit(60 * MINUTES_AT_MOST - tally.seconds()) if not options.only \
            else contextlib.nullcontext():
        if first_ring:  # the download waits for the network while the first stages run
            threading.Thread(target=notebook.packages, daemon=True).start()
        for name in names:
            going = going and run_stage(tally, name)
        if going and first_ring and not options.skip:
            going, drawn = run_slice(tally)
            names = [*names, drawn]
    console.result({"command": "test", "passed": tally.passed, "failed": tally.failed, "skipped": tally.skipped,
                    "stages": tally.stages, "interrupted": not going, "seconds": round(tally.seconds(), 1)})
    say_times(console, tally)
    for reason in tally.reasons:  # again, because many read only the end of a long log
        console.say("\n".join(reason.splitlines()[:12]) + "\n")
    say_left_out(console, names)
    if not going:
        console.say("interrupted: the other stages were not run")
    if tally.skipped:
        console.say(f"{tally.skipped} skipped, for the reasons above")
    console.say(tally.line())
    return FAIL if not going or tally.failed or not tally.passed else PASS
