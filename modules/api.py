"""The API index: include/tinytorch/API.md and `tt api NAME`, made from the public headers.

Signature, description and line come from the declaration. Error codes and dtypes come from the bodies: those of the function,
of its op's rule (constructor and infer), of helpers in the same file, and of the checks they call (require_*, refuse_*). A tensor
function that is composed of others has the fewest dtypes of those that it calls, unless its comment states them ("Dtypes: all.").
An op that TT_KERNEL runs has a kernel on both devices, because the macro names both; one whose body copies operands to the CPU
(on_host, .to(cpu)) reads them there, which its entry says.
"""
import difflib
import fnmatch
import json
import re
import textwrap
from pathlib import Path

from headers import Scanner, summary

PAGE = "include/tinytorch/API.md"
GROUPS = (
    ("Tensor functions", ("tensor/functions.hpp", "tensor/indexing.hpp", "tensor/ops/composed_losses.hpp",
                          "tensor/ops/composed_math.hpp", "tensor/ops/composed_shape.hpp", "tensor/ops/conv_transpose.hpp",
                          "tensor/ops/division.hpp", "tensor/ops/interpolate.hpp", "tensor/ops/sampling.hpp",
                          "tensor/ops/statistics.hpp", "tensor/ops/volume.hpp", "tensor/ops/windows.hpp")),
    ("Linear algebra", ("tensor/ops/linalg.hpp",)),
    ("Tensor", ("tensor/tensor.hpp", "tensor/operators.hpp", "tensor/scalar.hpp", "io/print.hpp")),
    ("Automatic differentiation", ("autograd/*.hpp",)),
    ("Dtypes, devices, shapes, random numbers, errors", (
        "core/dtype.hpp", "core/device.hpp", "core/shape.hpp", "core/random.hpp", "core/error.hpp", "core/parallel.hpp",
        "core/allocation_observer.hpp")),
    ("CUDA", ("backend/cuda/runtime/runtime.hpp", "backend/cuda/runtime/graph.hpp")),
    ("Layers", ("layers/activation.hpp", "layers/batch_norm.hpp", "layers/conv*.hpp", "layers/dropout.hpp",
                "layers/embedding.hpp", "layers/init.hpp", "layers/linear.hpp", "layers/module.hpp", "layers/module_list.hpp",
                "layers/norm.hpp", "layers/pooling.hpp", "layers/sequential.hpp", "layers/state_dict.hpp")),
    ("Optimizers and schedules", ("layers/adam.hpp", "layers/clip.hpp", "layers/gradient_sum.hpp", "layers/optimizer.hpp",
                                  "layers/schedule.hpp", "layers/sgd.hpp")),
    ("Metrics", ("layers/metrics.hpp",)),
    ("Loaders and training", ("layers/*.hpp",)),
    ("Tokenizers", ("transformer/bpe*.hpp", "transformer/char_tokenizer*.hpp", "transformer/pretokenize.hpp",
                    "transformer/token_tables.hpp", "transformer/tokenizer.hpp", "transformer/unicode.hpp")),
    ("Transformers", ("transformer/*.hpp",)),
    ("Vision models", ("vision/*.hpp",)),
    ("Caches of keys and values", ("kv_cache/*.hpp", "tensor/ops/cached_attention.hpp")),
    ("Acceleration", ("acceleration/*.hpp",)),
    ("Quantization", ("quantization/*.hpp",)),
    ("Pruning", ("pruning/*.hpp",)),
    ("Serving", ("serving/*.hpp",)),
    ("Files", ("io/*.hpp",)),
    ("Generated data", ("data/*.hpp",)),
    ("Profiling", ("profiling/*.hpp",)),
    ("Benchmarking", ("benchmarking/*.hpp",)),
)
UNREAD = ("backend/cuda/", "backend/cpu/", "tensor/vjp/", "core/simd")
LEFT_OUT = ("transformer/unicode_tables.hpp",)
EVERYWHERE = ("TT-TENSOR-01", "TT-DEVICE-01")  # every op throws these
CODE = re.compile(r'"(TT-[A-Z]+-\d+)"')
CALL = re.compile(r"\b([A-Za-z_]\w*)\s*[({]")
CONSTANT = re.compile(r"\bk[A-Z]\w*")
CHECK = re.compile(r"(require|refuse|check|normalize_dim)\w*$|\w+_or_fail$")
FOREIGN = {"run", "vjp", "flops", "saves", "view", "name"}  # methods of an op that do not check its operands
GUARDED = re.compile(r"if \(((?:[^(){};]|\([^(){};]*\))*)\)\s*(\{[^{}]*\}|[^;{}]*;)")
TO_HOST = re.compile(r"\bon_host\(|\.to\((?:tinytorch::)?cpu\b")
TENSORS = re.compile(r"\b(?:Tensor|Tensors|TensorArg|DType|Selected)\b")
CALLEE = re.compile(r"(?<![\w:.>])([A-Za-z_]\w*)\(")
OPERATION = re.compile(r"\w ([-+*/%&|^]=?) \w")
STATED = re.compile(r"\s*\bDtypes: ([\w, ]+)\.")
CHECKED = {"require_floating": "floating", "require_floating_dtype": "floating", "require_index": "indices i64",
           "require_matrices": "f32, f64", "mask_of": "bool"}
