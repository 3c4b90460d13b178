"""Mutations of the solutions: small mistakes that a check must reject. Each mutant is a solution with one change in one of the functions
that a student writes: a type of half the width, a bound off by one, another comparison or operator, swapped operands, a guard or a
statement that is missing, another constant. The list is the same for the same text, and `--draw` is the seed of the choice.

  python3 tests/course/mutate.py --only 1.1              every mutant of one task, or of a module
  python3 tests/course/mutate.py --only 01 --limit 5     five mutants of each task of module 01
  python3 tests/course/mutate.py --only 1.1 --list       shows the mutants, and builds nothing
  python3 tests/course/mutate.py --proven --limit 2      only the tasks in equal_mutants.json, whose survivors are all explained

A mutant that does not compile is not counted. A mutant that no check can reject, for example because it computes the same results, is in
equal_mutants.json with the reason. Prints `not ok - ` for each other survivor of a task in that file, and `survived - ` for those of other tasks.
Exits with 1 if there was a `not ok`, or if less than 95 % of the mutants of such a task were killed or explained.
"""
import argparse
import json
import os
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "modules"))
import course
import starters
import tools

EXPLAINED = Path(__file__).with_name("equal_mutants.json")
SHARE = 0.95  # of the mutants of a task that must be killed or explained

# Comments, strings and preprocessor lines are not mutated.
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^[ \t]*#[^\n]*', re.S | re.M)
PLACE = r"[\w.:]+(?:\[[^\[\]]*\]|\([^()]*\))?"  # a name, an element, or a call without inner parentheses

# (kind, pattern, replacements). Spaces around `<` and `>` tell comparisons from template arguments: the files are formatted.
RULES = [
    ("type", r"\bint64_t\b(?! kExact)", ["int32_t"]),
    ("type", r"\bsize_t\b", ["uint16_t"]),
    ("type", r"\bdouble\b", ["float"]),
    ("comparison", r" < ", [" <= ", " > "]),
    ("comparison", r" > ", [" >= ", " < "]),
    ("comparison", r" <= ", [" < "]),
    ("comparison", r" >= ", [" > "]),
    ("comparison", r" == ", [" != "]),
    ("comparison", r" != ", [" == "]),
    ("operator", r" && ", [" || "]),
    ("operator", r" \|\| ", [" && "]),
    ("operator", r"(?<=[\w)\]]) \+ (?=[\w(*-])", [" - "]),
    ("operator", r"(?<=[\w)\]]) - (?=[\w(*-])", [" + "]),
    ("operator", r"(?<=[\w)\]]) \* (?=[\w(-])", [" + "]),
    ("operator", r"(?<=[\w)\]]) / (?=[\w(-])", [" * "]),
    ("operator", r" \+= ", [" = ", " -= "]),
    ("operator", r" \*= ", [" = "]),
    ("constant", r"(?<![\w.])\d+(?![\w.])", ["+1", "-1"]),
    ("constant", r"(?<![\w.])\d+\.\d*(?:[eE][+-]?\d+)?(?![\w.])", ["*2"]),
    ("constant", r"\btrue\b", ["false"]),
    ("constant", r"\bfalse\b", ["true"]),
    ("constant", r"\binfinity\(\)", ["max()"]),
    ("bound", r"(?<= [<>] )(?!\d)" + PLACE + r"(?=; )", [" - 1", " + 1"]),
    ("bound", r"(?<= [<>]= )(?!\d)" + PLACE + r"(?=; )", [" - 1", " + 1"]),
    ("guard", r"(?<=\bif \()(?=[^()])", ["true || ", "false && "]),
    ("statement", r"^[ ]+(?:__syncthreads\(\)|continue|break|[\w.:\[\]\->]+(?: [+*|-]?= |\()[^;{}\n]*);$", [";"]),
    ("guard", r"^[ ]+if \([^\n]*\) (?:return|continue|break|fail)\b[^;{}\n]*;$", [";"]),
]
SWAPPED = re.compile(rf"(?<![\w.\])] )(?<![\w.])({PLACE}) (-|/|%|<|<=|>|>=) ({PLACE})(?![\w.(\[])")


class Mutant(NamedTuple):
    kind: str
    function: str
    line: int
    old: str     # the line as it is, and as it is in the mutant; both are what equal_mutants.json names
    new: str
    text: str

    @property
    def key(self):
        return f"{self.function}: {self.old} -> {self.new}"


def blank(text):
    return NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def changed(kind, old, how):
    if kind == "constant" and how in ("+1", "-1"):
        return str(int(old) + (1 if how == "+1" else -1))
    if kind == "constant" and how == "*2":
        return repr(2 * float(old)) if float(old) else "1.0"
    if kind == "bound":
        return old + how
    return how


