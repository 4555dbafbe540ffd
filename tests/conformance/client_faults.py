"""What a client may do wrong, on purpose: each fault changes one thing of a Client, and the fault server has to name it
(fault_server.py). A fault is planted from outside, so that client.py stays as it is read.
"""

import struct

import client_replica
import messages
import tls_psk
import wire_reference as wire


def _change_update(client, change):
    """Every update's frames go through change(fields of one piece)."""
    encoded = client.encoded

    def spoilt(path):
        upload = encoded(path)
        for i, text in enumerate(upload["frames"]):
            kind, body = messages.read_body("DeviceMessage", bytes.fromhex(text)[4:])
            change(body)
            upload["frames"][i] = messages.framed("DeviceMessage", kind, **body).hex()
        return upload

    client.encoded = spoilt


def wrong_crc(client):
    _change_update(client, lambda piece: piece.update(crc32c=piece["crc32c"] ^ 1))


def swapped_losses(client):
    _change_update(client, lambda piece: piece.update(loss_before=piece["loss_after"] + 1))


def scaled_scalars(client):
    """The factor pr / m is in the scalars, where it does not belong."""
    def change(piece):
        values = wire.decode(wire.F32, len(piece["values"]) // 4, piece["values"])
        piece["values"] = wire.f32_bytes([4 * value for value in values])
        piece["crc32c"] = wire.crc32c(piece["values"])

    _change_update(client, change)


def truncated_bf16(_client):
    encode = wire.encode

    def cut(encoding, values):
        if encoding != wire.BF16:
            return encode(encoding, values)
        return b"".join(struct.pack("<H", wire.bits_of(value) >> 16) for value in values)

    wire.encode = cut


def fused_dot(_client):
    """Products and sums with one rounding, as a compiler makes them without -ffp-contract=off."""
    def dot(x, y):
        s = [0.0] * 4
        for i, (a, b) in enumerate(zip(x, y, strict=True)):
            s[i % 4] = wire.mul(a, b) if i < 4 else wire.f32(a * b + s[i % 4])
        return wire.add(wire.add(s[0], s[1]), wire.add(s[2], s[3]))

    wire.dot = dot


def other_batch(_client):
    wire.minibatch = lambda seed, version, client, step, n, size: list(range(min(n, size)))


def no_correction(client):
    take = client.take

    def forgetful(kind, body):
        take(kind, body)
        client.correction = None

    client.take = forgetful


def skipped_digest(client):
    take = client.take

    def blind(kind, body):
        client.replica.check_digest = lambda digest: None
        take(kind, body)

    client.take = blind


def changed_retry(client):
    deliver = client.deliver

    def deliver_changed():
        client.upload["tries"] = client.upload.get("tries", 0) + 1
        if client.upload["tries"] > 1:  # the step's time is measured anew
            for i, text in enumerate(client.upload["frames"]):
                kind, body = messages.read_body("DeviceMessage", bytes.fromhex(text)[4:])
                body["step_time_us"] += 1
                client.upload["frames"][i] = messages.framed("DeviceMessage", kind, **body).hex()
        return deliver()

    client.deliver = deliver_changed


def forgotten_update(client):
    deliver = client.deliver

    def deliver_once():
        try:
            return deliver()
        finally:
            client.upload = None

    client.deliver = deliver_once


def ignores_wait(client):
    client.drawn = lambda window: 0.0


def ignores_drain(client):
    checked = client.checked
    client.checked = lambda kind, body: (kind, body) if kind == "drain" else checked(kind, body)
    client.listen = lambda seconds: client.link.read(tls_psk.time.monotonic() + seconds)


def talks_while_held(client):
    synchronise = client.synchronise

    def impatient():
        client.pull()
        return synchronise()

    client.synchronise = impatient


def refuses_later_fields(client):
    checked = client.checked
    read_body = messages.read_body

    def strict(message, payload):
        kind, body = read_body(message, payload)
        if len(messages.encode(message, {kind: body})) < len(payload):
            raise messages.Malformed("a field of a later version")
        return kind, body

    messages.read_body, client.checked = strict, checked


def skips_unknown_messages(client):
    receive, read_body = client.receive, messages.read_body

    def lenient(message, payload):
        try:
            return read_body(message, payload)
        except messages.Malformed:
            return "unknown", {}

    def patient(*arguments):
        kind, body = receive(*arguments)
        return (kind, body) if kind != "unknown" else patient(*arguments)

    messages.read_body, client.receive = lenient, patient


def takes_long_records(_client):
    decoded = client_replica.decoded
    client_replica.decoded = lambda encoding, data, left: decoded(
        encoding, data, max(left, len(data) // 4 if encoding == wire.F32 else left))[:left]


def claims_cut_snapshot(client):
    """Says that it holds what has come of a snapshot."""
    hello = client.hello

    def boast():
        said = hello()
        if client.replica is not None and client.replica.model is None:
            said |= {"has_model": True, "version": 1, "digest": 1}
        return said

    client.hello = boast


def euclidean_only(_client):
    """No fault: a client that has and announces less, which is not asked for the rest."""
    for manifold in [number for number, name in client_replica.MANIFOLDS.items() if name != "euclidean"]:
        del client_replica.MANIFOLDS[manifold]


# What to plant, the scenario of the fault server that finds it, and the name that it gives the fault.
FOUND = {
    changed_retry: ("lost_ack", "changed_retry"),
    claims_cut_snapshot: ("cut_snapshot", "cut_snapshot"),
    forgotten_update: ("lost_ack", "changed_retry"),
    fused_dot: ("records", "record_arithmetic"),
    ignores_drain: ("drain", "ignored_drain"),
    ignores_wait: ("wait_window", "ignored_wait"),
    no_correction: ("correction", "correction"),
    other_batch: ("minibatch", "scalars"),
    refuses_later_fields: ("unknown_field", "unknown_field"),
    scaled_scalars: ("scalars", "scalars"),
    skipped_digest: ("record_digest", "wrong_digest"),
    skips_unknown_messages: ("unknown_message", "unknown_message"),
    swapped_losses: ("scalars", "losses"),
    takes_long_records: ("bad_record", "bad_record"),
    talks_while_held: ("hold", "broke_hold"),
    truncated_bf16: ("encodings", "encoding"),
    wrong_crc: ("scalars", "wrong_crc"),
}
FAULTS = {function.__name__: function for function in (*FOUND, euclidean_only)}
