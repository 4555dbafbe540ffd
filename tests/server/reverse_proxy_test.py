"""Debian's nginx in front of the server's HTTP port, as docs/how-to/watch.md configures both: the page, its files,
/status and /metrics pass, under the name that nginx passes on; without `http_hosts` each is refused by name. A token
passes too. Everything listens on 127.0.0.1. Without nginx it is skipped, and says so.
"""

import contextlib
import pathlib
import re
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import fleet  # noqa: E402

SKIPPED = 77
SECONDS_MAX = 30
NAME = "fleet.example.org"
TOKEN = "0123456789abcdef0123456789abcdef"
PATHS = ("/", "/page.js", "/page.css", "/status", "/status/devices", "/metrics", "/healthz", "/readyz")
# One process without a privilege, which keeps everything in its folder.
NGINX = """
daemon off;
master_process off;
pid {home}/nginx.pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {home}/body;
  proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/fastcgi;
  uwsgi_temp_path {home}/uwsgi;
  scgi_temp_path {home}/scgi;
  {site}
}}
"""


def check(holds, what):
    if not holds:
        raise SystemExit("FAIL: " + what)


def documented(language):
    """What the page shows behind its heading, in that language."""
    page = (fleet.ROOT / "docs" / "how-to" / "watch.md").read_text(encoding="utf-8")
    section = page[page.index("\n## Behind a reverse proxy\n"):]
    return re.search(rf"```{language}\n(.*?)```", section, re.S)[1]


def ask(port, path, **headers):
    """Status and body through the proxy, by its name."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": NAME} | headers)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read()


@contextlib.contextmanager
def playing(*processes):
    try:
        yield
    finally:
        for process in processes:
            process.stop()


def serve(home, http, *more):
    config = home / "fleet.toml"
    config.write_text(f'[server]\nlisten = "127.0.0.1:{fleet.free_port()}"\nhttp_listen = "127.0.0.1:{http}"\n'
                      f'database = "{home}/gradstream.db"\n'
                      '[run]\nname = "proxy"\nproblem = "kpca"\nrows = 4\ncols = 2\ndevice_count = 1\n')
    process = fleet.Process("server", [fleet.SERVER, "serve", "--create", "--config", config, *more])
    check(process.wait_for_line("event=http_listening", SECONDS_MAX), f"the server listens: {process.lines[-3:]}")
    return process


def start_nginx(home, http):
    port = fleet.free_port()
    site = documented("nginx").replace("127.0.0.1:7434", f"127.0.0.1:{http}")
    site, count = re.subn(r"listen [^;]*;", f"listen 127.0.0.1:{port};", site)
    check(count == 1 and f"127.0.0.1:{http}" in site, "the page's site is for the ports of this test")
    (home / "nginx.conf").write_text(NGINX.format(home=home, site=site))
    process = fleet.Process("nginx", ["nginx", "-p", home, "-c", home / "nginx.conf"])
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        with contextlib.suppress(OSError):
            ask(port, "/healthz")
            return process, port
        check(process.running and time.monotonic() < deadline, f"nginx listens: {process.lines[-3:]}")
        time.sleep(0.05)


def check_hosts(home):
    http = fleet.free_port()
    hosts = re.search(r"http_hosts = .*", documented("toml"))[0]
    nginx, port = start_nginx(home, http)
    with playing(nginx):
        with playing(serve(home, http)):
            for path in PATHS:
                status, body = ask(port, path)
                check(status == 403 and b"server.http_hosts" in body, f"{path} without the key: {status} {body}")
        with playing(serve(home, http, "--set", f"server.{hosts}")):
            for path in PATHS:
                status, body = ask(port, path)
                check(status == 200 and body, f"{path}: {status} {body[:200]}")
            status, body = ask(port, "/status", Host="evil.example")
            check(status == 403, f"another name: {status} {body}")
            check(b"gradstream_http_requests_total" in ask(port, "/metrics")[1], "/metrics has its counters")


def check_token(home):
    http, file = fleet.free_port(), home / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    nginx, port = start_nginx(home, http)
    with playing(nginx, serve(home, http, "--set", f"server.http_token_file={file}")):
        check(ask(port, "/status")[0] == 401, "without the token")
        check(ask(port, "/status", Authorization=f"Bearer {TOKEN}")[0] == 200, "nginx passes the token on")
        check(ask(port, "/")[0] == 200, "the page asks for it")


def main():
    if shutil.which("nginx") is None:
        print("reverse_proxy: skipped: nginx is missing (apt-get install nginx-light)")
        return SKIPPED
    for part in (check_hosts, check_token):
        with tempfile.TemporaryDirectory(prefix="gradstream-proxy-") as folder:
            part(pathlib.Path(folder))
    print(f"reverse_proxy: {len(PATHS)} paths pass")
    return 0


if __name__ == "__main__":
    sys.exit(main())
