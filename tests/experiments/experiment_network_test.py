#!/usr/bin/python3
"""./run experiment --network as processes: a case over TLS ends with the simulator's model, and another model fails.

    experiment_network_test.py PROGRAM   (gradstream-experiment; server and client are those of GS_BUILD_DIR)
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import experiment

PROGRAM = None
# Of d_zofl: five devices, five local steps, corrections that come down with every version.
CASE = "iris/het/tau5/FO/corr"
ROUNDS = 2


class Network(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gradstream-network-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def simulate(self):
        status, last, cases = experiment.run_program([
            PROGRAM, "d_zofl", "--case", CASE, "--rounds", ROUNDS, "--results", self.folder / "results",
            "--network-folder", self.folder])
        self.assertEqual((status, len(cases)), (0, 1), last)
        self.assertTrue(cases[0][0].startswith(CASE), cases)
        self.assertEqual(cases[0][2], "5")
        return last, cases[0]

    def test_has_the_model_of_the_simulator(self):
        last, case = self.simulate()
        self.assertTrue(experiment.NetworkCase(case).run())
        self.assertRegex(last, r"^result: name=d_zofl seed=1 passed=1 precision=float cases=1 references=2 ")

    def test_output_that_nobody_gets_is_an_error(self):
        words = [PROGRAM, "d_zofl", "--case", CASE, "--rounds", str(ROUNDS), "--results", self.folder / "results"]
        for more, code in (((), 10), (("--help",), 10), (("--fly",), 2)):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([*words, *more], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, code, f"{more}: {done.stderr}")
        closed = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', *words], capture_output=True, text=True, check=False)
        self.assertEqual(closed.returncode, 8, closed.stderr)
        self.assertIn("gradstream-experiment: error: standard output cannot be written: it is closed", closed.stderr)

    def test_clients_are_given_the_ridge_of_their_problem(self):
        status, last, cases = experiment.run_program([
            PROGRAM, "X6", "--case", "r3/AGS/K4", "--rounds", ROUNDS, "--results", self.folder / "results",
            "--network-folder", self.folder])
        if "skipped=1" in last:
            self.skipTest("the School data are not here")
        self.assertEqual((status, len(cases)), (0, 1), last)
        self.assertTrue(experiment.NetworkCase(cases[0]).run())

    def test_an_experiment_without_a_case_for_it_is_refused_by_name(self):
        done = subprocess.run([PROGRAM, "X14", "--results", self.folder / "results", "--network-folder", self.folder],
                              capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("--network: no case of X14 runs over connections", done.stderr)
        self.assertEqual(done.stdout, "result: verb=experiment error=usage\n")

    def test_means_are_refused_where_they_mean_nothing(self):
        for options, said in (["X5", "--means"], "--means: the references of X5 are no means of seeds; X1 to X4"), \
                             (["X1", "--means", "--seed", "2"], "--seed excludes --means"), \
                             (["X1", "--means", "--case", "K8"], "--case excludes --means"):
            done = subprocess.run([PROGRAM, *options, "--results", self.folder / "results"], capture_output=True,
                                  text=True, check=False, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (2, "result: verb=experiment error=usage\n"), options)
            self.assertIn(said, done.stderr)

    def test_seeds_run_one_after_the_other(self):
        done = subprocess.run([PROGRAM, "d_zofl", "--case", CASE, "--rounds", "2", "--seeds", "2-3", "--results",
                               self.folder / "results"], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"result: name=d_zofl seeds=2-3 passed=1 complete=1 precision=float "
                                      r"experiments_passed=2 failed=0 skipped=0 seconds=\d+\n$")
        made = sorted(path.name for path in (self.folder / "results" / "d_zofl").iterdir())
        self.assertEqual(made, ["seed2", "seed3"])

    def test_a_seed_that_fails_fails_the_range(self):
        path = self.folder / "file"
        path.write_text("", encoding="ascii")
        done = subprocess.run([PROGRAM, "d_zofl", "--case", CASE, "--rounds", "1", "--seeds", "1-2", "--results",
                               path], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 1, done)
        self.assertRegex(done.stdout, r"passed=0 complete=1 .* experiments_passed=0 failed=2 skipped=0 seconds=\d+\n$")

    def test_wrong_options_are_named(self):
        for options, code, said in (
                (["--seed", "-1"], 2, "--seed: Value -1 not in range 1 to 4294967295"),
                (["--seed", "0"], 2, "--seed: Value 0 not in range 1 to 4294967295"),
                (["--seeds", "1-3", "--seed", "2"], 2, "--seed excludes --seeds"),
                (["--seeds", "3-1"], 2, "'3-1' is no range of seeds such as 1-3, which begin at 1"),
                (["--seeds", "0-2"], 2, "'0-2' is no range of seeds"), (["--seeds", "1-2x"], 2, "'1-2x' is no range"),
                (["--seeds", "4"], 2, "'4' is no range"), (["--seeds", "1-4294967296"], 2, "is no range of seeds"),
                (["--seeds", "1-101"], 2, "'1-101' has more than 100 seeds: split it"),
                (["--network-folder", "/proc/none"], 1,
                 "DOES NOT HOLD  files for a run over connections are written to /proc/none\n")):
            done = subprocess.run([PROGRAM, "d_zofl", "--case", CASE, "--rounds", "1", "--results",
                                   self.folder / "results", *options], capture_output=True, text=True, check=False,
                                  timeout=60)
            self.assertEqual(done.returncode, code, done)
            self.assertIn(said, done.stdout + done.stderr)

    def test_another_model_does_not_hold(self):
        _, (*case, digest) = self.simulate()
        self.assertFalse(experiment.NetworkCase((*case, f"{int(digest, 16) ^ 1:016x}")).run())


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1))
    unittest.main()
