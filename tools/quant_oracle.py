#!/usr/bin/env python3
"""Writes tests/golden/quant/TYPE.bin: blocks of every tensor type with the f32 values they stand for, and f32 rows with
the bytes they encode to. The reference is the `gguf` Python package; types and directions it lacks (Q8_1, Q8_K, Q1_0,
Q2_0, integers, F64) are defined here from the format descriptions, independently of the C++ code.

File: u32 n_decode_blocks, u32 n_encode_blocks (0: no expectation), then decode blocks, decoded f32, f32 rows, encoded
blocks. Little-endian.

usage: quant_oracle.py [--check]      --check: compare with the committed files, exit status 1 when one differs
"""
import argparse
import pathlib
import sys
import zlib

import gguf
import gguf.quants as gq
import numpy as np

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests/golden/quant"
np.seterr(all="ignore")

# name: (block elements, block bytes, offsets of f16 scales in the block, offset and length of the code bytes)
BLOCKS = {
    "Q4_0": (32, 18, [0], (2, 16)),
    "Q4_1": (32, 20, [0, 2], (4, 16)),
    "Q5_0": (32, 22, [0], (2, 20)),
    "Q5_1": (32, 24, [0, 2], (4, 20)),
    "Q8_0": (32, 34, [0], (2, 32)),
    "Q8_1": (32, 36, [0, 2], (4, 32)),
    "Q2_K": (256, 84, [80, 82], (0, 80)),
    "Q3_K": (256, 110, [108], (0, 108)),
    "Q4_K": (256, 144, [0, 2], (4, 140)),
    "Q5_K": (256, 176, [0, 2], (4, 172)),
    "Q6_K": (256, 210, [208], (0, 208)),
    "Q8_K": (256, 292, [], (4, 256)),
    "IQ2_XXS": (256, 66, [0], (2, 64)),
    "IQ2_XS": (256, 74, [0], (2, 72)),
    "IQ2_S": (256, 82, [0], (2, 80)),
    "IQ3_XXS": (256, 98, [0], (2, 96)),
    "IQ3_S": (256, 110, [0], (2, 108)),
    "IQ1_S": (256, 50, [0], (2, 48)),
    "IQ1_M": (256, 56, [], (0, 48)),
    "IQ4_NL": (32, 18, [0], (2, 16)),
    "IQ4_XS": (256, 136, [0], (2, 134)),
    "TQ1_0": (256, 54, [52], (0, 52)),
    "TQ2_0": (256, 66, [64], (0, 64)),
    "MXFP4": (32, 17, [], (1, 16)),
    "NVFP4": (64, 36, [], (4, 32)),
    "Q1_0": (128, 18, [0], (2, 16)),
    "Q2_0": (64, 18, [0], (2, 16)),
}
PLAIN = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "F64": "<f8", "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
ENCODED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "TQ1_0", "TQ2_0", "MXFP4", "Q1_0"]
# zero, -0, smallest and largest subnormals, smallest normal, one, largest, with both signs
EXTREME_F16 = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x0203]


def set_scale(blocks, name, scale_codes):
    """scale_codes: u16 [n_blocks, n_scales] of finite f16."""
    for k, offset in enumerate(BLOCKS[name][2]):
        blocks[:, offset : offset + 2] = scale_codes[:, k : k + 1].astype("<u2").view(np.uint8)
    if name == "Q8_K":
        d = scale_codes[:, 0].astype("<u2").view("<f2").astype("<f4")
        blocks[:, 0:4] = d.reshape(-1, 1).view(np.uint8)
    if name == "IQ1_M":  # the four top nibbles of the scale words
        for k in range(4):
            nibble = ((scale_codes[:, 0] >> (4 * k)) & 15).astype(np.uint8)
            blocks[:, 49 + 2 * k] = (blocks[:, 49 + 2 * k] & 0x0F) | (nibble << 4)


def grid_sweep(name, rng):
    """Blocks that name every grid point once, in order."""
    if name not in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"):
        return np.zeros((0, BLOCKS[name][1]), np.uint8)
    n_points = int(np.prod(getattr(gq, name).grid_shape[:1]))
    per_block = 64 if name.startswith("IQ3") else 32
    index = np.arange(n_points).reshape(-1, per_block)
    n = len(index)
    blocks = rng.integers(0, 256, (n, BLOCKS[name][1]), dtype=np.uint8)
    low, high = (index & 255).astype(np.uint8), index >> 8
    if name == "IQ2_XXS":
        blocks[:, 2:66].reshape(n, 8, 8)[:, :, :4] = low.reshape(n, 8, 4)
    elif name == "IQ2_XS":
        words = (index | rng.integers(0, 128, index.shape) << 9).astype("<u2")
        blocks[:, 2:66] = words.view(np.uint8)
    elif name == "IQ2_S":
        blocks[:, 2:34] = low
        blocks[:, 66:74] = (high.reshape(n, 8, 4) << np.array([0, 2, 4, 6])).sum(-1)
    elif name == "IQ3_XXS":
        blocks[:, 2:66] = low
    elif name == "IQ3_S":
        blocks[:, 2:66] = low
        blocks[:, 66:74] = (high.reshape(n, 8, 8) << np.arange(8)).sum(-1)
    elif name == "IQ1_S":
        blocks[:, 2:34] = low
        words = (high.reshape(n, 8, 4) << np.array([0, 3, 6, 9])).sum(-1) | rng.integers(0, 16, (n, 8)) << 12
        blocks[:, 34:50] = words.astype("<u2").view(np.uint8)
    elif name == "IQ1_M":
        blocks[:, 0:32] = low
        shift = rng.integers(0, 2, (n, 16, 2)) << 3
        blocks[:, 32:48] = ((high.reshape(n, 16, 2) | shift) << np.array([0, 4])).sum(-1)
    return blocks


