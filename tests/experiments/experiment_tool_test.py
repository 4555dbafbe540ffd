#!/usr/bin/python3
"""./run experiment --network: its last line is the experiment's own result, and says what the runs over TLS came to."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import experiment

RESULT = "result: name=X1 seed=1 passed=1 precision=float cases=9 references=4 criteria=12 failed=0 seconds=3\n"


class ResultLine(unittest.TestCase):
    def test_names_the_experiment_and_the_network(self):
        self.assertEqual(experiment.with_network(RESULT, 50, [True, True]),
                         "result: name=X1 seed=1 passed=1 precision=float cases=9 references=4 criteria=12 failed=0 "
                         "seconds=3 network_rounds=50 network_cases=2 same_models=2\n")

    def test_fails_with_another_model(self):
        line = experiment.with_network(RESULT, 50, [True, False])
        self.assertIn(" passed=0 ", line)
        self.assertIn(" network_cases=2 same_models=1\n", line)

    def test_fails_without_a_run(self):
        self.assertIn(" passed=0 ", experiment.with_network(RESULT, 50, []))

    def test_fails_with_the_experiment(self):
        line = experiment.with_network(RESULT.replace("passed=1", "passed=0"), 50, [True])
        self.assertEqual(line.split()[1:4], ["name=X1", "seed=1", "passed=0"])


if __name__ == "__main__":
    unittest.main()
