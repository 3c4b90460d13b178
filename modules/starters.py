"""Functions of a header as text: where one is defined, and a header without the bodies of some of them. Files are written whole."""
import os
import re
import tempfile

GUARD = re.compile(r"^#if (TT_BODIES\(\w+\))$", re.M)


class CourseError(Exception):
    """A problem with the course or a student's files that a person must correct; the message says how."""


def for_checks(text):
    """A task's check compiles the bodies of the student's headers; all other bodies are linked (core/config.hpp)."""
    return GUARD.sub(r"#if \1 || defined(TINYTORCH_TASK)", text)


def end_of(text, start):
    """The position after the brace that closes the one at `start`; strings and comments are skipped."""
    depth, i = 0, start
    token = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|[{}]', re.S)
    while True:
        found = token.search(text, i)
        if not found:
            raise CourseError("unbalanced braces")
        depth += {"{": 1, "}": -1}.get(found.group(), 0)
        i = found.end()
        if depth == 0:
            return i


def opening(text, at):
    """The position of the brace that opens the body of the function whose parameters begin after `at`, or None for a declaration."""
    depth = 0
    for i in range(at, len(text)):
        c = text[i]
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif depth == 0 and c in ";{":
            return i if c == "{" else None
    return None


def definition(text, name):
    """(start of its first line, opening brace, end) of a function; `Class::name`, `name#2` for the second of its name. A member is
    defined in its class or behind it; in a student's file the class is missing, because it is in the frame."""
    name_of_it, _, number = name.partition("#")
    owner, _, plain = name_of_it.rpartition("::")
    places = [(0, len(text), rf"{re.escape(owner)}(?:<[\w, ]*>)?::" if owner else "")]
    held = owner and re.search(rf"^(?:class|struct) {re.escape(owner)}\b[^;{{]*{{", text, re.M)
    if held:
        places.insert(0, (held.end(), end_of(text, held.end() - 1), ""))
    for begin, stop, before in places:
        found = definition_in(text, begin, stop, before + re.escape(plain), int(number or 1))
        if found:
            return found
    raise CourseError(f"there is no definition of {name}")


def definition_in(text, begin, stop, pattern, number):
    """The definition of the number-th function with this name between two positions, or None."""
    for found in re.finditer(rf"(?<![\w.>]){pattern}\(", text[:stop]):
        line = text.rfind("\n", 0, found.start()) + 1
        before = text[line:found.start()]
        if found.start() < begin or before.lstrip().startswith(("//", "return", "if ", "for ", "while ", "}")):
            continue
        if before.count("(") != before.count(")") or "=" in before or before.rstrip().endswith((",", "!", "?")):
            continue
        brace = opening(text, found.end() - 1)
        if brace is None or brace >= stop:
            continue
        number -= 1
        if number == 0:
            return line, brace, end_of(text, brace)
    return None


def head_of(text, line):
    """The start of the lines that belong to a definition, which include its template line and its return type."""
    start = line
    while start > 0:
        previous = text.rfind("\n", 0, start - 1) + 1
        before = text[previous:start].partition("//")[0].strip()
        if not before or before.endswith((";", "}", "{", ":")) or before.startswith("#"):
            return start
        start = previous
    return start


def cut(text, name, task):
    line, brace, end = definition(text, name)
    head = text[head_of(text, line):brace]
    indent = re.match(r" *", head).group()
    plain = name.split("#")[0]
    if "__global__" in head:
        body = f"{indent}  // TODO({task}): write the kernel {plain}.\n"
    elif "__device__" in head:
        body = f"{indent}  // TODO({task}): write {plain}.\n" + ("" if re.search(r"\bvoid\b[^(]*\b" + re.escape(plain.split("::")[-1]) + r"\($", head[:head.find("(") + 1]) else f"{indent}  return {{}};\n")
    else:
        body = f"{indent}  // TODO({task}): write {plain}.\n{indent}  todo(\"{task}\", \"{plain}\");\n"
    return text[:brace] + "{\n" + body + indent + "}" + text[end:]


def remove(text, name):
    line, _, end = definition(text, name)
    start = head_of(text, line)
    while start > 0:  # and its comment
        previous = text.rfind("\n", 0, start - 1) + 1
        if not text[previous:start].strip().startswith("//"):
            break
        start = previous
    return text[:start] + text[end:].lstrip("\n")


def write_whole(path, text):
    """Writes a temporary file and renames it, so that a reader, or a crash, leaves the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