def decode_blocks_of(name, rng):
    n_elems, n_bytes, scale_offsets, (code_start, code_len) = BLOCKS[name]
    n_random, n_sweep = (8, 8) if n_elems == 256 else (32, 32)
    random = rng.integers(0, 256, (n_random, n_bytes), dtype=np.uint8)
    sweep = np.zeros((n_sweep, n_bytes), np.uint8)  # consecutive code bytes: every byte value where room allows
    codes = np.arange(n_sweep * code_len).reshape(n_sweep, code_len) * (1 if code_len <= 32 else 5)
    sweep[:, code_start : code_start + code_len] = codes & 255
    uniform = np.repeat(np.arange(0, 256, 17, dtype=np.uint8)[:, None], n_bytes, axis=1)  # every nibble at every place
    extreme = rng.integers(0, 256, (len(EXTREME_F16), n_bytes), dtype=np.uint8)
    extreme[0::3, code_start : code_start + code_len] = 0
    extreme[1::3, code_start : code_start + code_len] = 255
    grid = grid_sweep(name, rng)
    groups = [random, sweep, uniform, grid, extreme]
    if name == "MXFP4":  # every exponent but NaN and the two that overflow
        scales = np.arange(253, dtype=np.uint8)
        groups = [random, np.resize(sweep, (253, n_bytes)), extreme]
        groups[1][:, 0] = scales
        random[:, 0] = rng.integers(100, 150, n_random)
        extreme[:, 0] = np.resize([0, 1, 2, 3, 251, 252], len(extreme))
    if name == "NVFP4":  # every scale code, those above 0x7F included
        groups = [random, np.resize(sweep, (64, n_bytes)), extreme]
        groups[1][:, 0:4] = np.arange(256, dtype=np.uint8).reshape(64, 4)
    blocks = np.concatenate(groups)
    normal = (rng.standard_normal((len(blocks), 2)) * 0.05).astype("<f2").view("<u2")
    scale_codes = normal.copy()
    scale_codes[-len(extreme) :, 0] = EXTREME_F16
    scale_codes[-len(extreme) :, 1] = np.roll(EXTREME_F16, 5)
    set_scale(blocks, name, scale_codes)
    if name == "Q8_K":  # sums are of no account in decoding, but keep them true
        sums = blocks[:, 4:260].view(np.int8).reshape(-1, 16, 16).astype(np.int16).sum(-1).astype("<i2")
        blocks[:, 260:292] = sums.view(np.uint8)
    return blocks


def f16_at(blocks, offset):
    return np.ascontiguousarray(blocks[:, offset : offset + 2]).view("<f2").astype(np.float32)


