"""Lints, which read files and compile nothing. Each takes a Tree and returns a list of complaints, empty if there are none.

self_test.py tests each of them on a tree with a fault.
"""
import functools
import json
import re
import subprocess
import sys
from pathlib import Path

# The order of the layers: a header may include its own folder and folders with a lower number, and no others.
LAYERS = {"core": 0, "backend": 1, "tensor": 2, "autograd": 3, "io": 4, "data": 5, "layers": 6, "kv_cache": 7, "vision": 7, "transformer": 8,
          "benchmarking": 9, "profiling": 10, "acceleration": 11, "quantization": 11, "serving": 11, "pruning": 12}
TOP = 99  # tinytorch.hpp and cuda_impl.cuh may include everything

TOP_LEVEL = {"CMakeLists.txt", "include", "modules", "examples", "tests", "bench", "notebooks", "README.md", "LICENSE"}
HEADER_LINES, FUNCTION_LINES, MACROS = 400, 60, 10
TOOLS_ONLY = ("nlohmann/", "CLI/", "doctest/", "rapidcheck", "benchmark/", "sqlite3", "httplib")


class Tree:
    def __init__(self, root):
        self.root = Path(root)
        self.include = self.root / "include"

    def headers(self):
        return sorted(p for p in (self.include / "tinytorch").rglob("*") if p.suffix in (".hpp", ".cuh"))

    def name(self, path):
        return str(Path(path).relative_to(self.root))

    def files(self):
        """The files that git tracks; outside a repository, all files except those below build/ and caches."""
        listed = subprocess.run(["git", "-C", str(self.root), "ls-files", "-z"], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)
        if listed.returncode == 0 and listed.stdout and (self.root / ".git").exists():
            names = listed.stdout.decode().split("\0")
            return [self.root / n for n in names if n and (self.root / n).exists()]
        return [p for p in self.root.rglob("*") if p.is_file() and p.relative_to(self.root).parts[0] != "build"
                and ".git" not in p.parts and "__pycache__" not in p.parts]

    def changed(self, folder, hours):
        """Files of this folder, relative to the root, that the commits of the last hours before HEAD changed, newest first: a push has
        several commits, and a file of its first one is as new as a file of its last one. A clone without its history has none."""
        git = functools.partial(subprocess.run, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        time = git(["git", "-C", str(self.root), "log", "-1", "--format=%ct"]).stdout.strip()
        if not time:
            return []
        names = git(["git", "-C", str(self.root), "log", f"--since={int(time) - hours * 3600}", "--name-only", "--format=", "--", folder]).stdout
        return [Path(name) for name in dict.fromkeys(names.split())]

    def sources(self):
        return [p for p in self.files() if p.suffix in (".hpp", ".cpp", ".cuh", ".cu")]


def includes(text):
    """(line number, opening bracket, path) of every #include."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
        if match:
            yield number, match.group(1), match.group(2)


def unchanged(function):
    """Decorator: caches the result of a function of a file until the time or size of the file changes."""
    @functools.cache
    def known(file, time, size):
        return function(file)

    return lambda file: known(file, file.stat().st_mtime_ns, file.stat().st_size)


@unchanged
def names_included(file):
    return tuple(name for _, _, name in includes(file.read_text(encoding="utf-8")))


def reached(paths, folders):
    """{path: a file that includes it, or None} of these files and all files in `folders` that they include, directly or through
    others. Conditions (#if) are ignored."""
    found, waiting = dict.fromkeys(paths), list(paths)
    while waiting:
        file = waiting.pop()
        for name in names_included(file):
            path = next((f / name for f in folders if (f / name).is_file()), None)
            if path and path not in found:
                found[path] = file
                waiting.append(path)
    return found


def layer_of(path):
    """The layer of a path such as tinytorch/tensor/tensor.hpp; None for a folder that is not in LAYERS."""
    parts = Path(path).parts
    return TOP if len(parts) == 2 else LAYERS.get(parts[1])


def lint_includes(tree):
    """Library headers are included as <tinytorch/...>; no file is included by a relative path."""
    out = []
    for path in tree.sources():
        in_library = tree.include in path.parents
        for line, bracket, name in includes(path.read_text()):
            if ".." in Path(name).parts or (in_library and bracket == '"'):
                out.append(f"{tree.name(path)}:{line}: {name} is relative; write <tinytorch/...>, so that a student's "
                           "header can replace the library's")
            elif bracket == '"' and name.startswith("tinytorch/"):
                out.append(f'{tree.name(path)}:{line}: write <{name}>')
            elif name.startswith("tinytorch/") and not (tree.include / name).exists():
                out.append(f"{tree.name(path)}:{line}: there is no file include/{name}")
    return out


def lint_dependencies(tree):
    """No header of core/, backend/ or kernels includes fmt; only *-inl.hpp includes Eigen; no header includes a library of tools."""
    out = []
    for path in tree.headers():
        folder = path.relative_to(tree.include / "tinytorch").parts[0]
        for line, _, name in includes(path.read_text()):
            if name.startswith("fmt/") and (folder in ("core", "backend") or path.suffix == ".cuh"):
                why = "core/, backend/ and kernels do not use fmt"
            elif name.startswith(("Eigen/", "eigen3/", "unsupported/")) and not path.stem.endswith("-inl"):
                why = "only a header *-inl.hpp may use Eigen"
            elif name.startswith(TOOLS_ONLY):
                why = "only programs (tests, bench) may use this library"
            else:
                continue
            out.append(f"{tree.name(path)}:{line}: <{name}>: {why}")
    return out


# The headers of backend/cuda/ that the rest of the library may include. They are plain C++.
CUDA_FROM_OUTSIDE = {f"tinytorch/backend/cuda/{name}.hpp" for name in ("launch", "device/fault", "runtime/graph", "runtime/loaded_kernel",
                                                                       "runtime/launches", "runtime/runtime")}


def lint_layers(tree):
    """A header includes only lower layers, and of backend/cuda/ only CUDA_FROM_OUTSIDE."""
    out = []
    for path in tree.headers():
        inner = path.relative_to(tree.include)
        own = layer_of(inner)
        if own is None:
            out.append(f"{tree.name(path)}: the folder {inner.parts[1]} is missing in LAYERS (tests/hygiene/lints.py)")
            continue
        for line, _, name in includes(path.read_text()):
            if not name.startswith("tinytorch/"):
                continue
            other = layer_of(name)
            same_folder = Path(name).parts[1] == inner.parts[1]
            if other is not None and other >= own and not same_folder and own != TOP:
                out.append(f"{tree.name(path)}:{line}: {inner.parts[1]} includes {name}, which is not in a lower layer")
            if name.startswith("tinytorch/backend/cuda/") and name not in CUDA_FROM_OUTSIDE and own != TOP \
                    and "cuda" not in inner.parts:
                out.append(f"{tree.name(path)}:{line}: {name} is not one of CUDA_FROM_OUTSIDE (tests/hygiene/lints.py)")
    return out


# Headers without a test of their own, because they only declare or include, or are part of another; tests of other headers use them.
TESTED_THROUGH_OTHERS = {"tinytorch/backend/cuda/runtime/declarations.hpp", "tinytorch/core/simd_intrinsics.hpp",
                         "tinytorch/tensor/ops/linalg-inl.hpp",
                         "tinytorch/acceleration/kernel_support.hpp", "tinytorch/acceleration/prelude_shim.hpp",
                         *(f"tinytorch/backend/cuda/sim/{name}.hpp" for name in ("bodies", "cuda", "emulator", "types"))}


def cycles(graph):
    """The cycles of a graph {node: nodes}: its strongly connected components, by Tarjan's algorithm."""
    number, lowest, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == number[node]:
            at = stack.index(node)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1 or node in graph.get(node, ()):
                found.append(sorted(component))

    for node in graph:
        if node not in number:
            visit(node)
    return found


def folder_of(name, folders):
    """The folder that a file belongs to. A header `ops.hpp` beside a folder `ops/` belongs to that folder."""
    beside = Path(name).with_suffix("")
    return beside if beside in folders else Path(name).parent


def include_graph(tree):
    """{file: the files that it includes} of the library, the benchmarks and the tests, by their paths in the tree. A name is looked up in
    the folder of the file that includes it, in the folder above all (include, bench or tests) of that file, and in the other two."""
    roots = [tree.include, tree.root / "bench", tree.root / "tests"]
    files = {path: root for root in roots if root.exists() for path in root.rglob("*.[hc]*") if path.suffix in (".hpp", ".cuh", ".cpp")}
    graph = {}
    for path in sorted(files):
        places = [path.parent, files[path], *(root for root in roots if root != files[path])]
        found = (next((p / name for p in places if p / name in files), None) for name in names_included(path))
        graph[tree.name(path)] = [tree.name(p) for p in found if p]
    return graph


def lint_cycles(tree):
    """There are no cycles of includes, neither between files nor between folders."""
    graph = include_graph(tree)
    out = ["these files include one another: " + ", ".join(component) for component in cycles(graph)]
    known = {folder for name in graph for folder in Path(name).parents}
    home = {name: folder_of(name, known).as_posix() for name in graph}
    folders, because = {}, {}
    for name, names in graph.items():
        for other in names:
            if home[name] != home[other]:
                folders.setdefault(home[name], set()).add(home[other])
                because.setdefault((home[name], home[other]), f"{name} includes {other}")
    for component in cycles(folders):
        out.append("these folders include one another: " + ", ".join(component))
        out += [f"  {because[pair]}" for pair in sorted(because) if set(pair) <= set(component)]
    return out


def lint_umbrellas(tree):
    """An umbrella header includes every header of its folder, or says which ones it leaves out ("every header of the folder but a.hpp")."""
    out = []
    for path in tree.headers():
        text = path.read_text()
        if not text.startswith("// Umbrella header of "):
            continue
        left_out = re.search(r"every header of the folder but ([^:;]*?)[,.](?:\s|$)", text.replace("\n// ", " "))
        present = set(names_included(path)) | {path.relative_to(tree.include).with_name(name).as_posix()
                                               for name in (re.findall(r"\w+\.hpp", left_out[1]) if left_out else ())}
        out += [f"{tree.name(path)} does not include {other.name}, and does not say why" for other in sorted(path.parent.glob("*.hpp"))
                if other != path and other.relative_to(tree.include).as_posix() not in present]
    return out


def lint_mirrored_tests(tree):
    """Each include/tinytorch/<path>.hpp has a test file tests/<path>.cpp."""
    out = []
    for path in tree.headers():
        if path.suffix == ".hpp" and path.relative_to(tree.include).as_posix() not in TESTED_THROUGH_OTHERS:
            test = tree.root / "tests" / path.relative_to(tree.include / "tinytorch").with_suffix(".cpp")
            if not test.exists():
                out.append(f"{tree.name(path)}: {tree.name(test)} is missing")
            elif "TEST_CASE" not in test.read_text():
                out.append(f"{tree.name(test)}: the file has no TEST_CASE")
    return out


def lint_header_length(tree):
    """Headers have at most 400 lines, in the library, in tests and in tools."""
    out = []
    for path in tree.sources():
        lines = path.read_text().count("\n")
        if path.suffix in (".hpp", ".cuh") and lines > HEADER_LINES:
            out.append(f"{tree.name(path)}: {lines} lines, at most {HEADER_LINES}")
    return out


def blank_out(text):
    """The text with blanks in place of comments, literals and preprocessor lines; line breaks stay."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^()\\ ]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z_])\'(?:\\.|[^\'\\\n])+\''
                         r'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


CONTROL = re.compile(r"\b(if|for|while|switch|catch|do|else|try|return|requires)\b")


def functions(text):
    """(name, first line, number of lines) of every function at namespace or class scope. A lambda counts as part of the function
    around it."""
    code, stack, head, line = blank_out(text), [], "", 1
    head_line = None
    found = []
    functions_around = initializers_around = 0
    for ch in re.findall(r"[{};\n]|[^{};\n]+", code):  # a brace, a semicolon, the end of a line, or the text between them
        if ch == "\n":
            line += 1
        if ch == "{":
            kind, name = ("block", "") if functions_around else classify(head)
            functions_around += kind == "function"
            initializers_around += kind == "initializer"
            stack.append((kind, name, head_line or line))
            if kind != "initializer":
                head, head_line = "", None
            continue
        if ch == "}":
            if not stack:
                continue
            kind, name, began = stack.pop()
            functions_around -= kind == "function"
            initializers_around -= kind == "initializer"
            if kind == "function":
                found.append((name, began, line - began + 1))
            if kind != "initializer":
                head, head_line = "", None
            continue
        if initializers_around:
            continue
        if ch == ";" and head.count("(") <= head.count(")"):
            head, head_line = "", None
        else:
            head += ch
            if head_line is None and not ch.isspace():
                head_line = line
    return found


def classify(head):
    """(kind, name) of what a `{` after this text opens; the kind is function, scope (namespace or class) or initializer."""
    text = " ".join(head.split())
    text = re.sub(r"^(public|private|protected)\s*:\s*", "", text)
    without_template = re.sub(r"^(template\s*<.*?>\s*)+(?=\S)", "", text) if text.startswith("template") else text
    without_template = re.sub(r"^requires\s*\((?:[^()]|\([^()]*\))*\)\s+", "", without_template)
    if re.match(r"(inline\s+)?namespace\b|extern\b\s*$", without_template):
        return "scope", ""
    lambda_name = re.match(r"[^=(]*?(\w+)\s*=\s*\[", without_template)
    if lambda_name:
        return "function", lambda_name.group(1)
    name = re.search(r"(operator\s*\(\s*\)|operator\s*[^\s\w(]{1,3}|operator\s+[\w:<> ]+|[~\w]+)\s*\(", without_template)
    if re.match(r"(class|struct|union|enum)\b", without_template) and not (name and re.search(r"\)[\w\s&>:-]*$", text)):
        return "scope", ""
    if not name:
        return "initializer", ""
    after = text[text.index("(") + 1:]
    init_list = re.search(r"\)\s*(?:noexcept\s*)?:(?!:)(.*)$", after)
    if init_list and not init_list.group(1).rstrip().endswith(")"):
        return "initializer", ""  # `: a_{` of a constructor
    if re.search(r"[=,(]\s*[\w:<>]*$|\breturn$", text):
        return "initializer", ""
    if re.search(r"\)\s*(const|noexcept|override|final|mutable|&&?|->\s*[\w:<>,&*\s]+|requires\b.*|try|\s)*$", text) or init_list:
        return "function", name.group(1)
    return "initializer", ""


def lint_function_length(tree):
    """Functions have at most 60 lines with their signature; tables of test cases (`*_cases`, `*_calls`) may have more."""
    return [f"{tree.name(path)}:{first}: {name} has {lines} lines, at most {FUNCTION_LINES}"
            for path in tree.sources() for name, first, lines in functions(path.read_text())
            if lines > FUNCTION_LINES and not name.startswith(("TEST_CASE", "SUBCASE"))
            and not (name.endswith(("_cases", "_calls")) and tree.include not in path.parents)]


def lint_macros(tree):
    """There are at most ten TT_ macros, all in core/config.hpp, and no other header defines a macro.

    The emulator's headers are an exception: they define the keywords of CUDA C++, which must be macros."""
    out, names = [], set()
    config = tree.include / "tinytorch" / "core" / "config.hpp"
    for path in tree.headers():
        if tree.include / "tinytorch" / "backend" / "cuda" / "sim" in path.parents:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r"\s*#\s*define\s+(\w+)", line)
            if match and path != config:
                out.append(f"{tree.name(path)}:{number}: {match.group(1)} is defined outside core/config.hpp")
            elif match and not match.group(1).startswith(("TT_", "TINYTORCH_")):
                out.append(f"{tree.name(path)}:{number}: {match.group(1)} does not begin with TT_")
            elif match and match.group(1).startswith("TT_"):
                names.add(match.group(1))
    if len(names) > MACROS:
        out.append(f"there are {len(names)} TT_ macros, at most {MACROS} are allowed: {', '.join(sorted(names))}")
    return out


def lint_virtual_functions(tree):
    """A virtual function without a body in its class is declared `inline` or TT_API.

    g++ chooses a class's key function at the end of the class. If that function is not inline there and is defined `inline`
    further down, each file that includes the header compiles the virtual table, and with it all that these functions call."""
    out = []
    for path in [*tree.headers(), *sorted((tree.root / "modules").glob("*/frame/**/*.hpp"))]:
        for number, line in enumerate(blank_out(path.read_text()).splitlines(), 1):
            declared = re.search(r"\bvirtual\b|\b(?:override|final)\s*;", line) and re.search(r"\)[^(){}=]*;\s*$", line)
            if declared and not re.search(r"\binline\b|\bTT_API\b", line):
                out.append(f"{tree.name(path)}:{number}: declare this virtual function `inline`, or TT_API if its body is in the "
                           "compiled library; else each file that includes the header compiles it")
    return out


def lint_top_level(tree):
    """The top level contains exactly the files and folders of TOP_LEVEL, besides dot files."""
    present = {p.relative_to(tree.root).parts[0] for p in tree.files()}
    shown = {name for name in present if not name.startswith(".")}
    return ([f"{name} does not belong at the top level" for name in sorted(shown - TOP_LEVEL)] +
            [f"{name} is missing at the top level" for name in sorted(TOP_LEVEL - shown)])


# Folders of a particular machine, and words that mark unfinished work. The strings are split so that this file does not match.
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:w" + r"ork|r" + r"oot|h" + r"ome|U" + r"sers|m" + r"nt)/\w")
UNFINISHED = re.compile(r"\b(?:FIX" + r"ME|X" + r"XX|HA" + r"CK|place" + r"holder|dum" + r"my)\b", re.I)


