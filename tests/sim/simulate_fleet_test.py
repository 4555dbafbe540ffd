#!/usr/bin/python3
"""`gradstream-sim --fleet` as a user meets it: its last line, its CSV, its seed, and what it refuses.

    simulate_fleet_test.py PROGRAM
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "how-to" / "simulate.md"
PROGRAM = None
SECONDS_MAX = 60


def simulate(*arguments, code=0, fleet=200):
    done = subprocess.run([PROGRAM, "--fleet", str(fleet), "--days", "0.05", *map(str, arguments)], capture_output=True,
                          text=True, timeout=SECONDS_MAX, check=False)
    if done.returncode != code:
        raise AssertionError(f"{arguments}: exit {done.returncode}, wanted {code}\n{done.stdout}{done.stderr}")
    lines = done.stdout.splitlines()
    if not lines or not lines[-1].startswith("result: "):
        raise AssertionError(f"{arguments}: no last line `result: ...`\n{done.stdout}")
    return dict(re.findall(r"(\w+)=(\S+)", lines[-1])), done


class SimulateFleet(unittest.TestCase):
    def test_a_run_is_a_function_of_its_seed(self):
        first, done = simulate("--buffer", 20)
        again, _ = simulate("--buffer", 20)
        other, _ = simulate("--buffer", 20, "--seed", 2)
        self.assertEqual((first["devices"], first["days"], first["broken"]), ("200", "0.050", "0"))
        self.assertGreater(int(first["versions"]), 2)
        self.assertLess(float(first["gap"]), float(first["gap_first"]))
        self.assertEqual(first["digest"], again["digest"])
        self.assertNotEqual(first["digest"], other["digest"])
        self.assertRegex(done.stdout, r"(?m)^folded=\d+ late=\d+ abandoned=\d+ ")
        self.assertEqual(first["refused"], "0")

    def test_options_change_the_fleet(self):
        plain, _ = simulate("--buffer", 20)
        for option in (("--speeds", "constant"), ("--speeds", "lognormal"), ("--buffer", 0),
                       ("--awake-minutes", 20, "--cycle-minutes", 40), ("--loss-odds", 20)):
            changed, _ = simulate("--buffer", 20, *option) if option[0] != "--buffer" else simulate(*option)
            self.assertEqual(changed["broken"], "0", option)
            self.assertNotEqual(changed["digest"], plain["digest"], option)

    def test_nobody_is_refused_for_its_age_however_small_the_buffer(self):
        for speeds in ("constant", "mix"):
            fields, _ = simulate("--buffer", 1, "--speeds", speeds)
            self.assertEqual((fields["broken"], fields["refused"]), ("0", "0"), speeds)

    def test_the_csv_goes_by_virtual_time(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "gap.csv"
            simulate("--buffer", 20, "--csv", path)
            header, *rows = path.read_text(encoding="utf-8").splitlines()
        self.assertEqual(header, "virtual_s,version,gap,bytes_up,bytes_down")
        times = [float(row.split(",")[0]) for row in rows]
        self.assertGreater(len(times), 5)
        self.assertEqual(times, sorted(times))
        self.assertLessEqual(times[-1], 0.05 * 86400)

    def test_the_command_of_the_page_with_a_smaller_fleet(self):
        text = PAGE.read_text(encoding="utf-8")
        words = re.search(r"(?m)^    \./run simulate (.*)$", text)[1].replace(" 1000 ", " 100 ").replace(" 1 ", " 0.1 ")
        header = re.search(r"(?m)^    (virtual_s,.*)$", text)[1]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, *words.split()], cwd=folder, capture_output=True, timeout=SECONDS_MAX, check=True)
            path = pathlib.Path(folder) / words.split()[-1]
            self.assertEqual(path.read_text(encoding="utf-8").splitlines()[0], header)

    def test_what_cannot_be_is_refused_with_the_option(self):
        for option, word in ((("--awake-minutes", 60, "--cycle-minutes", 60), "--cycle-minutes"),
                             (("--csv", "/nonexistent/gap.csv"), "/nonexistent/gap.csv"),
                             (("--schedules", 5), "--schedules excludes --fleet"),
                             (("--speeds", "warp"), "--speeds")):
            fields, done = simulate(*option, code=2)
            self.assertEqual(fields, {"verb": "simulate", "error": "usage"})
            self.assertIn(word, done.stderr)
        done = subprocess.run([PROGRAM, "--days", "2"], capture_output=True, text=True, timeout=SECONDS_MAX,
                              check=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--days requires --fleet", done.stderr)
        fields, done = simulate("--buffer", 1, code=2, fleet=1026)
        self.assertEqual(fields, {"verb": "simulate", "error": "usage"})
        self.assertIn("raise staleness_max (at most 1024) or buffer_size", done.stderr)

    def test_several_aggregators_make_the_digest_of_one(self):
        """The command of the page, with its number of sums and with others, and with fewer devices."""
        text = PAGE.read_text(encoding="utf-8")
        words = re.search(r"(?m)^    \./run simulate (--devices .*) --aggregators 8$", text)[1]
        words = words.replace(" 2000 ", " 20 ").split()
        digests = set()
        for count in (1, 2, 8):
            done = subprocess.run([PROGRAM, *words, "--aggregators", str(count)], capture_output=True, text=True,
                                  timeout=SECONDS_MAX, check=True)
            digests.add(re.search(r"(?m)^result: .*\bdigest=([0-9a-f]{16}) broken=0\b", done.stdout)[1])
        self.assertEqual(len(digests), 1)

    def test_aggregators_that_cannot_be_are_refused_with_the_key(self):
        for words, reason in ((("2", "--correction", "memory"), "correction_form"),
                              (("2", "--stream", "tangent", "--buffer", "3"), "delay_rule"),
                              (("0",), "1 to 64"), (("65",), "1 to 64")):
            done = subprocess.run([PROGRAM, "--aggregators", *words], capture_output=True, text=True,
                                  timeout=SECONDS_MAX, check=False)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("--aggregators", done.stderr)
            self.assertIn(reason, done.stderr)

    def test_a_run_that_no_server_takes_is_refused_with_the_key(self):
        for words, reason in ((("--devices", "40000", "--correction", "memory"), "lower device_count"),
                              (("--devices", "2", "--buffer", "3"), "buffer_size, device_count")):
            done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(reason, done.stderr)

    def test_output_that_nobody_gets_is_an_error(self):
        small = ("--fleet", "20", "--days", "0.01")
        for words, code in ((small, 10), (("--schedules", "1"), 10), (("--help",), 10), (("--days", "2"), 2)):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=SECONDS_MAX, check=False)
            self.assertEqual(done.returncode, code, f"{words}: {done.stderr}")
            is_told = "gradstream-sim: error: standard output cannot be written: the disk is full" in done.stderr
            self.assertEqual(is_told, code == 10, done.stderr)
        closed = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', PROGRAM, *small], capture_output=True, text=True,
                                timeout=SECONDS_MAX, check=False)
        self.assertEqual(closed.returncode, 8, closed.stderr)
        self.assertIn("standard output cannot be written: it is closed", closed.stderr)

    def test_a_csv_that_cannot_be_written_is_an_error(self):
        _, done = simulate("--buffer", 20, "--csv", "/dev/full", code=1)
        self.assertIn("the CSV could not be written", done.stdout)


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)).absolute()
    unittest.main()
