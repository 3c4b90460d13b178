"""Times of the suite. tests/times.json holds, for each stage, the seconds and processor seconds of its last measured run, split
into compiling, linking and running, and the translation units and tests that take the most processor time. tests/README.md
shows them.

  modules/tt test --times cold      in a fresh clone: measures with an empty compiler cache
  modules/tt test --times warm      in another fresh clone: measures with the cache that the first run filled
  modules/tt test --only STAGE --times cold

Such a run replaces the rows of its stages and writes tests/README.md again.
"""
import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from course import Course, write_whole
from tools import ROOT, SetupProblem, program_version

RECORD, PAGE = ROOT / "tests" / "times.json", ROOT / "tests" / "README.md"
COMPILERS = ("g++", "c++", "clang++", "nvcc")
UNKNOWN = 240.0  # assumed seconds of a stage that was not measured yet
KEPT = 12  # the record keeps so many units and tests of a stage, those that take the most processor time
FOLDER_SECONDS = 90  # on two cores: limit of the first ring for the tests and tasks of one folder of the library
# Folders without this limit: the kernels, which all other folders call, and the judge, whose tests run matches.
OTHER_FOLDERS = ("backend", "tinymlperf")


def record():
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"stages": {}}


def usual_seconds(stage):
    """The seconds of a stage with an empty compiler cache on two cores. For a stage that was measured on more than two, half of
    its processor seconds."""
    row = record()["stages"].get(stage, {}).get("cold")
    if not row:
        return UNKNOWN
    return row["seconds"] if row.get("threads", 2) <= 2 else row["processor"] / 2