def lint_machine_paths(tree):
    """No file names a folder of a particular machine or builds a path from __FILE__.

    A compiler cache serves an object that another checkout compiled, with the __FILE__ of that checkout.
    tree/source_folder.hpp has the path of this one."""
    out = []
    for path in tree.files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        out += [f"{tree.name(path)}:{number}: {line.strip()[:100]}"
                for number, line in enumerate(text.splitlines(), 1) if MACHINE_PATH.search(line) or "path(__FI" + "LE__)" in line]
    return out


def lint_unfinished(tree):
    """No source contains a word that marks unfinished work."""
    out = []
    for path in tree.sources() + [tree.root / "modules" / "tt"]:
        if path.exists():
            out += [f"{tree.name(path)}:{number}: {line.strip()[:100]}"
                    for number, line in enumerate(path.read_text().splitlines(), 1) if UNFINISHED.search(line)]
    return out


# Beginnings of comments that are fragments: a reader has to guess the subject. "As" and the like are wrong only without a main clause.
FRAGMENT = re.compile(r"(?:What|Which|How|Who|Whose|Whom|Whether|Of)\b(?![^.]*\?)|As [\w:]+\(\)|Like\b|(?:As|For|Where)\b[^,.]*[.:](?:\s|$)"
                      r"|(?:Empty|Null|Nothing)(?::| if\b| unless\b| for\b)|(?:By|In the order)\b[^,.]*\.(?:\s|$)")
