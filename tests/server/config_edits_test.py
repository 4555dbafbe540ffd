#!/usr/bin/python3
"""No text that stands in a configuration ends the program: spoilt files, one after the other.

    config_edits_test.py [--edits N] [--seed S] [--every E] [--program FILE --client FILE]

Every byte stands behind `[`, `[[` and `[a.`, and N edits of a good file are drawn from the seed. First the program
reads each file by `serve --check-config`: its exit status is 0 or 3. Then a live server reads each by SIGHUP, while a
device trains: it says `reloaded` or `reload_failed`, and its versions go on. What is no file is among them: a pipe, a
folder, 5 GB, nothing. Exit status 0: all of it held.

--every E takes each E-th byte and edit, and all the rest. A sanitizer runs it so: a process under it starts slowly, and
toml_document_test reads each byte and 100,000 edits under it in one process.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GS_BUILD_DIR", ROOT / "build" / "dev"))
SHARD = struct.pack("<4sIIf", b"GSD1", 4, 8, 0.5) + struct.pack("<8f", *[0] * 8) + bytes(range(32))  # of 8 rows
SECONDS_MAX = 60   # of one answer
VERSIONS_MORE = 3  # that must come after the last file
GOOD_STATUS = (0, 3, 5)  # taken, refused, or an address of another machine

CONFIG = b"""# a fleet of one
[server]
listen = "127.0.0.1:0"
allow_psk_ke = false
[server.limits]
io_threads = 2
[run]
name = "test"
rows = 8
cols = 2
problem = "kpca"
centre = "none"
scale = "none"
direction_count = 4
device_count = 1
step_size = 1.5e-2
retry_min_ms = 1
retry_max_ms = 5
[demo]
when = 2020-01-01 12:00:00
list = [1, "two", {three = 3.0}]
"""
MARKS = [b"[", b"]", b"[[", b"{", b"}", b'"', b"'", b'"""', b"'''", b".", b"=", b",", b"#", b"\n", b"\r", b"\\", b"_",
         b"\0", b"\xc3\xa4", b"\xe2\x80\xa8", b"\xff", b"2020-01-01 1", b"1e999", b"[a.", b"_" * 120, b"[" * 40]


def spoil(text, draw):
    """One to four edits of a text, as an editor or a broken transfer makes them."""
    for _ in range(draw.randint(1, 4)):
        place, size = draw.randint(0, len(text)), draw.randint(1, 12)
        piece = text[place:place + size]
        text = draw.choice((
            text[:place] + bytes([draw.randint(0, 255)]) + text[place:],
            text[:place] + draw.choice(MARKS) + text[place:],
            text[:place] + text[place + size:],
            text[:place] + piece + text[place:],
            text[:place] + bytes([draw.randint(0, 255)]) + text[place + 1:],
            text[:place] + piece[::-1] + text[place + size:]))
    return text


