"""`tt notebook`: the notebooks that it finds, and the outputs that are stored in them."""
import json
import re
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "modules"))
import notebook
from course import Course, CourseError


def tt(*arguments):
    done = subprocess.run([sys.executable, str(ROOT / "modules" / "tt"), "notebook", *arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def notebook_of(*outputs):
    cells = [{"cell_type": "markdown", "source": ["# A title\n"]}]
    return {"cells": cells + [{"cell_type": "code", "source": [], "outputs": list(output)} for output in outputs]}


class Finding(unittest.TestCase):
    def test_every_module_has_one_which_its_number_or_its_name_finds(self):
        for module in Course().modules:
            for name in (module.number, module.id, module.id[3:], f"{module.id}.ipynb"):
                self.assertEqual(notebook.find(name).stem, module.id)
        self.assertEqual(notebook.find("1").stem, "01_tensor")
        self.assertEqual(notebook.find("subspaces").stem, "subspaces")

    def test_without_a_name_all_are_listed_and_a_similar_name_is_suggested(self):
        code, text = tt()
        self.assertEqual(code, 0)
        self.assertRegex(text, r"01_tensor +01 Tensors: the laboratory\n")
        code, text = tt("tensr")
        self.assertEqual(code, 2)
        self.assertIn("did you mean tensor", text)

    def test_without_packages_it_says_what_could_not_be_installed(self):
        console = mock.Mock()
        with mock.patch.object(notebook, "packages", lambda *_: "no network"), mock.patch.object(notebook, "set_up"):
            with self.assertRaisesRegex(Exception, "could not be installed from PyPI:\nno network"):
                notebook.command(console, "01", False, False)


class Storing(unittest.TestCase):
    def test_pictures_and_printed_lines_are_stored_and_nothing_else(self):
        rows = {"output_type": "execute_result", "data": {"text/plain": ["[a list]"]}, "execution_count": 3}
        printed = {"output_type": "stream", "name": "stdout", "text": [f"{ROOT}/include/a.hpp:1\n", "two\n"]}
        warned = {"output_type": "stream", "name": "stderr", "text": ["a warning\n"]}
        picture = {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": ["<Figure size 1100x400>"]}, "metadata": {}}
        stored = notebook.with_outputs(notebook_of([], []), notebook_of([rows, printed, warned], [picture]), lambda png: png.lower())
        first, second = (cell["outputs"] for cell in stored["cells"][1:])
        self.assertEqual(first, [{"output_type": "stream", "name": "stdout", "text": ["include/a.hpp:1\n", "two\n"]}])
        self.assertEqual([o["data"]["image/png"] for o in second], ["aaaa"])

    def test_large_outputs_are_refused(self):
        printed = {"output_type": "stream", "name": "stdout", "text": ["x" * notebook.STORED_BYTES]}
        with self.assertRaisesRegex(CourseError, "draw fewer or smaller pictures"):
            notebook.with_outputs(notebook_of([]), notebook_of([printed]))

    def test_stored_outputs_are_small_and_name_no_machine(self):
        with_pictures = 0
        for path in notebook.all_notebooks():
            outputs = json.dumps([c.get("outputs", []) for c in json.loads(path.read_text(encoding="utf-8"))["cells"]])
            self.assertLessEqual(len(outputs), notebook.STORED_BYTES * 1.05, path.name)
            self.assertIsNone(re.search(r"(?<![\w/])/(?:home|root|tmp|work|Users)/", outputs), path.name)
            with_pictures += "image/png" in outputs
        self.assertGreaterEqual(with_pictures, 1)


if __name__ == "__main__":
    unittest.main()