CONTRACT = re.compile(r"(?:^|[.;:] )(?:Errors: )?(TT-[A-Z]+-\d+)(?= (?:if|unless|for|when|without|with)\b|[,.:;])")


def comment_paragraphs(text):
    """(first line, text) of each paragraph of `//` comments that have lines of their own. Indented lines, such as formulas and samples of
    code, are not part of a paragraph."""
    found, above = [], None
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"(\s*)// (?=\S)(.*)", line)
        if match and above == match[1]:
            found[-1][1].append(match[2])
        elif match:
            found.append((number, [match[2]]))
        above = match and match[1]
    return [(number, " ".join(lines)) for number, lines in found]


def lint_fragments(tree):
    """Comments begin with a subject, not with "What", "How", "Whether" or "Of", and contracts say "Throws TT-SHAPE-02 if"."""
    out = []
    for path in tree.sources():
        for number, text in comment_paragraphs(path.read_text()):
            begin, contract = FRAGMENT.match(text), CONTRACT.search(text)
            if begin:
                out.append(f"{tree.name(path)}:{number}: {text[:60]!r} is a fragment: begin with what it is or does, in a sentence")
            if contract:
                out.append(f"{tree.name(path)}:{number}: write \"Throws {contract[1]} if ...\", as other contracts do")
    return out