STRICTNESS = ("all", "numbers", "floating", "f32, f64", "bool")  # a function has the strictest dtypes of the functions that it calls
ENUMERATOR = re.compile(r"\b\w+(?:Fn|Kind)::\w+")

HEAD = """# API

Generated from the headers by `modules/tt api --write`; do not edit. `modules/tt api NAME` prints the entries of a name.
Each entry has its signature, the line of its declaration, what the header says of it, the dtypes of its operands, and the codes of
the errors that it throws (`modules/tt explain CODE`). The last parameter of most functions, the caller's line, is left out.

Every tensor function throws `TT-TENSOR-01` for an undefined tensor, and `TT-DEVICE-01` if its operands are on different devices.
"floating" means f16, bf16, f32 and f64, "numbers" means all dtypes but bool. The dtypes of an entry hold on the CPU and on CUDA, and
any other is refused on both: tests/tensor/dtypes.cpp calls each tensor function with each dtype on both. Each op of tensor/ops runs on
both devices. Where an entry says "Reads operands on the CPU", those on CUDA are copied there, at least for some arguments, and the
host waits for them.
"""


class Library:
    def __init__(self, root):
        self.root, self.include = Path(root), Path(root) / "include" / "tinytorch"
        self.files, self.summaries, self.functions, self.classes, self.constants, self.rows = {}, {}, {}, {}, {}, {}
        for path in sorted(self.include.rglob("*.hpp")):
            name = path.relative_to(self.include).as_posix()
            if name in LEFT_OUT or name.startswith(UNREAD) and name not in GROUPS[4][1]:
                continue
            text = path.read_text(encoding="utf-8")
            self.summaries[name], self.files[name] = summary(text), Scanner(text).found
            self.constants.update(re.findall(r'\b(k\w+)\s*=\s*"(TT-[A-Z]+-\d+)"', text))
            self.rows.update(re.findall(r"\{(\w+Fn::\w+), \"[^}]*Accepts::(\w+)", text))
            for d in self.files[name]:
                d.file = name
                if d.kind == "function" and d.body:
                    self.functions.setdefault(d.name, []).append(d)
                elif d.kind == "class":
                    self.classes.setdefault(d.name, d)
        self.entries, taken = [], set()
        for group, patterns in GROUPS:
            names = [n for n in sorted(self.files) if n not in taken and any(fnmatch.fnmatch(n, p) for p in patterns)]
            taken.update(names)
            self.entries += [e for name in names for e in self.entries_in(group, name)]
        self.public = {e.name for e in self.entries if e.file == "tensor/functions.hpp"}
        for entry in self.entries:
            entry.codes, entry.dtypes, entry.on_cpu, entry.calls = self.errors(entry)
        tensor_functions = [e for e in self.entries if has_dtypes(e)]
        self.composed = {e.name for e in tensor_functions}
        self.settle_dtypes(tensor_functions)
        functions = [e for e in self.entries if e.kind == "function" and e.file.startswith("tensor/") and not e.owner]
        while more := [e for e in functions if not e.on_cpu and e.calls & {f.name for f in functions if f.on_cpu}]:
            for entry in more:
                entry.on_cpu = True

    def entries_in(self, group, name):
        for d in public_entries(self.files[name]):
            d.group = group
            yield d

    def settle_dtypes(self, functions):
        """Gives each tensor function one of STRICTNESS, and "indices i64" if it has indices. Overloads have the same dtypes."""
        strictness, calls = dict.fromkeys((e.name for e in functions), 0), []
        stated = {e.name: re.split(", (?=indices)", found.group(1)) for e in functions if (found := STATED.search(e.description))}
        for e in functions:
            e.description = STATED.sub("", e.description)
            own, called = (stated[e.name], set()) if e.name in stated else self.errors(e, forwards=False)[1::2]
            e.dtypes = sorted(set(own) - set(STRICTNESS))
            strictness[e.name] = max([strictness[e.name], *(STRICTNESS.index(t) for t in own if t in STRICTNESS)])
            calls += [(e.name, name) for name in called if name in strictness]
        while more := [(name, called) for name, called in calls if strictness[called] > strictness[name]]:
            for name, called in more:
                strictness[name] = max(strictness[name], strictness[called])
        for e in functions:
            only_indices = e.dtypes == ["indices i64"] and len(TENSORS.findall(parameters(e))) == 1
            e.dtypes = ([] if only_indices else [STRICTNESS[strictness[e.name]]]) + e.dtypes

    # --- errors

    def errors(self, entry, forwards=True):
        """(codes, dtypes, on_cpu, calls) of a function, or of a class's constructors. on_cpu: a tensor function copies operands to the
        CPU. calls: the names of all functions that it calls."""
        if entry.kind not in ("function", "class"):
            return [], [], False, set()
        name = entry.name if entry.kind == "function" else entry.name.split("::")[-1]
        owner = entry.owner if entry.kind == "function" else entry.name
        todo = [d for d in self.functions.get(name, []) if d.owner == owner and self.near(entry, d)
                and (not d.declared or d.file != entry.file or d.line == entry.line or entry.kind == "class" or d.helper)]
        codes, dtypes, seen, on_cpu, calls = set(), set(), set(), False, set()
        own = {e for d in todo for e in ENUMERATOR.findall(d.body)}
        while todo:
            d = todo.pop()
            if id(d) in seen:
                continue
            seen.add(id(d))
            own = own or set(ENUMERATOR.findall(d.body))
            body = GUARDED.sub(lambda m: self.kept(m, own), d.body) if own else d.body
            on_cpu = on_cpu or TO_HOST.search(body + self.runs(CALL.findall(body))) is not None
            calls |= set(CALLEE.findall(body))
            if entry.name.startswith("operator"):  # y += a, in the body of another operator
                calls |= {"operator" + sign for sign in OPERATION.findall(body)}
            codes |= set(CODE.findall(body)) | {self.constants[k] for k in CONSTANT.findall(body) if k in self.constants}
            todo += self.called(d, body, own, codes, dtypes, forwards)
        if entry.group not in ("Tensor", "Automatic differentiation"):
            codes -= set(EVERYWHERE)
        on_cpu = on_cpu and entry.file.startswith("tensor/") and not entry.owner
        return sorted(codes), sorted(dtypes), on_cpu, calls

    def runs(self, names):
        """The bodies by which the ops of tensor/ops with these names run."""
        return "".join(f.body for f in self.functions.get("run", []) if f.owner in names and f.file.startswith("tensor/ops"))

    def near(self, entry, d):
        """Definitions of a public tensor function are in tensor/ops; all others are in the file of the declaration."""
        return d.file == entry.file or (entry.file.startswith("tensor/") and d.file.startswith(("tensor/ops/", "tensor/fill"))) or \
            (entry.file.startswith("tensor/") and d.file.startswith("autograd/") and entry.owner)

    @staticmethod
    def kept(found, own):
        """A guarded statement, or "" if its condition tests for enumerators that this function does not use."""
        asked = re.findall(r"==\s*(?:\w+::)*?(\w+(?:Fn|Kind)::\w+)", found.group(1))
        kinds = {e.split("::")[0] for e in own}
        return "" if asked and all(a.split("::")[0] in kinds and a not in own for a in asked) else found.group()

    def called(self, d, body, own, codes, dtypes, forwards):
        """Definitions to read next. Adds the dtypes that the checks require."""
        single = forwards and re.fullmatch(r"\{\s*(?:require_defined\([^;]*;\s*)*return [^;]*;\s*\}", body)
        for accepts in re.findall(r"require_accepted\([^;]*?(rule\(\)\.accepts|Accepts::\w+)", body):
            found = {self.rows[e] for e in own if e in self.rows} if accepts.startswith("rule") else {accepts[9:]}
            codes |= {{"floating": "TT-DTYPE-02", "numbers": "TT-DTYPE-05"}[a] for a in found if a != "anything"}
            dtypes |= {{"anything": "all"}.get(a, a) for a in found}
        made = [name for name in re.findall(r"\b([A-Z]\w+)\s+\w+[({]", body) if name in self.classes]
        for name in CALL.findall(body) + made:
            if name == "require_accepted" or name in FOREIGN:
                continue
            if name in CHECKED:
                dtypes.add(CHECKED[name])
            if name in self.classes and self.classes[name].file.startswith("tensor/ops"):
                yield from (f for n in (name, "infer") for f in self.functions.get(n, []) if f.owner == name)
            folder = d.file.split("/")[0]
            own_folder = any(f.file.startswith(folder) and not f.owner for f in self.functions.get(name, []))
            for f in self.functions.get(name, []):
                constructs = f.owner and f.name == f.owner and d.name == d.owner  # a base class or another constructor
                same_class = f.owner and f.owner == d.owner or constructs
                near = f.file.startswith(folder if own_folder else ("core", "tensor"))
                public = name in self.public or not forwards and name in self.composed
                helper = not f.owner and (f.file == d.file and not public or near and CHECK.match(name))
                creates = name == "empty" and d.file.endswith("creation.hpp")
                returned = single and name in self.public and not f.owner and f.file.startswith("tensor/ops")
                if same_class or helper or creates or returned:
                    yield f

    # --- looking up

    def named(self, name):
        wanted = plain(name)
        exact = [e for e in self.entries if wanted in (plain(e.name), plain(e.full_name), plain(f"{e.owner}::{e.name}"))]
        return [e for e in exact if (e.kind != "field" or "::" in name) and not (e.kind == "function" and e.owner.split("::")[-1] == e.name)]

    def relatives(self, name):
        """Names that contain the words of this name: log_softmax is a relative of softmax."""
        wanted = words(name.split("::")[-1])
        found = {shown(e) for e in self.entries if e.kind != "field" and wanted in words(e.name) and wanted != words(e.name)
                 and e.owner.split("::")[-1] != e.name}
        return sorted(found, key=lambda n: (len(n), n))[:8]

    def near_names(self, name):
        names = {plain(e.name): shown(e) for e in reversed(self.entries) if e.kind != "field"}
        return [names[n] for n in difflib.get_close_matches(plain(name), names, 4, 0.6)]

    def members(self, entry):
        inside = f"{entry.owner}::{entry.name}".strip(":")
        return [e for e in self.entries if e.file == entry.file and e.owner == inside] if entry.kind == "class" else []

    # --- the page

    def page(self):
        out = [HEAD]
        for group, _ in GROUPS:
            out.append(f"- [{group}](#{anchor(group)})")
        for group, _ in GROUPS:
            out.append(f"\n## {group}")
            file = section = None
            for e in self.entries:
                if e.group != group:
                    continue
                if e.file != file:
                    file, section = e.file, None
                    out += [f"\n### [{file}]({file})\n", self.summaries[file], ""]
                if e.section != section and not e.owner:
                    section = e.section
                    out += [f"\n#### {section[:1].upper()}{section[1:]}\n"] if section else []
                out.append(self.item(e))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in "\n".join(out).split("\n"))) + "\n"

    def item(self, e):
        depth = "  " * (e.owner.count("::") + 1 if e.owner else 0)
        text = f"{depth}- `{shortened(e.signature)}` [{e.line}]({e.file}#L{e.line})"
        notes = [escape(e.description)] if e.description else []
        notes += ["Reads operands on the CPU."] if e.on_cpu else []
        notes += ["Dtypes: " + ", ".join(e.dtypes) + "."] if e.dtypes else []
        notes += ["Errors: " + ", ".join(f"`{c}`" for c in e.codes) + "."] if e.codes and e.kind == "function" else []
        return text + (f"\\\n{depth}  " + " ".join(n if n.endswith((".", ":")) else n + "." for n in notes) if notes else "")


