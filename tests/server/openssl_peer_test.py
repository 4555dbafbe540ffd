"""Another TLS library at the server's port, `openssl s_client`: what a device never sends. With its key it has a
session. A ClientHello of 2 KB is taken. Without a common group, after a KeyUpdate, and under an unknown name it hears
one alert, whose cause stands in the server's log. Without openssl it is skipped, and says so.
"""

import contextlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import fleet  # noqa: E402

SKIPPED = 77
SECONDS_MAX = 30
CONNECTED = "TLSv1.3, Cipher is TLS_AES_128_GCM_SHA256"
# Names of protocols, which nobody asks for: of 17 bytes each with their length, so that a ClientHello has 2,000.
LONG = ["-alpn", ",".join(f"{number:016d}" for number in range(98))]
TOO_LONG = ["-alpn", ",".join(f"{number:016d}" for number in range(150))]


def check(holds, what):
    if not holds:
        raise SystemExit("FAIL: " + what)


class Peer:
    """One run of s_client, which shows each message."""

    def __init__(self, port, identity, *more, key="", typed=None):
        words = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_3", "-ciphersuites",
                 "TLS_AES_128_GCM_SHA256", "-groups", "X25519", "-msg", "-psk_identity", identity, "-psk", key, *more]
        self.process = fleet.Process("openssl", words)
        if typed is not None:
            check(self.process.wait_for_line(CONNECTED, SECONDS_MAX), "\n".join(self.process.lines))
            self.process.type(typed)

    def end(self):
        """All that it said, to its end."""
        self.process.wait(SECONDS_MAX)
        self.process.stop()
        return "\n".join(self.process.lines)


def alerts(said):
    """The fatal ones that it read."""
    return re.findall(r"<<< TLS 1\.[23], Alert \[length 0002\], fatal (\w+)", said)


def hello_size(said):
    return int(re.search(r">>> TLS 1\.3, Handshake \[length (\w+)\], ClientHello", said)[1], 16)


def main():
    if shutil.which("openssl") is None:
        print("openssl_peer: skipped: openssl is missing (apt-get install openssl)")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="gradstream-openssl-") as folder, contextlib.ExitStack() as stack:
        home, port = pathlib.Path(folder), fleet.free_port()
        config = home / "fleet.toml"
        config.write_text(f'[server]\nlisten = "127.0.0.1:{port}"\ndatabase = "{home}/gradstream.db"\n'
                          '[run]\nname = "openssl"\nproblem = "kpca"\nrows = 4\ncols = 2\ndevice_count = 1\n')
        fleet.command([fleet.SERVER, "device", "add", "kitchen", "--config", config, "--out", home / "identity"],
                      "enrolling")
        key = re.search(r"(?m)^key = (\w{64})$", (home / "identity").read_text(encoding="ascii"))[1]
        server = fleet.Process("server", [fleet.SERVER, "serve", "--config", config])
        stack.callback(server.stop)
        check(server.wait_for_line("event=listening", SECONDS_MAX), "\n".join(server.lines))

        def named(event, *words):
            line = server.wait_for_line(f"event={event} ", SECONDS_MAX)
            check(line is not None and all(word in line for word in words), f"{event}: {line}")

        said = Peer(port, "kitchen", key=key, typed="K\n").end()
        check(alerts(said) == ["unexpected_message"], f"after a KeyUpdate: {alerts(said)}\n{said}")
        named("tls_protocol", "identity=kitchen", "unexpected message")

        said = Peer(port, "kitchen", *LONG, key=key, typed="Q\n").end()
        check(1900 < hello_size(said) <= 2048 and not alerts(said), f"a long ClientHello:\n{said}")

        said = Peer(port, "kitchen", *TOO_LONG, key=key).end()
        check(hello_size(said) > 2048 and alerts(said) == ["record_overflow"], f"a longer one: {alerts(said)}\n{said}")
        named("tls_hello_too_large", "2,048")

        said = Peer(port, "kitchen", "-groups", "P-384", key=key).end()
        check(alerts(said) == ["handshake_failure"], f"without a common group: {alerts(said)}\n{said}")
        named("tls_no_group", "identity=kitchen", "x25519 or P-256")

        said = Peer(port, "nobody", key=key).end()
        check(len(alerts(said)) == 1, f"an unknown identity: {alerts(said)}\n{said}")
        named("tls_unknown_identity", "identity=nobody")
    print("openssl_peer: one alert each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