@contextlib.contextmanager
def recording(how, tally):
    """Measures the run inside the block. `how` is "cold", "warm", or None, which records nothing."""
    if not how:
        yield
        return
    if (ROOT / "build").exists():
        raise SetupProblem("--times measures a run in a fresh clone, but this folder has build/, whose objects would not be compiled "
                           "again.\n  git clone this folder to another one, and measure there")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tinytorch" / "times"
    if how == "cold":
        shutil.rmtree(cache, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        for name in COMPILERS:
            if path := shutil.which(name):
                shim = Path(folder, "bin", name)
                shim.parent.mkdir(exist_ok=True)
                shim.write_text(f'#!/bin/sh\nexec {sys.executable} -SE {ROOT}/tests/suite/timed.py {log} {path} "$@"\n')
                shim.chmod(0o755)
        kept = dict(os.environ)
        os.environ.update(PATH=f"{folder}/bin:{kept['PATH']}", XDG_CACHE_HOME=str(cache), CCACHE_DIR=str(cache / "ccache"),
                          CCACHE_PATH=f"{folder}/bin:/usr/bin")
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(kept)
            write(how, tally, [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else [])


def write(how, tally, units):
    """Replaces the rows of the stages that ran."""
    document = record()
    document["machine"] = machine()
    for stage in tally.stages:
        own = [u for u in units if u["stage"] == stage["stage"]]
        compiling, linking = (sum(u["processor"] for u in own if u["kind"] == kind) for kind in ("compile", "link"))
        running = max(0.0, stage["processor_seconds"] - compiling - linking)
        row = {"seconds": stage["seconds"], "threads": len(os.sched_getaffinity(0)), "checks": stage["passed"] + stage["failed"],
               "processor": stage["processor_seconds"],
               "compiling": round(compiling, 1), "linking": round(linking, 1), "running": round(running, 1),
               "units": largest((shown(u["unit"]), u["processor"]) for u in own if u["kind"] == "compile"),
               "tests": largest((what, processor) for s, what, _, processor in tally.programs if s == stage["stage"]),
               "folders": by_folder([(u["unit"], u["processor"]) for u in own] +
                                 [(what, processor) for s, what, _, processor in tally.programs if s == stage["stage"]])}
        document["stages"].setdefault(stage["stage"], {})[how] = row
    write_whole(RECORD, json.dumps(document, indent=1, sort_keys=True) + "\n")
    write_whole(PAGE, page(document))


def largest(costs):
    """{name: processor seconds} of the KEPT largest costs. Costs with the same name are added."""
    total = {}
    for name, cost in costs:
        total[name] = total.get(name, 0.0) + cost
    return {name: round(total[name], 1) for name in sorted(total, key=lambda n: -total[n])[:KEPT] if total[name] >= 0.5}


def shares_of(unit):
    """{folder below tests/: its share of the lines} of a generated unit, which includes the test files of one or more folders."""
    path, lines = Path(unit), {}
    text = path.read_text(encoding="utf-8") if path.parent.name == "generated" and path.is_file() else ""
    for folder, name in re.findall(r"^#include <(\w+)/(.+\.cpp)>$", text, re.M):
        source = ROOT / "tests" / folder / name
        lines[folder] = lines.get(folder, 0) + (source.read_text(encoding="utf-8").count("\n") if source.is_file() else 0)
    return {folder: count / sum(lines.values()) for folder, count in lines.items() if count}


def by_folder(costs):
    """{folder: processor seconds} of units and tests. The folder of a unit is its folder below tests/, or the name of the module
    whose task it compiles. The cost of a unit of several folders is divided by their lines."""
    tasks = {task.slug: module.id[3:] for module in Course().modules for task in module.tasks}
    total = {}
    for what, cost in costs:
        shares = shares_of(what)
        for folder, share in shares.items():
            total[folder] = total.get(folder, 0.0) + cost * share
        if shares:
            continue
        found = re.search(r"modules/\d\d_([a-z_]+)/|generated/test_(kv_cache|[a-z]+)|^test_(kv_cache|[a-z]+)", what)
        kernel = re.search(r"course/generated/(\w+)\.", what)
        folder = next(filter(None, found.groups())) if found else tasks.get(kernel[1]) if kernel else None
        if folder:
            total[folder] = total.get(folder, 0.0) + cost
    return {folder: round(cost, 1) for folder, cost in total.items()}


def first_ring_by_folder(document):
    """{folder: processor seconds} of the first ring, with an empty compiler cache."""
    from suite import rings
    total = {}
    for name in rings.FIRST:
        for folder, cost in document["stages"].get(name, {}).get("cold", {}).get("folders", {}).items():
            total[folder] = total.get(folder, 0.0) + cost
    return total


def shown(unit):
    path = Path(unit)
    if path.is_relative_to(ROOT):
        return str(path.relative_to(ROOT))
    return "a file of a temporary folder" if path.is_absolute() else unit


def machine():
    model = next((l.partition(":")[2].strip() for l in Path("/proc/cpuinfo").read_text().splitlines()
                  if l.startswith("model name")), "an unknown processor")
    return f"{len(os.sched_getaffinity(0))} threads of {model}, g++ {program_version('g++')}, clang++ {program_version('clang++')}"


# --- The page -----------------------------------------------------------------------------------------------------

HEAD = """# Tests

`modules/tt test` runs the first ring: every kind of test, meant for twenty minutes on two cores, or for eight if the compiler
cache is warm. The tables below show the measured times. Other commands are:

| command | runs |
|---|---|
| `modules/tt test PATH...` | the tests of these files |
| `modules/tt test --changed` | the tests of the files that git reports as changed |
| `modules/tt test --only STAGE` | one stage of the tables below |
| `modules/tt test --all` | both rings |
| `modules/tt test --slice K/N` | part K of both rings, for N machines |

A ring is a set of stages. The hash of the commit also chooses one stage of the second ring at random; the first ring runs it
until its time is over. A run prints the stages that it left out and the command that runs them.

This page is generated. `modules/tt test --times cold` in a fresh clone, and then `--times warm` in another one, measure their
stages with a compiler cache of their own and write the page. A stage without numbers has not been measured yet.
Last measured on MACHINE.

"""


def page(document):
    from suite import rings
    out = [HEAD.replace("MACHINE", document.get("machine", "no machine"))]
    for title, names in (("The first ring", rings.FIRST), ("The second ring", rings.SECOND)):
        out.append(f"## {title}\n\n| stage | what it tests | checks |\n|---|---|---:|\n")
        for name in names:
            checks = next((row["checks"] for row in document["stages"].get(name, {}).values()), "")
            out.append(f"| `{name}` | {' '.join(rings.STAGES[name].__doc__.split())} | {checks} |\n")
        out.append("\n")
    out.append("## Times\n\nThe columns cold and warm are elapsed seconds with an empty and with a warm compiler cache. The three columns "
               "to the right\nof each are processor seconds of compiling, linking and running.\n\n| stage | threads | cold | compiling | linking | running | warm | "
               "compiling | linking | running |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
    for name in rings.STAGES:
        rows = [document["stages"].get(name, {}).get(how) for how in ("cold", "warm")]
        cells = [f"{row[key]:.0f}" if row else "" for row in rows for key in ("seconds", "compiling", "linking", "running")]
        if any(rows):
            threads = next(row.get("threads", 2) for row in rows if row)
            out.append(f"| `{name}` | {threads} | {' | '.join(cells)} |\n")
    others = " and ".join(f"`{folder}`" for folder in OTHER_FOLDERS)
    out.append(f"\n## The first ring by folder\n\nProcessor seconds of the tests and tasks of each folder of the library, with an empty compiler "
               f"cache. The limit is\n{2 * FOLDER_SECONDS}, which two cores use in {FOLDER_SECONDS} seconds; {others} have no limit.\n\n"
               "| folder | processor seconds |\n|---|---:|\n")
    for folder, cost in sorted(first_ring_by_folder(document).items(), key=lambda item: -item[1]):
        out.append(f"| `{folder}` | {cost:.0f} |\n")
    for key, title in (("units", "translation units"), ("tests", "tests")):
        out.append(f"\n## The longest {title}\n\nProcessor seconds of the {title} that take the most, with an empty compiler cache.\n\n| stage | {title[:-1]} | "
                   "seconds |\n|---|---|---:|\n")
        for name in rings.STAGES:
            costs = document["stages"].get(name, {}).get("cold", {}).get(key, {})
            for what, seconds in sorted(costs.items(), key=lambda cost: (-cost[1], cost[0])):
                out.append(f"| `{name}` | `{what}` | {seconds} |\n")
    return "".join(out)
