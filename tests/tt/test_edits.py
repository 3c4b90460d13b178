"""Every wrong and every slow answer is an edit of the solution as it is now, so that a change of a header that the course builds on cannot
break one unnoticed."""
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "modules"))
import course  # noqa: E402


class Edits(unittest.TestCase):
    def test_wrong_and_slow_answers_edit_texts_of_the_solution(self):
        answers = 0
        for module in course.Course().modules:
            for task in module.tasks:
                for folder in ("wrong", "slow"):
                    if not (module.folder / folder / f"{task.slug}.txt").exists():
                        continue
                    with self.subTest(task=task.id, folder=folder):
                        answers += len(module.wrong_answers(task, folder))
        self.assertGreater(answers, 1000)


if __name__ == "__main__":
    unittest.main()
