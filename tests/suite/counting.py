"""Counting of passed, failed and skipped checks. A run that checks nothing is a failure."""
import math
import re
import time

from tools import BAD, tail


class Cut(KeyboardInterrupt):
    """A time limit was reached, and the running stage was stopped."""


class Tally:
    """The numbers of checks that passed, failed and were skipped, and the stages with their times."""

    def __init__(self, console, planned=()):
        self.planned = planned  # all stages of the run: a stage leaves out its sample of tests that another stage runs in full
        self.console, self.passed, self.failed, self.skipped, self.stages, self.reasons = console, 0, 0, 0, [], []
        self.programs = []  # (stage, test, seconds, processor seconds) of each test that ran
        self.stage, self.began = "", time.monotonic()
        self.ends = math.inf  # the time.monotonic() at which the running stage is stopped

    def seconds(self):
        return time.monotonic() - self.began

    def counts(self):
        return self.passed, self.failed, self.skipped

    def add(self, passed, failed, what, why=""):
        self.passed += passed
        self.failed += failed
        if failed:
            reason = f"  {BAD} {what}: {failed} failed, {passed} passed" + (f"\n{why}" if why else "")
            self.console.say(reason)
            self.reasons.append(reason)

    def check(self, good, what, why=""):
        self.add(1 if good else 0, 0 if good else 1, what, why)
        return good

    def skip(self, count, what, why="real data is not installed (README: Data)"):
        self.skipped += count
        if count:
            self.console.say(f"  - {what}: {count} skipped, {why}")

    def ran(self, what, done):
        self.programs.append((self.stage, what, round(done.seconds, 1), round(done.processor, 1)))

    def line(self):
        return f"{self.passed} passed, {self.failed} failed"


SUMMARY = re.compile(r"\[doctest\] test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed\s*\|\s*(\d+) skipped")


SKIPPED = re.compile(r"^\[cases\] (\d+) skipped$", re.M)  # printed for the chosen test file (tests/support/main.cpp)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def count_skipped(text):
    """The number of cases that cannot run on this machine. doctest's own number also counts cases that were not chosen."""
    own = SKIPPED.findall(plain(text))
    return int(own[-1]) if own else sum(int(found[3]) for found in SUMMARY.findall(plain(text))[-1:])


def count_doctest(text, code, timed_out=False, may_skip=False):
    """(passed, failed, why) of one doctest executable. An executable that ran no case is a failure."""
    found = SUMMARY.findall(plain(text))
    if timed_out:
        return 0, 1, "it did not end in time"
    if not found:
        return 0, 1, f"it ended with code {code} and without doctest's summary (crash?)"
    total, passed, failed = (int(x) for x in found[-1][:3])
    skipped = count_skipped(text)
    if total == 0 and not (may_skip and skipped):
        return 0, 1, "no test case was run"
    if skipped and not may_skip:
        return passed, failed + skipped, f"{skipped} cases were skipped"
    if code != 0 and failed == 0:
        return passed, 1, f"all cases passed, but it ended with code {code}"
    return passed, failed, f"{failed} of {total} cases" if failed else ""


def doctest_errors(text):
    """doctest's messages about failed checks, without the program's own output between them."""
    found = re.findall(r"^\S+:\d+: (?:FATAL )?ERROR: .*?\n(?=\n|\S+:\d+:|=====)", plain(text), re.M | re.S)
    return tail("".join(found), 60)


def count_lines(text, code):
    """(passed, failed, why) of a checker that prints `ok - name` and `not ok - name` lines."""
    good = len(re.findall(r"^ok - ", text, re.M))
    bad = len(re.findall(r"^not ok - ", text, re.M))
    broken = re.search(r"^Traceback .*", text, re.M | re.S)  # the checks after the exception did not run
    if broken:
        return good, bad + 1, "    the script ended with an exception\n" + tail(broken[0])
    if good + bad == 0:
        return 0, 1, f"no check was run (code {code})\n" + tail(text)
    if code != 0 and bad == 0:
        return good, 1, f"all checks passed, but it ended with code {code}\n" + tail(text)
    lines, keep, shown = text.splitlines(), False, []
    for line in lines:
        keep = line.startswith("not ok - ") or (keep and line.startswith(" "))
        if keep:
            shown.append("    " + line)
    return good, bad, "\n".join(shown[:120])


def count_unittest(text, code, may_skip=0):
    """(passed, failed, why) of a unittest run. Up to `may_skip` skipped tests count neither as passed nor as failed; more are
    failures."""
    ran = re.search(r"^Ran (\d+) tests?", text, re.M)
    total = int(ran.group(1)) if ran else 0
    if total == 0:
        return 0, 1, "no test was run\n" + tail(text)
    bad = sum(int(x) for x in re.findall(r"(?:failures|errors|skipped|unexpected successes)=(\d+)", text))
    bad = max(bad - may_skip, 1 if code != 0 else 0)
    return total - may_skip - min(bad, total), bad, tail(text, 40) if bad else ""