def edits(code, begin, end):
    """(kind, start, stop, replacement) of each mutation between two positions of a text without comments."""
    for kind, pattern, ways in RULES:
        for found in re.compile(pattern, re.M).finditer(code, begin, end):
            for how in ways:
                yield kind, found.start(), found.end(), changed(kind, found.group(), how)
    for found in SWAPPED.finditer(code, begin, end):
        left, sign, right = found.groups()
        if left != right and left not in ("return", "case"):
            yield "swapped", found.start(), found.end(), f"{right} {sign} {left}"


def line_at(text, position):
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return " ".join(text[begin:end if end >= 0 else len(text)].split())


def mutants(task):
    """All mutants of the functions of a task, in the order of the text. Two rules may give the same text: it counts once."""
    text = task.module.whole(task.path)
    code, found, seen = blank(text), [], {text}
    for name in task.write:
        _, brace, stop = starters.definition(text, name)
        for kind, begin, end, new in edits(code, brace + 1, stop):
            mutated = text[:begin] + new + text[end:]
            if mutated not in seen:
                seen.add(mutated)
                found.append(Mutant(kind, name, text.count("\n", 0, begin) + 1, line_at(text, begin), line_at(mutated, begin), mutated))
    return sorted(found, key=lambda m: (m.line, m.kind, m.new))


def chosen(task, limit, draw):
    """All mutants, or `limit` of them, drawn by a seed that is the task's own."""
    every = mutants(task)
    if limit is None or limit >= len(every):
        return every
    picked = random.Random(f"{draw}:{task.id}").sample(range(len(every)), limit)
    return [every[i] for i in sorted(picked)]


def fate(task, mutant, number, folder, shop):
    """"killed", "survived" or "does not compile"."""
    place = folder / f"{task.module.number}-{task.slug}-{number}"
    for path in task.module.files():
        course.write_whole(place / path, mutant.text if path == task.path else task.module.whole(path))
    verdict = shop.check(task, [place], device="sim", name=f"mutant-{number}", seconds=20)
    if verdict.stage == "compile":
        return "does not compile"
    return "survived" if verdict.passed else "killed"


def explained(path=EXPLAINED):
    return json.loads(path.read_text(encoding="utf-8"))


def summary(task, fates, reasons):
    """(lines, good) for the outcomes [(mutant, fate)] of a task. `reasons`: its entry in equal_mutants.json, or None."""
    counted = [(m, f) for m, f in fates if f != "does not compile"]
    alive = [m for m, f in counted if f == "survived"]
    open_ones = [m for m in alive if m.key not in (reasons or {})]
    mark = "survived - " if reasons is None else "not ok - "
    lines = [f"{mark}{task.id} line {m.line}, {m.kind}, in {m.key}" for m in open_ones]
    killed, settled = len(counted) - len(alive), len(counted) - len(open_ones)
    share = settled / len(counted) if counted else 1.0
    text = (f"{task.id} {task.title}: {killed} of {len(counted)} mutants killed, {len(alive) - len(open_ones)} explained, "
            f"{len(open_ones)} survived ({100 * share:.0f} %), {len(fates) - len(counted)} do not compile")
    good = reasons is None or (not open_ones and share >= SHARE)
    return lines + [("ok - " if good else "not ok - ") + text], good


def selected(tasks, options, reasons):
    picked = [t for t in tasks if not options.only or any(
        o in (t.id, t.slug, t.module.number) or t.id.startswith(o + ".") for o in options.only)]
    return [t for t in picked if t.id in reasons] if options.proven else picked


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", action="append", default=[], metavar="TASK")
    options.add_argument("--limit", type=int, metavar="N", help="only N mutants of each task")
    options.add_argument("--draw", default="", metavar="WORD", help="seed of the choice")
    options.add_argument("--kind", action="append", default=[], help="only mutations of this kind")
    options.add_argument("--proven", action="store_true", help="only the tasks whose survivors are all explained")
    options.add_argument("--list", action="store_true", help="only show the mutants")
    options.add_argument("--build", default=str(ROOT / "build" / "course"))
    options = options.parse_args()
    os.environ.setdefault("TT_SEED", "20260101")
    reasons, failed = explained(), False
    tasks = selected(course.Course().tasks, options, reasons)
    if not tasks:
        print("not ok - the options choose no task")
        return 1
    shop = course.Workshop(options.build, tools.call, common=course.COMMON)
    folder = Path(options.build) / "mutants"
    with ThreadPoolExecutor(max_workers=shop.jobs) as pool:
        for task in tasks:
            batch = [m for m in chosen(task, options.limit, options.draw) if not options.kind or m.kind in options.kind]
            if options.list:
                print("\n".join(f"{task.id} line {m.line}, {m.kind}, in {m.key}" for m in batch))
                continue
            fates = list(pool.map(lambda job: (job[1], fate(task, job[1], job[0], folder, shop)), enumerate(batch)))
            lines, good = summary(task, fates, reasons.get(task.id))
            failed = failed or not good
            print("\n".join(lines), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
