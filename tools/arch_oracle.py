#!/usr/bin/env python3
"""Tiny random models of every architecture: transformers in float64 beside `tokamak convert` and the engine.

    arch_oracle.py [--check] [--bin build/release/bin] [--only NAME,...] [--llama LLAMA_LOGITS] [--keep FOLDER]
                   [--report]

For every case of arch_cases.py: the class with all parameters and buffers randomised, saved as a folder, converted by
`tokamak convert --no-tokenizer`, and the logits of the whole prompt and of single tokens through the cache compared. So
a wrong mapping of `convert` and a wrong graph both show. Then the same with Q8_0 weights and, with --llama (a program
built from tools/llama_logits.cpp), llama.cpp on the same F32 file.
Writes tests/golden/arch/NAME.gguf and NAME.logits (--check: compares with the committed files instead) and, with
--report, its part of docs/reports/architectures.md. Exit status 1 when a bar is missed or a file differs.
NAME.logits: u32 n_tokens, u32 n_vocab, i32 ids [n_tokens], f32 logits [n_tokens, n_vocab]; little-endian.
Needs: the packages of tools/requirements.txt and the built logits_tool and tokamak.
"""
import argparse
import copy
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass, field

import gguf
import numpy as np
import safetensors.torch
import torch

import arch_report
import hf_reference as hf
from arch_cases import CASES, N_VOCAB, Case

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/arch"
EXACT, QUANTIZED, LLAMA = 1e-9, 1e-4, 1e-3  # bars of NMSE
SMALLEST_GAP = 5e-3  # between the last chosen and the first left out score of a router, far above rounding
Q8_0 = gguf.GGMLQuantizationType.Q8_0
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


# --- random weights ---------------------------------------------------------------------------------------------------


def random_values(name: str, module, initial: torch.Tensor, rng) -> np.ndarray:
    """Nothing is left at a value that hides its absence."""
    noise, leaf = rng.standard_normal(tuple(initial.shape)), name.rsplit(".", 1)[-1]
    if "Norm" in type(module).__name__ and leaf == "weight":
        base = 1.0 if float(initial.detach().mean()) > 0.5 else 0.0  # 0: the class computes with 1 + w
        return base + 0.2 * noise
    if leaf == "e_score_correction_bias":
        return 0.15 * noise
    if leaf == "A_log":
        return np.log(rng.uniform(0.3, 4.0, noise.shape))
    if leaf == "dt_bias":
        return 0.7 * noise
    if leaf == "sinks":
        return noise
    if leaf.endswith("bias"):
        return 0.3 * noise
    if isinstance(module, torch.nn.Embedding):
        return 0.5 * noise
    if "conv1d" in name:
        return noise / math.sqrt(initial.shape[-1])
    if is_router(name):
        return 3.0 * noise / math.sqrt(initial.shape[-1])
    sharper = 1.7 if any(part in name for part in ("q_proj", "k_proj", "q_b_proj", "kv_b_proj")) else 1.0
    return sharper * noise / math.sqrt(initial.shape[input_axis(module, initial)])


def is_router(name: str) -> bool:
    return any(name.endswith(end) for end in (".gate.weight", ".router.weight", ".wg.weight", "router.layer.weight"))


def input_axis(module, values) -> int:
    """The axis that a matrix product sums over."""
    stacked_inputs_first = type(module).__name__ in ("Llama4TextExperts", "GptOssExperts")
    return -2 if type(module).__name__ == "Conv1D" or stacked_inputs_first else -1


def to_f16(values: np.ndarray, axis: int) -> np.ndarray:
    return values.astype(np.float16).astype(np.float64)


def to_bf16(values: np.ndarray, axis: int) -> np.ndarray:
    return torch.from_numpy(values).to(torch.bfloat16).to(torch.float64).numpy()


def to_q8_0(values: np.ndarray, axis: int) -> np.ndarray:
    """Each row of inputs on the grid of Q8_0, where it has whole blocks."""
    if values.ndim < 2 or values.shape[axis] % 32:
        return to_f16(values, axis)
    rows = np.ascontiguousarray(np.moveaxis(values, axis, -1), np.float32)
    rows = gguf.dequantize(gguf.quantize(rows, Q8_0), Q8_0).reshape(rows.shape)
    return np.moveaxis(rows, -1, axis).astype(np.float64)


def on_grid(grid, config, name: str, module, values: np.ndarray) -> np.ndarray:
    if name.endswith("kv_b_proj.weight"):  # files hold the keys' part transposed
        heads = values.reshape(config.num_attention_heads, -1, values.shape[-1])
        keys, rest = np.split(heads, [config.qk_nope_head_dim], axis=1)
        return np.concatenate([grid(keys, 1), grid(rest, 2)], axis=1).reshape(values.shape)
    return grid(values, input_axis(module, values))