def lint_file_size(tree):
    """No tracked file is larger than a megabyte."""
    return [f"{tree.name(p)}: {p.stat().st_size} bytes" for p in tree.files() if p.stat().st_size > 1_000_000]


def lint_readme(tree):
    """README.md has at most 150 lines, two screens; details are in the README of their folder."""
    readme = tree.root / "README.md"
    lines = len(readme.read_text().splitlines()) if readme.exists() else 0
    return [f"README.md has {lines} lines"] if lines > 150 else []


def lint_modules(tree):
    """The table of modules in README.md agrees with modules/course.json, and the lesson of a module names the headers of its tasks that
    have moved."""
    course = json.loads((tree.root / "modules" / "course.json").read_text())
    readme = (tree.root / "README.md").read_text()
    rows = {m["id"]: f"| {m['id']} | {m['title']} | {m['status']} |" for m in course["modules"]}
    out = [f"README.md does not have the row {row}" for row in rows.values() if row not in readme]
    for module in course["modules"]:
        out += [f"course.json: {module['id']} names include/tinytorch/{folder}, which does not exist"
                for folder in module["headers"] if not (tree.include / "tinytorch" / folder).exists()]
        out += moves_without_a_note(tree, module)
    return out


def moves_without_a_note(tree, module):
    """Students look for the old path of their file, so a lesson has the text `old` → `new` for each header of a task that has moved."""
    moved, lesson = tree.root / "modules" / "moved.json", tree.root / "modules" / module["id"] / "README.md"
    text = " ".join(lesson.read_text().split()) if lesson.exists() else ""
    headers = {f"tinytorch/{task['file']}" for task in module.get("tasks", [])}
    notes = [f"`{old.removeprefix('tinytorch/')}` → `{new.removeprefix('tinytorch/')}`"
             for old, new in (json.loads(moved.read_text()) if moved.exists() else {}).items() if new in headers]
    return [f"{tree.name(lesson)} does not have the note {note}" for note in notes if note not in text]


