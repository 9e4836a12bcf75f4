"""Writes arch_oracle.py's part of docs/reports/architectures.md, between the two lines that begin and end it."""
import math
import pathlib

BEGIN, END = "<!-- begin: tools/arch_oracle.py --report -->", "<!-- end: tools/arch_oracle.py -->"
RUNS = ("reference f32", "cpu f32", "cpu Q8_0", "llama.cpp f32")
MODES = ("prefill", "one by one")

TEXT = """
## Logits against transformers

Per architecture: tiny models of the oracle class, every parameter and buffer randomised, saved as a Hugging Face folder,
converted with `tokamak convert`, and run on 33 or 37 tokens, all at once (prefill) and from the 22nd token on one by one
through the cache. The class computes in float64 on the same weights. NMSE is over all logits of all positions: the sum of
squared differences divided by the sum of squares, rounded up to a power of ten, the largest over the cases of a row. Bars:
1e-9 with F32 weights, 1e-4 with Q8_0 weights (`cpu` rounds activations to 15-bit codes then; models of wider rows).
llama.cpp (build 11434, F32 cache, no flash attention) read the same converted F32 files: a second opinion about what a file
means, since `convert` and the graph could share a mistake. It computes GELU through an f16 table and the L2 norms of delta
nets with another eps. Cases that it cannot load or reads otherwise are left out of its columns; the second table says why.

"""


def bound(value) -> str:
    """The power of ten that is not below."""
    if not isinstance(value, float):
        return "" if value is None else "not run"
    if not math.isfinite(value) or value <= 0:
        return str(value)
    return f"1e{math.ceil(math.log10(value)):+03d}"


def worst(cases: dict, results: dict, names: list[str], run: str, mode: str):
    """The largest value of the cases; a text if one could not run; None if none was asked for."""
    values = [results[name].get((run, mode)) for name in names]
    if run.startswith("llama"):  # what it cannot run or reads otherwise is explained case by case
        values = [value for name, value in zip(names, values) if not cases[name].llama]
    values = [value for value in values if value is not None]
    texts = [value for value in values if isinstance(value, str)]
    return texts[0] if texts else max(values, default=None)


def section(cases: dict, results: dict) -> str:
    names_of = {}
    for name, case in cases.items():
        names_of.setdefault(case.arch, []).append(name)
    out = [TEXT]
    out.append("| architecture | classes | cases | " + " | ".join(f"{run}, {mode}" for run in RUNS for mode in MODES) + " |\n")
    out.append("|---|---|---|" + "---|" * (len(RUNS) * len(MODES)) + "\n")
    for arch, names in names_of.items():
        classes = ", ".join(dict.fromkeys(cases[name].cls for name in names))
        cells = [bound(worst(cases, results, names, run, mode)) for run in RUNS for mode in MODES]
        out.append(f"| `{arch}` | {classes} | {len(names)} | " + " | ".join(cells) + " |\n")
    out.append("\n### Cases\n\n`gap`: the smallest distance, over all tokens and layers, between the score of the last chosen "
               "expert and that of the first left out.\n\n| case | options | gap | llama.cpp |\n|---|---|---|---|\n")  # fmt: skip
    for name, case in cases.items():
        gap = results[name].get(("gap", ""), math.inf)
        values = [results[name].get(("llama.cpp f32", mode)) for mode in MODES]
        texts = [value for value in values if not isinstance(value, float)]
        llama = case.llama or bound(texts[0] if texts else max(values))
        out.append(f"| `{name}` | {case.options} | {'' if math.isinf(gap) else f'{gap:.1g}'} | {llama} |\n")
    return "".join(out)


def write(path: pathlib.Path, cases: dict, results: dict):
    text = path.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(before + BEGIN + "\n" + section(cases, results) + END + after)
