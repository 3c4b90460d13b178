"""`tt notebook`: runs or opens the laboratory of a module, with Jupyter and matplotlib in an environment of their own.

  modules/tt notebook 01            executes it, and writes a page: build/notebooks/01_tensor.html
  modules/tt notebook 01 --open     opens it in a browser, to change cells
  modules/tt notebook 01 --store    executes it, and stores the outputs in the notebook, so that they show on the web

`store` is run by the environment's Python, which has Pillow: python modules/notebook.py EXECUTED NOTEBOOK
"""
import base64
import io
import json
import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from course import CourseError, similar, write_whole
from tools import FAIL, PASS, ROOT, SetupProblem, call, set_up, tail

FOLDER, PAGES = ROOT / "notebooks", ROOT / "build" / "notebooks"
VENV, VENV_LOCK = ROOT / "build" / "notebook-venv", threading.Lock()
PYTHON = VENV / "bin" / "python"
STORED_BYTES, COLORS = 400_000, 128  # of the outputs of a notebook; of a picture

# Compiles the libraries that all notebooks link.
LIBRARY = """import cpp_magic
cpp_magic.magic("", "", False)
cpp_magic.magic("--emulator", "int main() {}", True)
"""


def packages(*more):
    """Installs the packages that execute notebooks, and others, once; returns an error message, or ""."""
    with VENV_LOCK:
        wanted, ready = {"nbconvert", "ipykernel", "matplotlib", *more}, VENV / "ready"
        known = set(ready.read_text().split()) if ready.exists() else None
        if known is not None and wanted <= known:
            return ""
        made = call([sys.executable, "-m", "venv", *([] if known is not None else ["--clear"]), VENV], 300)
        if made.code == 0:
            made = call([PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", *sorted(wanted)], 600)
        if made.code != 0:
            return tail(made.text)
        ready.write_text(" ".join(sorted(wanted | (known or set()))))
        return ""


def environment(base=None):
    return {**(os.environ if base is None else base), "TINYTORCH_RACE": str(ROOT / "build" / "race" / "race.json"),
            "IPYTHONDIR": str(VENV / "ipython"), "PYTHONDONTWRITEBYTECODE": "1"}


def all_notebooks():
    return sorted(FOLDER.glob("*.ipynb"))


def find(name):
    """A notebook by the number or the name of its module, or by its own name."""
    known = all_notebooks()
    found = [p for p in known if name in (p.stem, p.name, p.stem[3:]) or name.isdigit() and p.stem.startswith(name.zfill(2) + "_")]
    if not found:
        words = [p.stem for p in known] + [p.stem[3:] for p in known if p.stem[:2].isdigit()]
        raise CourseError(f"no notebook {name}{similar(name, words)}\n  there are {', '.join(p.stem for p in known)}")
    return found[0]


def executes(path, form, folder):
    """The command that executes all cells, and writes a page (form "html") or the notebook with its outputs (form "notebook")."""
    return [PYTHON, "-m", "nbconvert", "--to", form, "--execute", "--output-dir", folder, path]


def why_failed(done):
    """The part of nbconvert's output that is of interest."""
    return "    it did not end in time" if done.timed_out else tail(done.text.rpartition("CellExecutionError: ")[2])


def command(console, name, opens, stores):
    if name is None:
        for path in all_notebooks():
            first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"]
            console.say(f"  {path.stem:<18}{''.join(first).partition(chr(10))[0].lstrip('# ')}")
        console.say("`modules/tt notebook 01` executes one, `--open` opens it in a browser")
        console.result({"command": "notebook", "passed": True, "notebooks": [p.stem for p in all_notebooks()]})
        return PASS
    path = find(name)
    for need in ("run", "learn", "notebook"):
        set_up(console, need)
    if not PYTHON.exists():
        console.say(f"installing Jupyter and matplotlib into {VENV.relative_to(ROOT)} (once) \u2026")
    why = packages(*(["jupyterlab"] if opens else []))
    if why:
        raise SetupProblem(f"Jupyter could not be installed from PyPI:\n{why}")
    if opens:
        console.say("Jupyter opens a browser, or prints the address to open; Ctrl-C ends it")
        code = call([PYTHON, "-m", "jupyterlab", "--ServerApp.root_dir", FOLDER, path], 7 * 86400, capture=False, env=environment()).code
        return PASS if code == 0 else FAIL
    began = time.monotonic()
    console.say(f"executing {path.relative_to(ROOT)} (the first time compiles the library, which takes a minute) \u2026")
    done = call(executes(path, "notebook" if stores else "html", PAGES), 1200, env=environment())
    page = PAGES / (path.name if stores else f"{path.stem}.html")
    if done.code == 0 and stores:
        done, page = call([PYTHON, Path(__file__).resolve(), page, path], 300), path
    console.say(f"{page.relative_to(ROOT)} is written, {time.monotonic() - began:.0f} s" if done.code == 0 else f"a cell failed:\n{why_failed(done)}")
    console.result({"command": "notebook", "passed": done.code == 0, "page": str(page)})
    return PASS if done.code == 0 else FAIL


# --- Storing outputs ----------------------------------------------------------------------------------------------

def smaller(picture):
    """A PNG in base64 with few colours, which takes a third of the bytes."""
    from PIL import Image
    held = io.BytesIO()
    whole = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    whole.quantize(COLORS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(held, "PNG", optimize=True)
    return base64.b64encode(held.getvalue()).decode()


def with_outputs(notebook, executed, shrink=smaller):
    """The notebook with the outputs of its executed copy: pictures and printed text, without the rows of numbers that cells return, times
    of execution and paths of this machine."""
    for cell, done in zip(notebook["cells"], executed["cells"]):
        if cell["cell_type"] != "code":
            continue
        cell["outputs"] = []
        for output in done["outputs"]:
            text = output.get("text")
            if output["output_type"] == "stream" and output["name"] == "stdout":
                lines = "".join(text).replace(str(ROOT) + os.sep, "")
                cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": lines.splitlines(keepends=True)})
            elif "image/png" in output.get("data", {}):
                cell["outputs"].append({"output_type": "display_data", "metadata": {}, "data": {
                    "image/png": shrink("".join(output["data"]["image/png"])), "text/plain": ["a plot"]}})
    size = sum(len(json.dumps(c["outputs"])) for c in notebook["cells"] if c["cell_type"] == "code")
    if size > STORED_BYTES:
        raise CourseError(f"the outputs have {size} bytes; at most {STORED_BYTES} are stored: draw fewer or smaller pictures")
    return notebook


def store(executed, target):
    read = lambda path: json.loads(Path(path).read_text(encoding="utf-8"))
    write_whole(Path(target), json.dumps(with_outputs(read(target), read(executed)), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    try:
        store(*sys.argv[1:])
    except CourseError as problem:
        sys.exit(str(problem))
