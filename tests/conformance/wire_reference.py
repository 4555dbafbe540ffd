"""What both ends of the wire compute, a second time: written from docs/wire.md alone, sections 7 to 11, without a
library. Numbers are Python floats that are rounded to binary32 after each operation. That gives the bits of one
operation in binary32: a double has more than twice its digits.
"""

import math
import struct

MASK32 = 0xFFFFFFFF
DOMAIN_MINIBATCH, DOMAIN_OWN, DOMAIN_SHARED, DOMAIN_ITERATE = 2, 4, 5, 6
F32, BF16, INT8, FIXED = 1, 2, 3, 5
INT8_BLOCK = 32
FLOAT_MAX = 3.4028234663852886e38


def f32(value):
    """The nearest binary32, ties to even."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def bits_of(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def of_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def add(a, b):
    return f32(a + b)


def mul(a, b):
    return f32(a * b)


def div(a, b):
    return f32(a / b)


def root(a):
    return f32(math.sqrt(a))


def f32_bytes(values):
    return struct.pack(f"<{len(values)}f", *values)


# ---- Section 8: the shared random stream ----


def philox_block(counter, key):
    """4 words of Philox4x32-10; counter of 4 words, key of 2."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product0, product1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = ((product1 >> 32) ^ c1 ^ k0, product1 & MASK32, (product0 >> 32) ^ c3 ^ k1, product0 & MASK32)
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return [c0, c1, c2, c3]


