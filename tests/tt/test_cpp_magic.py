"""Tests of notebooks/cpp_magic.py without IPython: the result of a cell, and the message for each kind of failure."""
import contextlib
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "notebooks"), str(ROOT / "modules")]
import course
import cpp_magic


class Cells(unittest.TestCase):
    def run_cell(self, cell, line="--fast", cuda=False):
        """(what the magic returned, what it printed)"""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            returned = cpp_magic.magic(line, cell, cuda)
        return returned, printed.getvalue()

    def failure_of(self, cell, line="--fast", cuda=False):
        with self.assertRaises(cpp_magic.Failed) as caught, contextlib.redirect_stdout(io.StringIO()):
            cpp_magic.magic(line, cell, cuda)
        # A notebook shows this text in place of Python's traceback.
        self.assertEqual(caught.exception._render_traceback_(), [str(caught.exception)])
        return str(caught.exception)

    def test_rows_are_returned_as_a_list_with_a_short_repr_and_other_lines_are_printed(self):
        rows, printed = self.run_cell(r'''
for (int i = 0; i < 50; ++i) std::printf("{\"x\": %d, \"y\": [%d, 1]}\n", i, i * i);
std::printf("a word\n{not a row}\n");''')
        self.assertIsInstance(rows, list)
        self.assertEqual(rows, [{"x": i, "y": [i * i, 1]} for i in range(50)])
        self.assertEqual(repr(rows), "50 rows, the first: {'x': 0, 'y': [0, 1]}")
        self.assertEqual(printed, "a word\n{not a row}\n")

    def test_a_cell_without_rows_returns_nothing(self):
        self.assertEqual(self.run_cell('std::printf("alone\\n");'), (None, "alone\n"))

    def test_a_cell_with_main_is_a_program(self):
        rows, _ = self.run_cell('#include <cmath>\nint twice(int x) { return 2 * x; }\n'
                                'int main() { std::printf("{\\"x\\": %d}\\n", twice(21)); }')
        self.assertEqual(rows, [{"x": 42}])

    def test_a_compile_error_names_the_line_of_the_cell(self):
        for before, after in (("", ""), ("int main() {\n", "}\n")):
            with self.subTest(main=bool(before)):
                why = self.failure_of(f"{before}int a = 1;\nint b = a + unknown_name;\n{after}")
                self.assertRegex(why, rf"\Athe compiler ended with 1\ncell:{3 if before else 2}:\d+: error: .*unknown_name")

    def test_a_linker_error_is_reported(self):
        why = self.failure_of("int elsewhere();\nint main() { return elsewhere(); }")
        self.assertRegex(why, r"\Athe linker ended with 1\n.*undefined reference to .elsewhere")

    def test_an_unknown_flag_is_reported_with_the_list_of_flags(self):
        self.assertEqual(self.failure_of("", "--student --quick"), "unknown flags: --quick; the flags are --student, --fast, --emulator, --count")
        self.assertIn("--fast is for %%cpp", self.failure_of("", "--fast", cuda=True))

    def test_a_crash_is_reported_with_the_output_before_it(self):
        why = self.failure_of('std::puts("so far");\nstd::fflush(stdout);\n*static_cast<volatile int*>(nullptr) = 1;')
        self.assertRegex(why, r"\Aso far\n(.|\n)*the program ended with -11 \(SIGSEGV\)\Z")

    def test_an_exit_code_and_an_exception_are_failures(self):
        self.assertRegex(self.failure_of("return 3;"), r"the program ended with 3\Z")
        why = self.failure_of('#include <stdexcept>\nint main() { throw std::runtime_error("out of patience"); }')
        self.assertIn("out of patience", why)
        self.assertRegex(why, r"the program ended with -6 \(SIGABRT\)\Z")

    def test_an_endless_loop_is_stopped(self):
        with mock.patch.object(cpp_magic, "SECONDS", 1):
            why = self.failure_of("for (volatile int i = 0;; ++i) {}")
        self.assertRegex(why, r"the program was stopped after 1 s\Z")

    def test_a_fast_cell_is_optimized_for_this_machine_and_has_threads(self):
        rows, _ = self.run_cell('#include <tinytorch/core/parallel.hpp>\nint main() {\n'
                                '  std::printf("{\\"optimized\\": %d, \\"openmp\\": %d, \\"threads\\": %d}\\n",\n'
                                '              __OPTIMIZE__, _OPENMP > 0, tt::thread_count());\n}')
        self.assertEqual((rows[0]["optimized"], rows[0]["openmp"]), (1, 1))
        self.assertGreaterEqual(rows[0]["threads"], 1)

    def test_an_unchanged_cell_is_not_compiled_again(self):
        cell = f'std::puts("compiled once, {os.getpid()}");'
        compiled = []
        first = course.Workshop.compile_if_changed

        def watched(shop, target, record, command):
            before = target.stat().st_mtime_ns if target.exists() else None
            done = first(shop, target, record, command)
            if target.exists() and target.stat().st_mtime_ns != before:
                compiled.append(target)
            return done
        with mock.patch.object(course.Workshop, "compile_if_changed", watched):
            for _ in range(3):
                self.run_cell(cell)
        self.assertEqual(len(compiled), 1)

    def test_objects_of_old_cells_are_deleted(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for i in range(5):
                (folder / f"{i}.o").touch()
                os.utime(folder / f"{i}.o", (i, i))
            with mock.patch.object(cpp_magic, "KEPT", 2):
                cpp_magic.forget_old_cells(folder, folder / "absent")
            self.assertEqual(sorted(p.name for p in folder.iterdir()), ["3.o", "4.o"])

    def test_without_the_headers_the_message_names_the_variable_to_set(self):
        with mock.patch.object(cpp_magic, "ROOT", None):
            self.assertIn("set TINYTORCH", self.failure_of(""))


class Extension(unittest.TestCase):
    def test_both_magics_are_registered(self):
        shell = mock.Mock()
        cpp_magic.load_ipython_extension(shell)
        self.assertEqual([call.args[1:] for call in shell.register_magic_function.call_args_list], [("cell", "cpp"), ("cell", "cuda")])


if __name__ == "__main__":
    unittest.main()