def decode(name, blocks):
    if name in ("Q8_1", "Q8_K"):
        d = f16_at(blocks, 0) if name == "Q8_1" else np.ascontiguousarray(blocks[:, 0:4]).view("<f4")
        return d * blocks[:, 4 : 4 + BLOCKS[name][0]].view(np.int8).astype(np.float32)
    if name == "Q1_0":
        bits = np.unpackbits(blocks[:, 2:18], axis=1, bitorder="little")
        return np.where(bits == 1, f16_at(blocks, 0), -f16_at(blocks, 0))
    if name == "Q2_0":
        codes = (blocks[:, 2:18, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
        return f16_at(blocks, 0) * (codes.reshape(-1, 64).astype(np.float32) - 1)
    return gq.dequantize(blocks, gguf.GGMLQuantizationType[name])


def encode_rows_of(name, rng):
    n = BLOCKS[name][0]
    j = np.arange(n)
    rows = [rng.standard_normal(n) * s for s in np.repeat([1e-4, 0.02, 1.0, 37.0, 1000.0], 3)]
    rows += [np.zeros(n), np.full(n, 0.75), np.full(n, -3.0), np.where(j == 5, -2.5, 0.125), np.where(j == n - 1, 9.0, 0.0)]
    rows += [np.where(j % 2, -1.0, 1.0), j - n / 2.0 + 0.5, (j % 16 - 7.5) / 4, 2.0 ** (j % 13 - 6), rng.uniform(-1, 1, n) ** 7]
    rows += [np.where(j == 0, 127.0, (-1.0) ** j * (j % 100 + 0.5))]  # halves after division by 127 / 127
    rows += [rng.integers(-8, 9, n) / 8.0, np.abs(rng.standard_normal(n)), -np.abs(rng.standard_normal(n)) * 0.1]
    return np.stack(rows).astype(np.float32) + np.float32(0)  # + 0: no -0, whose place in a minimum is not defined


def encode(name, rows):
    if name == "Q8_1":
        q8_0 = gq.quantize(rows, gguf.GGMLQuantizationType.Q8_0)
        d = np.abs(rows).max(1, keepdims=True) / np.float32(127)
        s = d * q8_0[:, 2:].view(np.int8).astype(np.float32).sum(1, keepdims=True)
        return np.concatenate([q8_0[:, :2], s.astype("<f2").view(np.uint8), q8_0[:, 2:]], axis=1)
    if name == "Q1_0":
        d = np.zeros((len(rows), 1), np.float32)
        for j in range(128):
            d[:, 0] += np.abs(rows[:, j])
        bits = np.packbits(rows >= 0, axis=1, bitorder="little")
        return np.concatenate([(d / np.float32(128)).astype("<f2").view(np.uint8), bits], axis=1)
    return gq.quantize(rows, gguf.GGMLQuantizationType[name])


def plain_case(name, rng):
    """(stored elements, their f32 values, f32 inputs, their stored form)"""
    x = np.concatenate([rng.standard_normal(200) * 10.0 ** rng.integers(-6, 5, 200), [0, 0.5, 1.5, 2.5, -0.5, -1.5, 65504, 1e-7]])
    x = x.astype(np.float32)
    if name in ("F16", "BF16"):
        codes = np.arange(0, 65536, 53).astype("<u2")
        exponent = 0x7C00 if name == "F16" else 0x7F80
        codes = codes[(codes & exponent) != exponent]
        if name == "F16":
            return codes, codes.view("<f2").astype(np.float32), x, x.astype("<f2")
        return codes, (codes.astype("<u4") << 16).view("<f4"), x, gq.quantize(x, gguf.GGMLQuantizationType.BF16)
    if name == "F32":
        return x, x, x, x
    if name == "F64":
        stored = np.concatenate([rng.standard_normal(200), 1 + 2.0 ** -24 * np.arange(8), 2.0 ** -np.arange(140, 152), [0.0, -0.0, 3.4e38]])
        return stored.astype("<f8"), stored.astype("<f4"), x, x.astype("<f8")
    info = np.iinfo(PLAIN[name])
    stored = np.concatenate([rng.integers(info.min, info.max, 200, dtype=PLAIN[name], endpoint=True),
                             np.array([info.min, info.max, 0, 1, -1, info.max - 1], PLAIN[name])])
    if info.bits >= 32:
        stored = np.concatenate([stored, np.array([2**24 + k for k in range(6)] + [-(2**24) - 1, -(2**24) - 3], PLAIN[name])])
    limit = float(info.max) if info.bits < 32 else float(2**62) if info.bits == 64 else float(2**31 - 128)
    inputs = np.clip(x * (100 if info.bits > 8 else 1), -limit, limit).astype(np.float32)
    return stored, stored.astype(np.float32), inputs, np.rint(inputs.astype(np.float64)).astype(PLAIN[name])


def render(name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if name in PLAIN:
        blocks, values, rows, encoded = plain_case(name, rng)
        n_decode, n_encode = len(blocks), len(rows)
    else:
        blocks = decode_blocks_of(name, rng)
        values = decode(name, blocks)
        rows = encode_rows_of(name, rng) if name in ENCODED else np.zeros(0, np.float32)
        encoded = encode(name, rows) if name in ENCODED else np.zeros(0, np.uint8)
        n_decode, n_encode = len(blocks), len(rows)
    assert values.dtype == np.float32 and np.isfinite(values).all(), name
    header = np.array([n_decode, n_encode], "<u4")
    return b"".join(part.tobytes() for part in (header, blocks, values, rows, encoded))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    n_bytes = n_different = 0
    for name in [*PLAIN, *BLOCKS]:
        data, path = render(name), OUT / f"{name}.bin"
        n_bytes += len(data)
        if not args.check:
            path.write_bytes(data)
        elif not path.exists() or path.read_bytes() != data:
            print(f"{path.name}: differs")
            n_different += 1
    print(f"{len(PLAIN) + len(BLOCKS)} types, {n_bytes} bytes, {n_different} files differ")
    return 1 if n_different else 0


if __name__ == "__main__":
    sys.exit(main())
