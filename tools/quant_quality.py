#!/usr/bin/env python3
"""Compares our encoders with those of llama.cpp's library: root mean square error and processor time per type, as a
Markdown table. Blocks of both are decoded by the `gguf` package (tools/quant_oracle.py for Q1_0 and Q2_0).

The library is any shared object that exports ggml_quantize_chunk; by default the one in the PyPI package xllamacpp.
With importance the error of element i counts importance_i times (mean 1), the same weights for every row.

usage: quant_quality.py --tool BUILD/bin/quant_tool --model SMOLLM2.gguf [--library FILE.so] [--types A,B] [--out FILE.md]
       [--check] [--hard]
--check: exit status 1 where we are worse by more than 0.1 %, or Q2_0 misses its bound
--hard: instead of the table, list where we are worse on synthetic rows made to hurt
"""
import argparse
import ctypes
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import time

import gguf
import numpy as np

from quant_oracle import BLOCKS, decode

TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS",
         "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4", "Q1_0", "Q2_0"]
NEEDS_IMPORTANCE = ["IQ1_S", "IQ2_XXS", "IQ2_XS"]  # the library refuses (aborts) without
ROW = 1536  # elements; of SmolLM2's ffn_down
TIE = 1.001
Q2_0_BOUND = 0.52  # of the largest-magnitude encoder, which is the library's, on normal data


