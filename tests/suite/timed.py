"""Runs a compiler and logs its processor time: `python3 timed.py LOG COMPILER ARGUMENTS...`. times.py puts scripts that call
this file before the compilers on the PATH."""
import json
import os
import sys

log, command = sys.argv[1], sys.argv[2:]
child = os.posix_spawnp(command[0], command, os.environ)
_, status, usage = os.wait4(child, 0)
sources = [a for a in command[1:] if a.endswith((".cpp", ".cu", ".cuh", ".hpp"))]
compiles = any(a in ("-c", "-E", "-fsyntax-only", "-ptx", "c++-header") for a in command)
named = command[command.index("-o") + 1] if "-o" in command[:-1] else "standard input"
line = {"stage": os.environ.get("TT_STAGE", ""), "kind": "compile" if compiles else "link",
        "unit": sources[-1] if compiles and sources else named, "processor": usage.ru_utime + usage.ru_stime}
with open(log, "a", encoding="utf-8") as out:
    out.write(json.dumps(line) + "\n")
sys.exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