def spoilt_texts(count, seed, every):
    """(name, content) of every file."""
    draw = random.Random(seed)
    for offset, begin in enumerate((b"[", b"[[", b"[a.")):
        for byte in range(offset % every, 256, every):
            yield f"{begin.decode()} and byte {byte}", CONFIG + begin + bytes([byte]) + b"]\nx = 1\n"
    yield "many names", b"[" + b"a." * 400000 + b"a]\n"
    yield "much nesting", b"x = " + b"[" * 400000
    yield "UTF-16", b"\xff\xfe" + CONFIG.decode().encode("utf-16-le")
    yield "a date before many underscores", b"x = 2020-01-0" + b"_" * 116 + b"1 12\n"
    for number in range(count // every):
        yield f"edit {number} of seed {seed}", spoil(CONFIG, draw)


def put(path, content):
    """A file, or what stands in the place of one."""
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    if content == "pipe":
        os.mkfifo(path)
    elif content == "folder":
        path.mkdir()
    elif content == "large":
        with open(path, "wb") as file:
            file.truncate(5 << 30)  # a hole: it takes no disk
    elif content != "nothing":
        path.write_bytes(content)


NO_FILES = [(what, what) for what in ("pipe", "folder", "large", "nothing")]


def check_all(program, home, files):
    """The failures of `serve --check-config`, as lines."""
    def check(numbered):
        number, (name, content) = numbered
        path = home / f"{number}.toml"
        put(path, content)
        try:
            done = subprocess.run([program, "serve", "--check-config", path, "--create"], cwd=home,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired:
            return f"{name}: no answer in {SECONDS_MAX} s"
        said = done.stderr.decode(errors="replace")
        is_named = done.returncode in (0, 5) or str(path) in said
        return "" if done.returncode in GOOD_STATUS and is_named else f"{name}: status {done.returncode}: {said[:300]}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [line for line in pool.map(check, enumerate(files)) if line]


class Server:
    """A server with one device that trains. Its log is read by a thread; wait() hears of each line."""

    def __init__(self, program, client, home):
        self.home, self.config = home, home / "live.toml"
        put(self.config, CONFIG)
        subprocess.run([program, "device", "add", "a", "--config", self.config, "--out", home / "a.id"], cwd=home,
                       stdout=subprocess.DEVNULL, timeout=SECONDS_MAX, check=True)
        (home / "a.gsd").write_bytes(SHARD)
        self.news = threading.Condition()
        self.answers, self.version, self.is_over, self.port, self.last = 0, -1, False, None, []
        self.answer = ""  # the newest line that answers a SIGHUP; `last` has room for some versions' lines alone
        self.child = subprocess.Popen([program, "serve", "--config", self.config], cwd=home, stderr=subprocess.PIPE)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        self.wait(lambda: self.port is not None, "a port")
        self.device = subprocess.Popen([client, "--server", f"127.0.0.1:{self.port}", "--identity", home / "a.id",
                                        "--data", home / "a.gsd", "--no-floors", "--retry-ms", "20"],
                                       stderr=subprocess.DEVNULL)

    def read(self):
        for line in self.child.stderr:
            text = line.decode(errors="replace")
            with self.news:
                self.last = self.last[-20:] + [text[:300]]
                if re.search(r"event=reload(ed|_failed) ", text):
                    self.answers, self.answer = self.answers + 1, text
                if found := re.search(r"event=version version=(\d+)", text):
                    self.version = int(found[1])
                if found := re.search(r"event=listening .*port=(\d+)", text):
                    self.port = int(found[1])
                self.news.notify_all()
        with self.news:
            self.is_over = True
            self.news.notify_all()

    def wait(self, is_met, what):
        with self.news:
            if not self.news.wait_for(lambda: self.is_over or is_met(), SECONDS_MAX) or not is_met():
                raise AssertionError(f"the server never had {what}:\n" + "".join(self.last))

    def hang_up(self, name, content):
        """It reads the file, and answers."""
        put(self.config, content)
        wanted = self.answers + 1
        self.child.send_signal(signal.SIGHUP)
        self.wait(lambda: self.answers >= wanted, f"an answer to: {name}")

    def go_on(self):
        wanted = self.version + VERSIONS_MORE
        self.wait(lambda: self.version >= wanted, f"version {wanted}")

    def stop(self):
        self.device.kill()
        self.device.wait()
        self.child.send_signal(signal.SIGTERM if not self.is_over else 0)
        status = self.child.wait(SECONDS_MAX)
        self.reader.join()
        self.child.stderr.close()
        return status


def hang_up_all(program, client, home, files):
    """The failures of the live server, as lines. The first ends it."""
    server = Server(program, client, home)
    failures = []
    try:
        server.go_on()
        for name, content in files:
            server.hang_up(name, content)
        server.go_on()
        server.hang_up("the good file", CONFIG)
        if "event=reloaded" not in server.answer:
            failures.append(f"the good file is refused at the end: {server.answer}")
    except AssertionError as failure:
        failures.append(str(failure))
    finally:
        status = server.stop()
    return failures + ([f"the server ended with status {status}"] if status != 0 else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, choices=range(1, 257), metavar="E")
    parser.add_argument("--program", type=pathlib.Path, default=BUILD / "server" / "gradstream")
    parser.add_argument("--client", type=pathlib.Path, default=BUILD / "boards" / "posix" / "gradstream-client")
    arguments = parser.parse_args()
    files = list(spoilt_texts(arguments.edits, arguments.seed, arguments.every)) + NO_FILES
    home = pathlib.Path(tempfile.mkdtemp(prefix="gradstream_"))
    try:
        failures = check_all(arguments.program, home, files)
        failures += hang_up_all(arguments.program, arguments.client, home, files)
    finally:
        shutil.rmtree(home)
    for line in failures[:20]:
        print(line)
    print(f"result: files={len(files)} failures={len(failures)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
