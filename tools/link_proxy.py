"""A TCP proxy between a device's link and the server that drops the link after a chosen byte, or puts noise on it.

It forwards one connection at a time: a plan says after how many bytes, of both directions together, the next session
is dropped. A board behind a UART is not told of a drop: its emulator dials again, and the proxy gives it a new
connection to the server. What the board still sends of its old session is forwarded too, and no byte of it counts: a
session begins with a handshake.
"""

import random
import selectors
import socket
import threading

CHUNK = 4096
HANDSHAKE = 0x16  # the first byte of a TLS record that carries one
DIAL_SECONDS = 0.2  # between two attempts while the server is away


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
    what was sent. Ends with close()."""

    def __init__(self, server_port, plan=(), noise=None):
        self.drops = 0       # made so far
        self.byte_count = 0  # forwarded in all
        self._plan = list(plan)
        self._noise = noise
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        self._closed.set()
        with socket.create_connection(("127.0.0.1", self.port)):  # wakes accept()
            pass
        self._thread.join()
        self._listener.close()

    def _serve(self):
        while True:
            device, _ = self._listener.accept()
            with device:
                if self._closed.is_set():
                    return
                server = self._dial()
                if server is None:
                    return
                with server:
                    self._forward(device, server)

    def _dial(self):
        while not self._closed.is_set():
            try:
                return socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                self._closed.wait(DIAL_SECONDS)
        return None

    def _forward(self, device, server):
        """Until an end closes, close() is called or the plan's byte has been forwarded."""
        left = 0  # of the plan; 0: no session has begun, or nothing is planned
        is_begun = False
        with selectors.DefaultSelector() as selector:
            for end, other in ((device, server), (server, device)):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(end, selectors.EVENT_READ, other)
            while not self._closed.is_set():
                for key, _ in selector.select(0.2):
                    end = key.fileobj
                    try:
                        if not is_begun and end is device:
                            is_begun = True
                            is_session = device.recv(1, socket.MSG_PEEK) == bytes([HANDSHAKE])
                            left = self._plan[self.drops] if is_session and self.drops < len(self._plan) else 0
                        data = end.recv(min(CHUNK, left) if left else CHUNK)
                        if not data:
                            return
                        key.data.sendall(self._noise.spoil(data) if self._noise else data)
                    except OSError:
                        return
                    self.byte_count += len(data)
                    if left:
                        left -= len(data)
                        if left == 0:
                            self.drops += 1
                            return