def lint_checks(tree):
    """modules/course.json names exactly the tests of modules/*/checks."""
    course = json.loads((tree.root / "modules" / "course.json").read_text())
    named = {test for module in course["modules"] for task in module.get("tasks", []) for test in task["tests"]}
    written = {test for path in (tree.root / "modules").glob("*/checks/*") if path.suffix in (".cpp", ".cu")
               for test in re.findall(r'TEST_CASE\(\s*"([^"]*)"', path.read_text())}
    return ([f"no task of course.json names the test: {test}" for test in sorted(written - named)] +
            [f"course.json names a test that modules/*/checks does not have: {test}" for test in sorted(named - written)])


def lint_api(tree):
    """include/tinytorch/API.md agrees with the headers."""
    if not (tree.include / "tinytorch").is_dir():
        return []
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "modules"))
    import api  # imported here, because tests of the suite copy this file without modules/api.py
    return [f"{api.PAGE} is out of date: run modules/tt api --write"] if api.is_stale(tree.root) else []


def functions_of(text, names=None):
    """{(name, number of parameters)} of functions in the text of a header: those marked TT_API, or, if `names` is given, those with
    one of these names."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    start = r"^TT_API\s[^;{}()]*?" if names is None else r"^(?:inline\s+)?[A-Za-z][\w:<>]*[\s&*]+"
    found = set()
    for match in re.finditer(start + r"(\w+)\(", text, re.M):
        depth, i = 1, match.end()
        commas = 0 if re.match(r"\s*\)", text[i:]) else 1
        while depth and i < len(text):
            depth += {"(": 1, "<": 1, "{": 1, ")": -1, ">": -1, "}": -1}.get(text[i], 0)
            commas += depth == 1 and text[i] == ","
            i += 1
        if names is None or match[1] in names:
            found.add((match[1], commas))
    return found


def lint_frames(tree):
    """Each frame of the course, together with its solution, has every function of the library's header of the same path; a frame that
    is cut from the header (modules/frames.py) equals what the header gives today."""
    declared = tree.include / "tinytorch/backend/cuda/launch.hpp"  # declares the launchers of kernels
    declared = declared.read_text() if declared.exists() else ""
    launchers = {name for name, _ in functions_of(declared, set(re.findall(r"\w+", declared)))}
    out = []
    for frame in sorted((tree.root / "modules").glob("*/frame/**/*.?*")):
        if frame.suffix not in (".hpp", ".cuh"):
            continue
        module = next(p for p in frame.parents if p.parent.name == "modules")
        header = frame.relative_to(module / "frame")
        tasks = module / "solution" / "tasks" / header.relative_to("tinytorch")
        if not tasks.exists():
            out += stale_cut(tree, frame, module.name, header)
            continue
        names = launchers if frame.suffix == ".cuh" else None
        have = functions_of(frame.read_text() + "\n" + tasks.read_text(), names)
        out += [f"{tree.name(frame)}: {name}, which include/{header} has with {count} parameters, is missing; declare it in the frame as "
                "well, so that a student's library has it" for name, count in sorted(functions_of((tree.include / header).read_text(), names) - have)]
        out += [f"{tree.name(frame)}: {name}, which {tree.name(user)} takes from include/{header}, is missing; write it into the frame as well"
                for name, user in inline_functions_missing(tree, header, frame.read_text() + tasks.read_text())]
    return out


def inline_functions_missing(tree, header, cut):
    """(name, header that uses it) of inline functions in a library header that `cut`, its frame and solution, do not have. A header
    with a frame of its own is not asked, because a student's library has that frame instead."""
    inline = set(re.findall(r"^inline\s[^;{}()]*?(\w+)\(", (tree.include / header).read_text(), re.M))
    missing = inline - set(re.findall(r"(\w+)\(", cut))
    framed = {p.relative_to(next(f for f in p.parents if f.name == "frame")) for p in (tree.root / "modules").glob("*/frame/**/*.?*")}
    users = [p for p in sorted(tree.include.rglob("*.hpp")) if p.relative_to(tree.include) not in framed] if missing else []
    return [(name, user) for user in users if f"<{header}>" in user.read_text() for name in sorted(missing)
            if re.search(rf"\b{name}\b", re.sub(r"//[^\n]*", "", user.read_text()))]


def stale_cut(tree, frame, module, header):
    """Complaints about a frame that has no solution of its own."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "modules"))
    import course  # here, because a copy of this file without modules/ serves the tests of the suite
    import frames
    entries = json.loads((tree.root / "modules" / "course.json").read_text())["modules"]
    held = course.Module(next(m for m in entries if m["id"] == module))
    file = str(header.relative_to("tinytorch"))
    try:
        today = frames.frame_of((tree.include / header).read_text(), file, [t for t in held.tasks if t.file == file])
    except course.CourseError as problem:
        return [f"{tree.name(frame)} cannot be cut from include/{header}: {problem}"]
    return [] if frames.same(today, frame.read_text()) else [
        f"{tree.name(frame)} is not what include/{header} gives: run `python3 modules/frames.py`"]

LINTS = [lint_readme, lint_includes, lint_dependencies, lint_layers, lint_cycles, lint_umbrellas, lint_mirrored_tests, lint_header_length,
         lint_function_length, lint_macros, lint_virtual_functions, lint_top_level, lint_machine_paths, lint_unfinished, lint_fragments, lint_file_size,
         lint_modules, lint_checks, lint_api, lint_frames]
