"""Speed points: a task's speed program is timed, or counted by the emulator, and its rows are compared with the limits of the rule.

A rule is `"speed"` in course.json: `points`; `counted`, the largest counts of the emulator that are allowed for any work;
`of_library` and `of_limit`, the least shares that measured times must reach, as the geometric mean over the works.
"""
import json
import os
import statistics

from course import CourseError

ROUNDS = 3  # student and library take turns in each round


def prepared(shop, task, student, below, device, name):
    """Builds the task's speed program on the headers in `student`, or on the library's. Returns a function that runs it."""
    failed, program = shop.speed_program(task, student, below, device, name)
    if failed:
        raise CourseError(f"{task.id}: the speed program of {name} does not build\n{failed.text[:3000]}")
    return lambda: run(shop, task, program)


def run(shop, task, program):
    """{work: the line of the program about it}, and `limit`, the line with the machine's limits. Output of a student's code is not read."""
    results = program.with_name(program.name + "-speed.jsonl")
    results.unlink(missing_ok=True)
    # One thread is used, so that a share of the library's speed means the same on every machine.
    env = dict(os.environ, TT_RESULTS=str(results), OMP_NUM_THREADS="1", TINYTORCH_SIM_DEVICES="1")
    done = shop.call([str(program)], 600, env=env)
    try:
        lines = [json.loads(l) for l in results.read_text(encoding="ascii").splitlines()]
        found = {l.get("work", "limit"): l for l in lines}
    except (OSError, ValueError, AttributeError):
        found = {}
    if done.code != 0 or "limit" not in found or len(found) < 2:
        text = "it was stopped because it takes too long" if done.timed_out else f"it ended with code {done.code}"
        raise CourseError(f"{task.id}: the speed program gave no result, {text}\n{done.text[-2000:]}")
    return found


def timed(mine, theirs):
    """Times student and library in turns (A B B A). Returns [{work, seconds, of_library, of_limit}] with the medians of the rounds."""
    samples = {"mine": [], "theirs": []}
    for turn in range(ROUNDS):
        for who, again in [("mine", mine), ("theirs", theirs)][::1 if turn % 2 == 0 else -1]:
            samples[who].append(again())
    middle = lambda who, work: statistics.median(s[work]["seconds"] for s in samples[who])
    highest = lambda key: max(s["limit"][key] for who in samples.values() for s in who)
    bandwidth, arithmetic = highest("bytes_per_second"), highest("flops_per_second")
    rows = []
    for work, line in samples["mine"][0].items():
        if work != "limit":
            seconds = middle("mine", work)
            floor = max(line["bytes"] / bandwidth, line["flops"] / arithmetic if arithmetic else 0)
            rows.append({"work": work, "seconds": seconds, "of_library": middle("theirs", work) / seconds, "of_limit": floor / seconds})
    return rows


def counted(mine):
    """The ratios of the emulator's counts: memory moved to memory that must move, sectors and wavefronts to their ideal numbers."""
    over = lambda a, b: a / b if b else 1.0
    return [{"work": work, "moved": over(l["moved"], l["bytes"]), "sectors": over(l["sectors"], l["ideal_sectors"]),
             "wavefronts": over(l["wavefronts"], l["ideal_wavefronts"]), "launches": l["launches"], "barriers": l["barriers"]}
            for work, l in mine().items() if work != "limit"]


def measure(shop, task, student, below, device, name, library=None):
    """The rows of a student's headers, or of the library's if `student` is empty. `library`: the workshop that builds the library's program."""
    mine = prepared(shop, task, student, below, device, name)
    return counted(mine) if device == "sim" else timed(mine, prepared(library or shop, task, [], [], device, "library"))


def judge(rule, device, rows):
    """[{what, value, limit, good}], a row for each limit of the rule; the points are earned if all are good."""
    if device == "sim":
        worst = {what: max(r[what] for r in rows) for what in rule.get("counted", {})}
        return [{"what": what, "value": worst[what], "limit": most, "good": worst[what] <= most} for what, most in rule.get("counted", {}).items()]
    mean = {what: statistics.geometric_mean(r[what] for r in rows) for what in ("of_library", "of_limit") if what in rule}
    return [{"what": what, "value": value, "limit": rule[what], "good": value >= rule[what]} for what, value in mean.items()]


def earned(rule, judged):
    return rule["points"] if judged and all(j["good"] for j in judged) else 0


def table(device, rows):
    """The rows as lines of a table for the console."""
    if device == "sim":
        columns = (("moved", 8, 2), ("sectors", 9, 2), ("wavefronts", 12, 2), ("launches", 10, 0))
    else:
        columns = (("ms", 9, 3), ("of_library", 12, 3), ("of_limit", 10, 3))
    lines = [f"  {'work':<52}" + "".join(f"{what.replace('_', ' '):>{width}}" for what, width, _ in columns)]
    for r in rows:
        values = {**r, "ms": 1e3 * r.get("seconds", 0)}
        lines.append(f"  {r['work']:<52}" + "".join(f"{values[what]:{width}.{digits}f}" for what, width, digits in columns))
    return lines
