"""TLS 1.3 by an external pre-shared key, for either end: libssl 3 by ctypes. Python has such keys from 3.13 on only.

The library works on memory alone. Each wait is this file's, and ends at its deadline. docs/wire.md, section 1.
"""

import contextlib
import ctypes
import select
import time

HANDSHAKE_SECONDS = 10  # kHandshakeDeadlineMs
RECORD_SIZE_MAX = 1000  # of what this end sends: a small peer reads no record above 1,024 bytes
READ_SIZE = 16384
KEY_SIZE = 32

_TLS_1_3 = 0x0304
_SET_MAX_SEND_FRAGMENT, _SET_GROUPS_LIST, _SET_MIN_PROTO_VERSION = 52, 92, 123  # numbers of SSL_CTX_ctrl
_ALLOW_NO_DHE_KEX = 1 << 10
_WANT_READ, _WANT_WRITE, _ZERO_RETURN = 2, 3, 6

_P, _I, _S = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_CLIENT_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_uint, _P, _P, _P, ctypes.c_uint, _P, ctypes.c_uint)
_SERVER_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_uint, _P, _S, _P, ctypes.c_uint)
_SIGNATURES = {
    "TLS_method": (_P,), "SSL_CTX_new": (_P, _P), "SSL_CTX_ctrl": (ctypes.c_long, _P, _I, ctypes.c_long, _P),
    "SSL_CTX_set_options": (ctypes.c_uint64, _P, ctypes.c_uint64), "SSL_CTX_set_num_tickets": (_I, _P, ctypes.c_size_t),
    "SSL_CTX_set_ciphersuites": (_I, _P, _S), "SSL_CTX_set_psk_client_callback": (None, _P, _CLIENT_CALLBACK),
    "SSL_CTX_set_psk_server_callback": (None, _P, _SERVER_CALLBACK), "SSL_CTX_free": (None, _P),
    "SSL_new": (_P, _P), "SSL_free": (None, _P), "SSL_set_bio": (None, _P, _P, _P),
    "SSL_set_connect_state": (None, _P), "SSL_set_accept_state": (None, _P), "SSL_do_handshake": (_I, _P),
    "SSL_get_error": (_I, _P, _I), "SSL_read": (_I, _P, _P, _I), "SSL_write": (_I, _P, _S, _I),
    "SSL_shutdown": (_I, _P), "SSL_alert_desc_string_long": (_S, _I),
    "BIO_s_mem": (_P,), "BIO_new": (_P, _P), "BIO_read": (_I, _P, _P, _I), "BIO_write": (_I, _P, _S, _I),
    "ERR_get_error": (ctypes.c_ulong,), "ERR_error_string": (_S, ctypes.c_ulong, _P), "ERR_clear_error": (None,),
}


class TlsError(Exception):
    """The peer, the link or a deadline ended the session."""


def _load():
    # libssl brings libcrypto, whose names are found through it.
    library = ctypes.CDLL("libssl.so.3")
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_ssl = None


def library():
    """libssl 3. Raises OSError without it."""
    global _ssl
    if _ssl is None:
        _ssl = _load()
    return _ssl


