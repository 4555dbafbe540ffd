"""A TCP proxy between a device's link and the server that drops the link after a chosen byte, or puts noise on it.

It forwards one connection at a time: a plan says after how many bytes, of both directions together, the next session
is dropped. A session begins with a handshake; no byte of what else comes counts. A board behind a UART is not told of a
drop: with keeps_device its end stays, as that of a serial server does. What the board still sends of its old session is
lost then, and the next byte after a pause dials the server again.
"""

import random
import selectors
import socket
import threading
import time

CHUNK = 4096
HANDSHAKE = 0x16  # the first byte of a TLS record that carries one
DIAL_SECONDS = 0.2  # between two attempts while the server is away
PAUSE_SECONDS = 0.02  # longer than any gap inside what a board sends at once
STALL_SECONDS = 2  # without a byte in a session: it waits for what will not come
# Before what has come is read. Reason: an emulated UART sends byte by byte, and each read is 30 us of this program.
GATHER_SECONDS = 0.001


class Noise:
    """Spoils one byte in `mean_gap`, as a wire does: changed, lost, or with others before it. The gaps are random."""

    def __init__(self, seed, mean_gap):
        self.source = random.Random(seed)
        self.mean_gap = mean_gap
        self.count = 0
        self._left = self._gap()

    def _gap(self):
        return 1 + int(self.source.expovariate(1 / self.mean_gap))

    def spoil(self, data):
        out = bytearray()
        for byte in data:
            self._left -= 1
            if self._left > 0:
                out.append(byte)
                continue
            self._left = self._gap()
            self.count += 1
            kind = self.source.randrange(3)
            if kind == 0:
                out.append(byte ^ (1 << self.source.randrange(8)))
            elif kind == 1:
                out += bytes(self.source.randrange(256) for _ in range(self.source.randint(1, 64)))
                out.append(byte)
        return bytes(out)


class LinkProxy:
    """plan: the bytes after which sessions are dropped, in their order; then none is. Without noise what arrives is
    what was sent. on_idle, if any, is called again and again, PAUSE_SECONDS apart, while there has been a session and
    the board is to begin the next one, or STALL_SECONDS after the last byte of one. Ends with close()."""

    def __init__(self, server_port, plan=(), noise=None, keeps_device=False, on_idle=None):
        self.drops = 0       # made so far
        self.byte_count = 0  # forwarded in all
        self._plan = list(plan)
        self._noise = noise
        self._keeps_device = keeps_device
        self._on_idle = on_idle
        self._has_seen_session = False
        self._news = threading.Condition()
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._listener.settimeout(PAUSE_SECONDS if on_idle else None)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def wait_for_drop(self, count, seconds):
        """Whether so many drops are made by then."""
        with self._news:
            return self._news.wait_for(lambda: self.drops >= count, seconds)

    def close(self):
        self._closed.set()
        with socket.create_connection(("127.0.0.1", self.port)):  # wakes accept()
            pass
        self._thread.join()
        self._listener.close()

    def _idle(self):
        if self._on_idle and self._has_seen_session:
            self._on_idle()

    def _serve(self):
        while not self._closed.is_set():
            try:
                device, _ = self._listener.accept()
            except TimeoutError:
                self._idle()
                continue
            with device:
                device.settimeout(None)
                device.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while self._serve_session(device) and self._keeps_device and self._lose_rest(device):
                    pass

    def _serve_session(self, device):
        """From the device's first byte on; false: its end is closed."""
        while not _is_readable(device, PAUSE_SECONDS):
            if self._closed.is_set():
                return False
            self._idle()
        server = self._dial()
        if server is None:
            return False
        with server:
            return self._forward(device, server)

    def _lose_rest(self, device):
        """What the board still sends, to its next pause; false: its end is closed."""
        while _is_readable(device, PAUSE_SECONDS):
            try:
                if not device.recv(CHUNK):
                    return False
            except OSError:
                return False
        return not self._closed.is_set()

    def _dial(self):
        while not self._closed.is_set():
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                self._closed.wait(DIAL_SECONDS)
            else:
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return server
        return None

    def _session_plan(self, device):
        """Bytes of the session that begins until it is dropped; 0: it is no session, or nothing is planned."""
        if device.recv(1, socket.MSG_PEEK) != bytes([HANDSHAKE]):
            return 0
        self._has_seen_session = True
        return self._plan[self.drops] if self.drops < len(self._plan) else 0

    def _forward(self, device, server):
        """Until an end closes, close() is called or the plan's byte has been forwarded; false: the device's end did."""
        with selectors.DefaultSelector() as selector:
            for end, other in ((device, server), (server, device)):
                selector.register(end, selectors.EVENT_READ, other)
            try:
                left = self._session_plan(device)
                is_planned = left > 0
                heard = time.monotonic()
                while not self._closed.is_set():
                    ready = selector.select(PAUSE_SECONDS if self._on_idle else 0.2)
                    if not ready and time.monotonic() - heard > STALL_SECONDS:
                        self._idle()
                    elif ready:
                        heard = time.monotonic()
                        time.sleep(GATHER_SECONDS if self._keeps_device else 0)
                    for key, _ in ready:
                        data = key.fileobj.recv(min(CHUNK, left) if is_planned else CHUNK)
                        if not data:
                            return key.fileobj is server
                        key.data.sendall(self._noise.spoil(data) if self._noise else data)
                        self.byte_count += len(data)
                        left -= len(data)
                        if is_planned and left == 0:
                            with self._news:
                                self.drops += 1
                                self._news.notify_all()
                            return True
            except OSError:
                return True  # whichever it was: the next read of the device tells
        return False


def _is_readable(end, seconds):
    with selectors.DefaultSelector() as selector:
        selector.register(end, selectors.EVENT_READ)
        return bool(selector.select(seconds))