def word(seed, domain, version, owner, step, n):
    return philox_block((n // 4, version, owner, step), (seed, domain))[n % 4]


def signs(seed, domain, version, owner, step, j, pr):
    """Direction u[step, j] as +1 and -1, its pr entries."""
    first = j * ((pr + 31) // 32)
    words = [word(seed, domain, version, owner, step, first + i) for i in range((pr + 31) // 32)]
    return [1 if words[e // 32] >> (e % 32) & 1 else -1 for e in range(pr)]


def minibatch(seed, version, client, step, n, size):
    order = list(range(n))
    if size >= n:
        return order
    for i in range(size):
        j = i + (word(seed, DOMAIN_MINIBATCH, version, client, step, i) * (n - i) >> 32)
        order[i], order[j] = order[j], order[i]
    return order[:size]


def sample_of_direction(seed, version, client, step, j, n):
    return word(seed, DOMAIN_MINIBATCH, version, client, step, j) * n >> 32


def iterate(seed, version, client, step_count):
    return word(seed, DOMAIN_ITERATE, version, client, 0, 0) * step_count >> 32


# ---- Section 7: encodings ----


def bf16_up(value):
    """The smallest bf16 that is not below a value of 0 or more."""
    bits = bits_of(value)
    return of_bits((bits + 0xFFFF) & 0xFFFF0000)


def int8_scale(block):
    most = max(abs(value) for value in block)
    scale = bf16_up(div(most, 127.0))
    # The quotient was rounded: a neighbour may be the one.
    while scale > 0 and 127.0 * of_bits(bits_of(scale) - 0x10000) >= most:
        scale = of_bits(bits_of(scale) - 0x10000)
    while 127.0 * scale < most:
        scale = of_bits(bits_of(scale) + 0x10000)
    return scale


def half_away(value):
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def encode(encoding, values):
    if encoding == F32:
        return f32_bytes(values)
    if encoding == BF16:
        out = b""
        for value in values:
            bits = bits_of(value)
            out += struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
        return out
    out = b""
    for i in range(0, len(values), INT8_BLOCK):
        block = values[i : i + INT8_BLOCK]
        scale = int8_scale(block)
        out += struct.pack("<H", bits_of(scale) >> 16)
        out += bytes((half_away(div(value, scale)) if scale > 0 else 0) & 0xFF for value in block)
    return out


def decode(encoding, count, data):
    if encoding == F32:
        return list(struct.unpack(f"<{count}f", data))
    if encoding == FIXED:
        return list(struct.unpack(f"<{count}i", data))
    if encoding == BF16:
        return [of_bits(half << 16) for half in struct.unpack(f"<{count}H", data)]
    values, at = [], 0
    while len(values) < count:
        size = min(INT8_BLOCK, count - len(values))
        scale = of_bits(struct.unpack_from("<H", data, at)[0] << 16)
        values += [mul(float(q), scale) for q in struct.unpack_from(f"<{size}b", data, at + 2)]
        at += 2 + size
    return values


def crc32c(data):
    crc = MASK32
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ MASK32


# ---- Section 9: digest ----


def digest(model, mean=()):
    value = 0xCBF29CE484222325
    for byte in f32_bytes(model) + struct.pack(f"<{len(mean)}i", *mean):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


# ---- Section 10: exact arithmetic. Matrices are lists of rows. ----


def dot(x, y):
    s = [0.0] * 4
    for i, (a, b) in enumerate(zip(x, y, strict=True)):
        s[i % 4] = mul(a, b) if i < 4 else add(s[i % 4], mul(a, b))
    return add(add(s[0], s[1]), add(s[2], s[3]))


def columns(a):
    return [list(column) for column in zip(*a, strict=True)]


def product(a, b):
    right = columns(b)
    return [[dot(row, column) for column in right] for row in a]


def gram(a):
    """A'A: the upper half, mirrored."""
    of = columns(a)
    return [[dot(of[min(i, j)], of[max(i, j)]) for j in range(len(of))] for i in range(len(of))]


def flat(a):
    return [value for row in a for value in row]


def scaled(factor, a):
    return [[mul(factor, value) for value in row] for row in a]


def summed(a, b):
    return [[add(x, y) for x, y in zip(*rows, strict=True)] for rows in zip(a, b, strict=True)]


def add_on_diagonal(a, value):
    for i, row in enumerate(a):
        row[i] = add(row[i], value)


EPSILON = 2.0**-23
SWEEPS_MAX, EIGEN_PASSES_MAX = 32, 2
RANK_TOLERANCE = 16 * EPSILON


def rotate(sine, tau, x, y):
    """Two rows, in place."""
    for k, (g, h) in enumerate(zip(x, y, strict=True)):
        x[k] = add(g, -mul(sine, add(h, mul(tau, g))))
        y[k] = add(h, mul(sine, add(g, -mul(tau, h))))


def rotate_away(s, rows, i, j):
    """s[i][j] becomes 0 by a rotation of Jacobi, which the rows of eigenvectors go along with."""
    off = s[i][j]
    theta = div(add(s[j][j], -s[i][i]), mul(2.0, off))
    t = div(1.0, add(abs(theta), root(add(mul(theta, theta), 1.0))))
    t = -t if theta < 0 else t
    c = div(1.0, root(add(mul(t, t), 1.0)))
    sine = mul(t, c)
    tau = div(sine, add(1.0, c))
    on_diagonal = add(s[i][i], -mul(t, off)), add(s[j][j], mul(t, off))
    rotate(sine, tau, s[i], s[j])
    for k, row in enumerate(s):
        row[i], row[j] = s[i][k], s[j][k]
    s[i][i], s[j][j] = on_diagonal
    s[i][j] = s[j][i] = 0.0
    rotate(sine, tau, rows[i], rows[j])


def eigen(s):
    """Eigenvalues in ascending order and the eigenvectors as rows, of a symmetric matrix that is overwritten; None."""
    n = len(s)
    negligible = mul(EPSILON * EPSILON, root(dot(flat(s), flat(s))))
    rows = [[float(i == j) for j in range(n)] for i in range(n)]
    for _ in range(SWEEPS_MAX):
        is_done = True
        for i in range(n):
            for j in range(i + 1, n):
                off = abs(s[i][j])
                w = root(abs(s[i][i])), root(abs(s[j][j]))
                if not (off <= negligible or off <= mul(mul(EPSILON, w[0]), w[1])):
                    rotate_away(s, rows, i, j)
                    is_done = False
        if is_done:
            pairs = sorted(((s[i][i], rows[i]) for i in range(n)), key=lambda pair: pair[0])
            return [value for value, _ in pairs], [row for _, row in pairs]
    return None


def inverse_root_by_eigen(g):
    """(G^(-1/2), whether G has full rank); None. Eigenvalues that are too small are raised."""
    found = eigen(g)
    if found is None or not found[0][-1] > 2.0**-126 / EPSILON:
        return None
    values, rows = found
    floor = mul(RANK_TOLERANCE, values[-1])
    roots = [root(value if value > floor else floor) for value in values]
    scaled_rows = [[div(entry, of) for entry in row] for row, of in zip(rows, roots, strict=True)]
    return product(columns(rows), scaled_rows), values[0] > floor


def polar_factor(a):
    """A (A'A)^(-1/2); None where the columns are dependent."""
    for done in range(EIGEN_PASSES_MAX + 1):
        near = polar_factor_near(a)
        if near is not None or done == EIGEN_PASSES_MAX:
            return near
        found = inverse_root_by_eigen(gram(a))
        if found is None or (not found[1] and done > 0):
            return None
        a = product(a, found[0])
    return None


def polar_factor_near(a):
    """The same where A'A is near enough to the identity; None elsewhere."""
    g = gram(a)
    e = [row[:] for row in g]
    add_on_diagonal(e, -1.0)
    if not dot(flat(e), flat(e)) <= 0.0625:
        return None
    p = summed(scaled(0.375, product(e, e)), scaled(-0.5, e))
    add_on_diagonal(p, 1.0)
    for _ in range(8):
        v = scaled(-0.5, product(g, product(p, p)))
        add_on_diagonal(v, 0.5)
        p = summed(p, product(p, v))
        if dot(flat(v), flat(v)) <= 2.0**-25:
            break
    return product(a, p)


def projected(manifold, rows, cols, z):
    """P_M(z), row by row; None as polar_factor() says."""
    if manifold == "euclidean":
        return z
    if manifold == "sphere":
        k = div(1.0, root(dot(z, z)))
        return [mul(k, value) for value in z]
    out = polar_factor([z[row * cols : (row + 1) * cols] for row in range(rows)])
    return None if out is None else flat(out)


# ---- Section 9: records. A block: version, owner, domain, values as decoded; after_step in the memory form. ----


def stepped(model, step_scale, direction_count, tensor):
    """X + (-a) tensor, a = step_scale (pr / m)."""
    a = mul(step_scale, div(float(len(model)), float(direction_count)))
    return [add(x, mul(-a, value)) for x, value in zip(model, tensor, strict=True)]


def record_sum(seed, direction_count, blocks, size):
    unit = div(1.0, root(float(size)))
    out = [0.0] * size
    for block in blocks:
        for q, value in enumerate(block["values"]):
            c = mul(value, unit)
            step, j = divmod(q, direction_count)
            for e, sign in enumerate(signs(seed, block["domain"], block["version"], block["owner"], step, j, size)):
                out[e] = add(out[e], sign * c)
    return out


def to_word(value):
    return (value + 2**31) % 2**32 - 2**31


def add_words(seed, direction_count, block, words):
    for q, value in enumerate(block["values"]):
        step, j = divmod(q, direction_count)
        for e, sign in enumerate(signs(seed, block["domain"], block["version"], block["owner"], step, j, len(words))):
            words[e] = to_word(words[e] + sign * value)


def exact_tensor(words, scale_log2):
    t = mul(div(1.0, root(float(len(words)))), 2.0**-scale_log2)
    return [mul(t, f32(float(value))) for value in words]


# ---- Section 11: what the clip leaves of an entry ----


def clipped(value, scale_log2, r):
    if r in (0, 2**31):
        return value
    x = half_away(f32(value) * 2.0**scale_log2)
    left = abs(x) * r >> 31
    return f32((-left if x < 0 else left) * 2.0**-scale_log2)
