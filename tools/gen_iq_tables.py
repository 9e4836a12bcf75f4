#!/usr/bin/env python3
"""Writes src/quant/iq_tables.cpp: the published grids of the IQ types, read from the `gguf` Python package.

usage: gen_iq_tables.py [--check]     --check: compare with the committed file, exit status 1 when it differs
"""
import argparse
import pathlib
import sys

import gguf.quants as gq
import numpy as np

TABLES = [  # C++ name, class in gguf.quants, bits per element
    ("kIq2XxsGrid", "IQ2_XXS", 2),
    ("kIq2XsGrid", "IQ2_XS", 2),
    ("kIq2SGrid", "IQ2_S", 2),
    ("kIq1Grid", "IQ1_S", 2),
    ("kIq3XxsGrid", "IQ3_XXS", 3),
    ("kIq3SGrid", "IQ3_S", 3),
]
HEADER = """// Grids of the IQ types, element k of a point in bits n k, n = 2 (8 elements) or 3 (4 elements); see iq_tables.h.
// Written by tools/gen_iq_tables.py from the `gguf` Python package (gguf.quants); do not edit.
// clang-format off
#include "quant/iq_tables.h"

namespace tokamak {
"""


def packed_points(class_name: str, n_bits: int) -> list[int]:
    cls = getattr(gq, class_name)
    cls.init_grid()
    values = [float(v) for v in cls.grid_map]
    points = np.asarray(cls.grid).reshape(cls.grid_shape)
    return [sum(values.index(float(v)) << (n_bits * k) for k, v in enumerate(point)) for point in points]


def render() -> str:
    out = [HEADER]
    for name, class_name, n_bits in TABLES:
        points = packed_points(class_name, n_bits)
        out.append(f"const std::array<uint16_t, {len(points)}> {name} = {{")
        for i in range(0, len(points), 16):
            out.append("    " + " ".join(f"0x{p:04x}," for p in points[i : i + 16]))
        out.append("};\n")
    out.append("}  // namespace tokamak")
    return "\n".join(out) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    path = pathlib.Path(__file__).resolve().parents[1] / "src/quant/iq_tables.cpp"
    if args.check:
        same = path.read_text() == render()
        print(f"{path.name}: {'up to date' if same else 'differs; run tools/gen_iq_tables.py'}")
        return 0 if same else 1
    path.write_text(render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