class Tls:
    """One session over a connected socket, which it owns.

    A client gives its identity and key; a server a function that has the key of an identity, or None. identity is then
    the one that the client has proven.
    """

    def __init__(self, link, *, identity=None, key=None, key_of=None):
        ssl = library()
        self.identity, self._key, self._key_of, self._link = identity, key, key_of, link
        link.setblocking(False)
        self._callbacks = (_CLIENT_CALLBACK(self._give_key), _SERVER_CALLBACK(self._find_key))
        self._context = ssl.SSL_CTX_new(ssl.TLS_method())
        ssl.SSL_CTX_ctrl(self._context, _SET_MIN_PROTO_VERSION, _TLS_1_3, None)
        ssl.SSL_CTX_ctrl(self._context, _SET_MAX_SEND_FRAGMENT, RECORD_SIZE_MAX, None)
        groups = ctypes.create_string_buffer(b"X25519")
        ssl.SSL_CTX_ctrl(self._context, _SET_GROUPS_LIST, 0, ctypes.cast(groups, _P))
        ssl.SSL_CTX_set_ciphersuites(self._context, b"TLS_AES_128_GCM_SHA256")
        ssl.SSL_CTX_set_num_tickets(self._context, 0)
        if key_of is None:
            ssl.SSL_CTX_set_psk_client_callback(self._context, self._callbacks[0])
        else:
            ssl.SSL_CTX_set_options(self._context, _ALLOW_NO_DHE_KEX)  # the smallest boards have psk_ke alone
            ssl.SSL_CTX_set_psk_server_callback(self._context, self._callbacks[1])
        self._session = ssl.SSL_new(self._context)
        self._in, self._out = ssl.BIO_new(ssl.BIO_s_mem()), ssl.BIO_new(ssl.BIO_s_mem())
        ssl.SSL_set_bio(self._session, self._in, self._out)
        (ssl.SSL_set_connect_state if key_of is None else ssl.SSL_set_accept_state)(self._session)
        self._buffer = ctypes.create_string_buffer(READ_SIZE)

    def _give_key(self, _session, _hint, identity, identity_size, key, key_size):
        name = self.identity.encode() + b"\0"
        if len(name) > identity_size or len(self._key) > key_size:
            return 0
        ctypes.memmove(identity, name, len(name))
        ctypes.memmove(key, self._key, len(self._key))
        return len(self._key)

    def _find_key(self, _session, identity, key, key_size):
        found = self._key_of(identity.decode("ascii", "replace"))
        if found is None or len(found) > key_size:
            return 0
        self.identity = identity.decode("ascii", "replace")
        ctypes.memmove(key, found, len(found))
        return len(found)

    def _flush(self, deadline):
        ssl = library()
        while (count := ssl.BIO_read(self._out, self._buffer, READ_SIZE)) > 0:
            data = self._buffer.raw[:count]
            while data:
                if not select.select([], [self._link], [], max(0.0, deadline - time.monotonic()))[1]:
                    raise TlsError("the peer takes no more bytes")
                try:
                    data = data[self._link.send(data):]
                except OSError as error:
                    raise TlsError(f"the link is closed: {error.strerror}") from error

    def _fill(self, deadline):
        """Waits for bytes of the link. False: the deadline has passed."""
        if not select.select([self._link], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            data = self._link.recv(READ_SIZE)
        except OSError as error:
            raise TlsError(f"the link is closed: {error.strerror}") from error
        if not data:
            raise TlsError("the link is closed")
        library().BIO_write(self._in, data, len(data))
        return True

    def _call(self, function, deadline, *arguments):
        """The result of a call that is repeated until it succeeds; None at the deadline, 0 at the peer's end."""
        ssl = library()
        while True:
            ssl.ERR_clear_error()
            done = function(self._session, *arguments)
            error = ssl.SSL_get_error(self._session, done) if done <= 0 else 0
            said = ssl.ERR_error_string(ssl.ERR_get_error(), None).decode().split(":")[-1]
            try:
                self._flush(deadline)
            except TlsError:
                if done > 0 or error in (_WANT_READ, _WANT_WRITE):
                    raise
            if done > 0 or error == _ZERO_RETURN:
                return max(done, 0)
            if error not in (_WANT_READ, _WANT_WRITE):
                raise TlsError(f"TLS ended: {said}")
            if not self._fill(deadline):
                return None

    def handshake(self, seconds=HANDSHAKE_SECONDS):
        if self._call(library().SSL_do_handshake, time.monotonic() + seconds) is None:
            raise TlsError(f"no handshake within {seconds:g} s")

    def read(self, deadline):
        """Some bytes of the peer; empty at its close_notify, None at the deadline (time.monotonic())."""
        count = self._call(library().SSL_read, deadline, self._buffer, READ_SIZE)
        return None if count is None else self._buffer.raw[:count]

    def write(self, data, seconds=HANDSHAKE_SECONDS):
        if self._call(library().SSL_write, time.monotonic() + seconds, data, len(data)) is None:
            raise TlsError(f"the peer took nothing for {seconds:g} s")

    def close(self, *, notify=True):
        """Ends the session; without notify as a link that breaks."""
        if self._session is None:
            return
        if notify:
            library().SSL_shutdown(self._session)
            with contextlib.suppress(TlsError):
                self._flush(time.monotonic() + 1)
        self._link.close()
        library().SSL_free(self._session)
        library().SSL_CTX_free(self._context)
        self._session = self._context = None