@dataclass
class Mxfp4:
    """Random experts whose values are exactly MXFP4, and the two tensors that a folder holds for each."""

    tensors: dict = field(default_factory=dict)

    def values(self, name: str, shape, rng) -> np.ndarray:
        n_expert, n_in, n_out = shape
        codes = rng.integers(0, 16, (n_expert, n_out, n_in // 32, 32))
        scales = rng.integers(122, 126, codes.shape[:3])
        pairs = (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)
        self.tensors[name + "_blocks"] = torch.from_numpy(pairs)
        self.tensors[name + "_scales"] = torch.from_numpy(scales.astype(np.uint8))
        values = FP4[codes] * 2.0 ** (scales[..., None] - 127)
        return values.reshape(n_expert, n_out, n_in).swapaxes(1, 2)


# --- models and folders -----------------------------------------------------------------------------------------------


@dataclass
class Model:
    hf: torch.nn.Module  # float64
    ids: list[int]
    logits: np.ndarray  # [n_tokens, n_vocab]
    gap: float  # smallest distance in any top-k; inf without one
    mxfp4: Mxfp4


def build(name: str, case: Case, grid, changes: dict) -> Model:
    """The first seed whose routers decide clearly."""
    for attempt in range(400):
        model = random_model(case, grid, changes, np.random.default_rng([zlib.crc32(name.encode()), attempt]))
        if model.gap >= SMALLEST_GAP:
            break
    else:
        raise SystemExit(f"{name}: no seed with clear routers")
    stepwise = hf.compare(model.logits, hf.logits_of(model.hf, model.ids, case.n_prompt))
    assert stepwise.nmse < 1e-20, f"{name}: transformers disagrees with itself: {stepwise}"
    return model


def random_model(case: Case, grid, changes, rng) -> Model:
    config = case.config_of(**changes)
    config._attn_implementation, config._experts_implementation = "eager", "eager"
    model, mxfp4 = hf.model_class(case.cls)(config).eval(), Mxfp4()
    persistent = model.state_dict(keep_vars=True)
    parameters = dict(model.named_parameters()) | {n: b for n, b in model.named_buffers() if n in persistent}
    for name, parameter in parameters.items():
        module = model.get_submodule(name.rpartition(".")[0])
        if case.mxfp4 and name.endswith(("gate_up_proj", "down_proj")):
            values = mxfp4.values(name, parameter.shape, rng)
        else:
            values = on_grid(grid, model.config, name, module, random_values(name, module, parameter, rng))
        parameter.data = torch.from_numpy(np.ascontiguousarray(values, np.float64))
    model.tie_weights()
    for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
        assert tensor.dtype == torch.float64 or not tensor.is_floating_point(), f"{name} is {tensor.dtype}"
    ids = rng.integers(0, N_VOCAB, case.n_tokens).tolist()
    with hf.smallest_gap() as gaps:
        logits = hf.logits_of(model, ids)
    return Model(model, ids, logits, min(gaps, default=math.inf), mxfp4)


def save_folder(folder: pathlib.Path, model: Model):
    single = copy.deepcopy(model.hf).to(torch.float32)
    single.config.dtype = torch.float32
    single.save_pretrained(folder)
    if not model.mxfp4.tensors:
        return
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    for name in model.mxfp4.tensors:
        tensors.pop(name.rpartition("_")[0], None)
    safetensors.torch.save_file(tensors | model.mxfp4.tensors, path, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def convert(tokamak: pathlib.Path, folder: pathlib.Path, out_type: str) -> pathlib.Path:
    out = folder.parent / f"{folder.name}.{out_type}.gguf"
    command = [tokamak, "convert", "--no-tokenizer", "--outtype", out_type, folder, out]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"convert: {done.stderr.strip()}")
    return out


# --- runs -------------------------------------------------------------------------------------------------------------


@dataclass
class Tools:
    bin: pathlib.Path
    llama: pathlib.Path | None
    work: pathlib.Path


def run_llama(tools: Tools, path, ids, n_prompt) -> np.ndarray:
    ids_file, out_file = tools.work / "ids.txt", tools.work / "llama.bin"
    ids_file.write_text(" ".join(map(str, ids)))
    command = [tools.llama, path, ids_file, out_file, n_prompt or len(ids), 1]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"llama.cpp: {done.stderr.strip().splitlines()[0] if done.stderr.strip() else done.returncode}")
    return np.fromfile(out_file, "<f4").reshape(len(ids), -1)


def nmse_of(name: str, run: str, bar: float, model: Model, case: Case, engine) -> dict:
    """{(run, mode): NMSE or a text that says why there is none}, prefill and one by one."""
    results = {}
    for mode, n_prompt in [("prefill", None), ("one by one", case.n_prompt)]:
        try:
            d = hf.compare(model.logits, engine(n_prompt))
            results[run, mode] = d.nmse
            ok = "ok" if d.nmse <= bar else "MISSED"
            print(f"{name:22} {run:14} {mode:10} NMSE {d.nmse:.1e} max {d.max_abs:.1e} top-1 {d.top1:6.1%} {ok}", flush=True)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            results[run, mode] = str(error)
            print(f"{name:22} {run:14} {mode:10} {error}", flush=True)
    return results


def run_case(name: str, case: Case, tools: Tools, check: bool) -> tuple[dict, list[str]]:
    model = build(name, case, {"f16": to_f16, "q8_0": to_q8_0, "auto": to_bf16}[case.golden], {})
    folder = tools.work / name
    save_folder(folder, model)
    failures = write_golden(name, case, model, convert(tools.bin / "tokamak", folder, case.golden), check)
    path = convert(tools.bin / "tokamak", folder, "f32")
    results = {("gap", ""): model.gap}
    engine = lambda backend: lambda n: hf.run_engine(tools.bin / "logits_tool", path, backend, model.ids, tools.work,
                                                     n_prompt=n, threads=1)  # fmt: skip  # noqa: E731
    results |= nmse_of(name, "reference f32", EXACT, model, case, engine("reference"))
    results |= nmse_of(name, "cpu f32", EXACT, model, case, engine("cpu"))
    if tools.llama:
        results |= nmse_of(name, "llama.cpp f32", LLAMA, model, case, lambda n: run_llama(tools, path, model.ids, n))
    if case.blocks is not None:
        results |= run_q8_0(name, case, tools)
    return results, failures


def run_q8_0(name: str, case: Case, tools: Tools) -> dict:
    model, folder = build(name + " Q8_0", case, to_q8_0, case.blocks), tools.work / f"{name}.q8_0"
    save_folder(folder, model)
    exact, path = (convert(tools.bin / "tokamak", folder, kind) for kind in ("f32", "q8_0"))
    held = {t.name: t for t in gguf.GGUFReader(path).tensors}
    n_blocks = 0
    for want in gguf.GGUFReader(exact).tensors:  # then the class holds what the file holds
        got = held[want.name]
        n_blocks += got.tensor_type == Q8_0
        if (gguf.dequantize(got.data, got.tensor_type).ravel() != want.data.ravel()).any():
            print(f"{name}: {want.name} as {got.tensor_type.name} is not what the class holds", flush=True)
    print(f"{name:22} {n_blocks} of {len(held)} tensors as Q8_0", flush=True)
    results = {}
    for backend in ("reference", "cpu"):
        engine = lambda n: hf.run_engine(tools.bin / "logits_tool", path, backend, model.ids, tools.work, n_prompt=n,
                                         threads=1)  # fmt: skip  # noqa: E731, B023
        results |= nmse_of(name, f"{backend} Q8_0", QUANTIZED, model, case, engine)
    return results


# --- golden files -----------------------------------------------------------------------------------------------------


def write_golden(name: str, case: Case, model: Model, path: pathlib.Path, check: bool) -> list[str]:
    head = np.array([len(model.ids), N_VOCAB, *model.ids], "<i4").tobytes()
    files = {f"{name}.gguf": path.read_bytes(), f"{name}.logits": head + model.logits.astype("<f4").tobytes()}
    failures = []
    for file, content in files.items():
        target = GOLDEN / file
        if not check:
            target.write_bytes(content)
        elif not target.exists() or not same_content(target.read_bytes(), content, len(head) * file.endswith(".logits")):
            failures.append(f"{target.relative_to(ROOT)} is not what arch_oracle.py makes")
    return failures


def same_content(committed: bytes, fresh: bytes, n_head: int) -> bool:
    """n_head: bytes before f32 values, whose last bits may depend on the BLAS in use; 0: no such values."""
    if not n_head or len(committed) != len(fresh):
        return committed == fresh
    want, got = (np.frombuffer(data[n_head:], "<f4") for data in (committed, fresh))
    return committed[:n_head] == fresh[:n_head] and np.allclose(want, got, rtol=1e-6, atol=1e-6)


BARS = {"reference f32": EXACT, "cpu f32": EXACT, "reference Q8_0": QUANTIZED, "cpu Q8_0": QUANTIZED}


def misses(name: str, results: dict) -> list[str]:
    out = []
    for (run, mode), value in results.items():
        if run in BARS and not (isinstance(value, float) and value <= BARS[run]):
            out.append(f"{name}, {run}, {mode}: {value if isinstance(value, str) else f'NMSE {value:.1e}'}")
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--only", help="names of cases or architectures, separated by commas")
    parser.add_argument("--llama", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the models; the default is temporary")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    hf.use_float64()
    torch.set_num_threads(1)
    only = args.only.split(",") if args.only else None
    names = [name for name, case in CASES.items() if not only or name in only or case.arch in only]
    failures, results = [], {}
    GOLDEN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        tools = Tools(args.bin, args.llama, args.keep or pathlib.Path(temporary))
        for name in names:
            try:
                results[name], failed = run_case(name, CASES[name], tools, args.check)
                failures += failed + misses(name, results[name])
            except (RuntimeError, AssertionError) as error:
                results[name] = {(run, mode): str(error) for run in BARS for mode in arch_report.MODES}
                failures.append(f"{name}: {error}")
                print("FAILED:", failures[-1], flush=True)
    if args.report:
        arch_report.write(ROOT / "docs/reports/architectures.md", {name: CASES[name] for name in results}, results)
    for failure in failures:
        print("FAILED:", failure)
    print(f"arch_oracle: {len(names)} models, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