def public_entries(found):
    """The public declarations of a header, each with its description."""
    hidden = {f"{d.owner}::{d.name}".strip(":") for d in found if d.kind == "class" and not d.public}
    previous = None
    for d in found:
        inside_hidden = any(d.owner == h or d.owner.startswith(h + "::") for h in hidden)
        if not d.public or d.helper or not d.declared or inside_hidden or "detail" in d.space or re.match(r"template\b(?!\s*<)", d.signature):
            continue
        if d.kind == "field" and not d.owner and not d.comment or is_copy(d):
            continue
        d.description = d.comment
        follows = previous and d.kind == previous.kind == "function" and not d.owner and d.line <= previous.last_line + 1
        if not d.comment and follows and previous.inherits and parameters(d) == parameters(previous):
            d.description = previous.description
        d.inherits = d.above or d.description != d.comment
        previous = d
        yield d


def has_dtypes(entry):
    """True for a function of tensors, or one that makes a tensor of a given dtype."""
    grouped = entry.group in ("Tensor functions", "Linear algebra") or entry.file == "tensor/operators.hpp"
    return entry.kind == "function" and not entry.owner and grouped and TENSORS.search(parameters(entry)) is not None


def plain(name):
    return re.sub(r"[_\s]|^tt::|^tinytorch::", "", name).lower()


