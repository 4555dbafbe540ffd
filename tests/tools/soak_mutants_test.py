#!/usr/bin/python3
"""Which guards ./run soak mutants finds in a text and how it changes them, and that what is explained still stands."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import soak_mutants  # noqa: E402

TEXT = """\
Status take(const Chunk& chunk) {
  if (chunk.size > kSizeMax || chunk.text == "a ) < {") {  // < no operator
    return Status::kProtocolError;
  }
  GS_TRY(check_place(chunk));
  if (const size_t rest = left(chunk); rest < 4) return Status::kOk;
  if (chunk.size > 2) {
    ++count_;
  }
  return is_known && chunk.size <= 8;
}
"""
CHANGED = [
    'if (!(chunk.size > kSizeMax || chunk.text == "a ) < {")) { // < no operator',
    'if (false && (chunk.size > kSizeMax || chunk.text == "a ) < {")) { // < no operator',
    'if (chunk.size >= kSizeMax || chunk.text == "a ) < {") { // < no operator',
    'if (chunk.size > kSizeMax && chunk.text == "a ) < {") { // < no operator',
    "if (false) { GS_TRY(check_place(chunk)); }",
    "if (const size_t rest = left(chunk); !(rest < 4)) return Status::kOk;",
    "if (const size_t rest = left(chunk); false && (rest < 4)) return Status::kOk;",
    "if (const size_t rest = left(chunk); rest <= 4) return Status::kOk;",
    "return is_known || chunk.size <= 8;",
    "return is_known && chunk.size < 8;",
]


class Mutants(unittest.TestCase):
    def test_guards_are_changed_and_nothing_else(self):
        mutants = soak_mutants.mutants_of("a/b.cc", TEXT)
        self.assertEqual([mutant.name for mutant in mutants], [f"a/b.cc: {line}" for line in CHANGED])
        self.assertEqual([mutant.line for mutant in mutants], [2] * 4 + [5] + [6] * 3 + [10] * 2)

    def test_equal_lines_have_numbers(self):
        names = [mutant.name for mutant in soak_mutants.mutants_of("a/b.cc", "  GS_TRY(f());\n  GS_TRY(f());\n")]
        self.assertEqual(names, ["a/b.cc: if (false) { GS_TRY(f()); }", "a/b.cc: if (false) { GS_TRY(f()); } #2"])

    def test_a_seed_makes_one_order(self):
        rooms = list(soak_mutants.ROOMS)
        first = [mutant.name for mutant in soak_mutants.chosen(1, rooms, [])]
        self.assertEqual(first, [mutant.name for mutant in soak_mutants.chosen(1, rooms, [])])
        self.assertNotEqual(first, [mutant.name for mutant in soak_mutants.chosen(2, rooms, [])])
        self.assertEqual([name.rpartition("/")[0].partition(":")[0] for name in first[:len(rooms)]], rooms)

    def test_what_is_explained_still_stands(self):
        reasons = soak_mutants.explained(soak_mutants.EXPLAINED.read_text(encoding="utf-8"))
        names = {mutant.name for room in soak_mutants.ROOMS for mutant in soak_mutants.all_mutants(room)}
        self.assertEqual([name for name in reasons if name not in names], [])
        self.assertEqual([name for name, reason in reasons.items() if not reason], [])


if __name__ == "__main__":
    unittest.main()