def data_sets(model):
    rng = np.random.default_rng(1)
    heavy = rng.standard_t(3, (64, ROW))
    heavy[rng.random(heavy.shape) < 0.002] *= 20
    tensors = {t.name: t for t in gguf.GGUFReader(model).tensors}

    def weights(*names):
        parts = []
        for name in names:
            t = tensors[name]
            x = gguf.quants.dequantize(t.data, t.tensor_type).reshape(-1)
            parts.append(x[: 64 // len(names) * ROW])
        return np.concatenate(parts).reshape(64, ROW)

    sets = {
        "normal": rng.standard_normal((64, ROW)),
        "SmolLM2 embedding": weights("token_embd.weight"),
        "SmolLM2 ffn_down, attn_v": weights("blk.5.ffn_down.weight", "blk.20.ffn_down.weight", "blk.3.attn_v.weight", "blk.11.attn_v.weight"),
        "outliers": heavy,
    }
    return {name: np.ascontiguousarray(x, dtype=np.float32) for name, x in sets.items()}


def hard_sets():
    rng, shape = np.random.default_rng(7), (8, ROW)
    normal = rng.standard_normal(shape)
    sets = {
        "positive": np.abs(normal), "negative": -np.abs(normal) - 0.5, "5 + 0.1 normal": 5 + 0.1 * normal, "-5 + 0.1 normal": 0.1 * normal - 5,
        "1 in 20 not 0": normal * (rng.random(shape) < 0.05), "1 in 250 not 0": normal * (rng.random(shape) < 0.004),
        "-0.7, 0, 0.7": rng.integers(-1, 2, shape) * 0.7, "uniform": rng.uniform(-1, 1, shape), "fifth power": rng.uniform(-1, 1, shape) ** 5,
        "Cauchy": np.clip(rng.standard_cauchy(shape), -1000, 1000), "Laplace": rng.laplace(size=shape),
        "+-1 and 5 % noise": np.sign(rng.standard_normal(shape)) * (1 + 0.05 * normal),
        "columns scaled": normal * np.exp(2 * rng.standard_normal((1, ROW))),
        "sixteens scaled": (normal.reshape(8, -1, 16) * np.exp(1.5 * rng.standard_normal((8, ROW // 16, 1)))).reshape(shape),
        "one column 50 times": np.where(np.arange(ROW) % 256 == 77, 50, 1) * normal, "small": normal * 1e-3, "large": normal * 3000,
    }
    importances = {
        "none": None, "log-normal": np.exp(rng.standard_normal(ROW)), "steep": np.exp(4 * rng.standard_normal(ROW)),
        "1 in 10": (rng.random(ROW) < 0.1) * 1.0,
    }
    return ({name: x.astype(np.float32) for name, x in sets.items()},
            {name: None if w is None else w.astype(np.float32) for name, w in importances.items()})


def list_hard(types, library, tool):
    sets, importances = hard_sets()
    for name in types:
        found = []
        for set_name, x in sets.items():
            for weight_name, weights in importances.items():
                if weights is None and name in NEEDS_IMPORTANCE:
                    continue
                ours = error(name, encode_ours(tool, name, x, weights)[0], x, weights)
                peer = error(name, library.encode(name, x, weights)[0], x, weights)
                if ours > peer * 1.002 and ours > 1e-3 * x.std():
                    found.append(f"{set_name}, {weight_name}: {ours / peer:.3f}")
        print(f"{name}: {'; '.join(found) or 'nowhere'}", flush=True)


class Library:
    def __init__(self, path):
        lib = ctypes.CDLL(path)
        self.init, self.quantize = lib.ggml_quantize_init, lib.ggml_quantize_chunk
        self.quantize.restype = ctypes.c_size_t
        self.quantize.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]

    def encode(self, name, x, importance):
        """(blocks [n, bytes], nanoseconds of processor time per element)"""
        type_id = {"Q1_0": 41, "Q2_0": 42}.get(name) or int(gguf.GGMLQuantizationType[name])
        self.init(type_id)  # its tables, outside the measured time
        blocks = np.zeros((x.size // BLOCKS[name][0], BLOCKS[name][1]), np.uint8)
        start = time.process_time()
        self.quantize(type_id, x.ctypes.data, blocks.ctypes.data, 0, *x.shape, None if importance is None else importance.ctypes.data)
        return blocks, (time.process_time() - start) * 1e9 / x.size


def encode_ours(tool, name, x, importance):
    with tempfile.NamedTemporaryFile() as file:
        arguments = [tool, name, str(x.shape[1])]
        if importance is not None:
            importance.tofile(file.name)
            arguments.append(file.name)
        done = subprocess.run(arguments, input=x.tobytes(), capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, BLOCKS[name][1]), float(done.stderr)


def error(name, blocks, x, importance):
    squares = (decode(name, blocks).reshape(x.shape).astype(np.float64) - x) ** 2
    return float(np.sqrt((squares if importance is None else squares * (importance / importance.mean())).mean()))


def compare(name, sets, importance, library, tool):
    """(cells of the table's row, what is worse than the library)"""
    cells, worse, times = [], [], []
    for set_name, x in sets.items():
        for weights in (None, importance):
            blocks, ours_ns = encode_ours(tool, name, x, weights)
            ours = error(name, blocks, x, weights)
            if weights is None and name in NEEDS_IMPORTANCE:
                cells.append(f"{ours / x.std():.4f} (-)")
                continue
            blocks, peer_ns = library.encode(name, x, weights)
            peer = error(name, blocks, x, weights)
            times.append((ours_ns, peer_ns))
            ratio = ours / peer if peer else 1.0 if ours == 0 else np.inf
            cells.append(f"{ours / x.std():.4f} ({ratio:.3f})")
            bound = Q2_0_BOUND if (name, set_name) == ("Q2_0", "normal") else TIE
            if ratio > bound:
                worse.append(f"{name}, {set_name}{', importance' if weights is not None else ''}: {ratio:.4f}")
    speed = [f"{ours:.0f} / {peer:.0f}" for ours, peer in times[:2]]  # of the first set
    return [*cells, "-" if name in NEEDS_IMPORTANCE else speed[0], speed[0 if name in NEEDS_IMPORTANCE else 1]], worse


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--library")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--hard", action="store_true")
    args = parser.parse_args()
    if not args.library:
        folder = pathlib.Path(importlib.util.find_spec("xllamacpp").origin).parent
        args.library = str(next(folder.glob("xllamacpp*.so")))
    library = Library(args.library)
    if args.hard:
        list_hard(args.types.split(","), library, args.tool)
        return 0
    sets = data_sets(args.model)
    importance = np.exp(np.random.default_rng(5).standard_normal(ROW)).astype(np.float32)
    columns = [f"{name}{suffix}" for name in sets for suffix in ("", " *")]
    lines = ["| type | " + " | ".join(columns) + " | ns, ours / theirs | ns * |", "|---" * (len(columns) + 3) + "|"]
    worse = []
    for name in args.types.split(","):
        cells, bad = compare(name, sets, importance, library, args.tool)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
        worse += bad
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")
    print("\n".join(worse) if worse else "nowhere worse than the library")
    return 1 if args.check and worse else 0


if __name__ == "__main__":
    sys.exit(main())