def words(name):
    """" log softmax " for log_softmax and LogSoftmax."""
    return " " + " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[^\w\s]+", name)).lower() + " "


def shown(entry):
    return "::".join(part for part in (entry.owner, entry.name) if part)


def shortened(signature):
    """The signature of an array without most of its elements."""
    begin = signature.find("{")
    return signature if begin < 0 or len(signature) - begin < 400 else signature[:begin + 80].rsplit(",", 1)[0] + ", ... }"


def anchor(title):
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def escape(text):
    """Text of a comment in Markdown, with characters that would be markup escaped."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*<]|\](?=\()|(?<!\w)_|_(?!\w))", r"\\\1", p) for p in parts)


def is_copy(d):
    """A constructor or an assignment that copies or moves."""
    copied = re.fullmatch(r"(?:const )?(\w+)&&?(?: \w+)?\)(?: noexcept)?", parameters(d))
    return d.kind == "function" and (d.name == "operator=" or copied is not None and copied.group(1) == d.name)


def parameters(d):
    return d.signature.partition("(")[2]


def is_stale(root):
    path = Path(root) / PAGE
    return not path.exists() or path.read_text(encoding="utf-8") != Library(root).page()


def write(root):
    path = Path(root) / PAGE
    path.write_text(Library(root).page(), encoding="utf-8")
    return path


def document(library, entry):
    return {"name": entry.full_name, "kind": entry.kind, "group": entry.group, "signature": entry.signature, "file": entry.file,
            "line": entry.line, "description": entry.description, "dtypes": entry.dtypes, "on_cpu": entry.on_cpu, "errors": entry.codes,
            "members": [e.signature for e in library.members(entry)]}


def command(console, name, fail):
    """Runs `tt api`: prints the groups, or the entries of a name and its relatives. Returns the exit code."""
    library = Library(Path(__file__).resolve().parents[1])
    if not name:
        groups = {group: [e for e in library.entries if e.group == group and e.kind != "field" and not e.owner] for group, _ in GROUPS}
        for group, entries in groups.items():
            names = list(dict.fromkeys(e.name for e in entries))
            console.say(f"{group}, {len(names)} names")
            console.say(textwrap.fill(", ".join(names), 110, initial_indent="  ", subsequent_indent="  ", break_long_words=False))
        console.say("\nmodules/tt api NAME prints the entries of a name; " + PAGE + " is the whole index")
        console.result({"command": "api", "passed": True, "groups": {g: sorted({e.name for e in es}) for g, es in groups.items()}})
        return 0
    found, near = library.named(name), library.near_names(name)
    if not found:
        console.say(f"no public function or class is named {name}" + (f"; did you mean {', '.join(near)}?" if near else ""))
        console.result({"command": "api", "passed": False, "name": name, "near": near})
        return fail
    titles = json.loads((library.root / "modules" / "explain.json").read_text(encoding="utf-8"))
    for entry in found:
        say(library, entry, titles, console.say)
    relatives = library.relatives(name)
    if relatives:
        console.say("see also: " + ", ".join(relatives))
    console.result({"command": "api", "passed": True, "name": name, "entries": [document(library, e) for e in found],
                    "relatives": relatives})
    return 0


def say(library, entry, titles, say_line):
    say_line(f"{entry.full_name}  include/tinytorch/{entry.file}:{entry.line}")
    say_line(f"  {entry.signature}")
    text = entry.description or (library.summaries[entry.file] if entry.kind == "class" else "")
    for line in textwrap.wrap(text, 108, break_on_hyphens=False):
        say_line(f"  {line}")
    if entry.dtypes:
        say_line("  dtypes: " + ", ".join(entry.dtypes))
    if entry.on_cpu:
        say_line("  reads operands on the CPU: those on CUDA are copied there, and the host waits")
    members = library.members(entry)
    for member in members:
        say_line(f"    {member.signature}" + (f"  // {member.description}" if member.description else ""))
    for code in sorted({c for e in [entry, *members] for c in e.codes}):
        say_line(f"  {code}  {titles.get(code, {}).get('title', '')}")
    say_line("")
