"""Quality of quantized files by `tokamak eval`, beside llama.cpp's llama-perplexity and llama-imatrix: same files, text
and chunks. Prints markdown tables.

Usage: compare_perplexity.py perplexity BASE FILE... --text TEXT [--chunks N] [--tokamak PROGRAM] [--llama PROGRAM]
       compare_perplexity.py imatrix OURS THEIRS
BASE is the file that the others were quantized from. Without --llama (a llama-perplexity) its columns are left out.
With --check the exit status is 1 when a perplexity is more than 0.5 % away from llama.cpp's.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

LIMIT = 0.005  # relative, of issue 3


def ours(args, model, *more):
    command = [args.tokamak, "eval", model, "-c", str(args.chunk_size), "--chunks", str(args.chunks), "--json", *more]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def theirs(args, model, n_chunks):
    """Perplexity and its error, or None when llama.cpp cannot run the file or takes more than --timeout."""
    command = [args.llama, "-m", model, "-f", args.text, "-c", str(args.chunk_size), "-b", str(args.chunk_size),
               "--chunks", str(n_chunks)]
    try:
        run = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=args.timeout)
    except subprocess.TimeoutExpired:
        return None
    found = re.search(r"PPL = ([0-9.]+) \+/- ([0-9.]+)", run.stdout + run.stderr)
    return (float(found[1]), float(found[2])) if found else None


def show(estimate, digits):
    return f"{estimate['value']:.{digits}f} ± {estimate['error']:.{digits}f}"


def perplexity(args):
    heading = ["file", "perplexity"] + (["llama.cpp", "difference"] if args.llama else [])
    heading += ["ratio to the base", "KL divergence", "99 %", "same top token", "change of p, rms"]
    print("| " + " | ".join(heading) + " |\n|" + "---|" * len(heading))
    is_near = True
    with tempfile.TemporaryDirectory() as folder:
        logits = pathlib.Path(folder) / "base.logits"
        for model in [args.base, *args.files]:
            is_base = model == args.base
            got = ours(args, model, *(["-f", args.text, "--save-logits", logits] if is_base else ["--base", logits]))
            value = got["perplexity"]["value"]
            row = [pathlib.Path(model).stem, show(got["perplexity"], 2)]
            if args.llama:
                peer = theirs(args, model, got["n_chunks"])
                row += [f"{peer[0]:.2f} ± {peer[1]:.2f}", f"{100 * (value / peer[0] - 1):+.2f} %"] if peer else ["-", "-"]
                is_near = is_near and (peer is None or abs(value / peer[0] - 1) <= LIMIT)
            if is_base:
                row += ["1", "0", "0", "100 %", "0"]
            else:
                divergence = got["kl_divergence"]
                high = next(q["value"] for q in divergence["quantiles"] if q["fraction"] == 0.99)
                top, delta = got["same_top"], got["delta_p"]
                row += [show(got["perplexity_ratio"], 4), show(divergence, 5), f"{high:.4f}",
                        f"{100 * top['value']:.2f} ± {100 * top['error']:.2f} %", f"{100 * delta['rms']:.2f} %"]
            print("| " + " | ".join(row) + " |", flush=True)
    return 0 if is_near or not args.check else 1


def means(path):
    import gguf
    import numpy as np

    tensors = {t.name: np.array(t.data, dtype=np.float64) for t in gguf.GGUFReader(path).tensors}
    suffix = ".in_sum2"
    return {name.removesuffix(suffix): data.ravel() / tensors[name.removesuffix(suffix) + ".counts"].ravel()[0]
            for name, data in tensors.items() if name.endswith(suffix)}


def imatrix(args):
    import numpy as np

    mine, other = means(args.ours), means(args.theirs)
    if mine.keys() != other.keys():
        sys.exit(f"only one of the files has {sorted(mine.keys() ^ other.keys())}")
    rows = sorted((float(np.sqrt(((mine[n] - other[n]) ** 2).sum() / (other[n] ** 2).sum())), n) for n in mine)
    print(f"{len(rows)} tensors; relative difference of the means (root mean square over columns): "
          f"median {100 * rows[len(rows) // 2][0]:.3f} %, largest {100 * rows[-1][0]:.2f} % ({rows[-1][1]})")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("perplexity")
    command.add_argument("base")
    command.add_argument("files", nargs="*")
    command.add_argument("--text", required=True)
    command.add_argument("--chunks", type=int, default=0)
    command.add_argument("--chunk-size", type=int, default=512)
    root = pathlib.Path(__file__).resolve().parent.parent
    command.add_argument("--tokamak", default=root / "build/release/bin/tokamak")
    command.add_argument("--llama")
    command.add_argument("--timeout", type=float, default=1500, help="seconds for one run of llama.cpp")
    command.add_argument("--check", action="store_true")
    command.set_defaults(run=perplexity)
    command = commands.add_parser("imatrix")
    command.add_argument("ours")
    command.add_argument("theirs")
    command.set_defaults(run=imatrix)
    args = parser.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
