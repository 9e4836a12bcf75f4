#!/usr/bin/env python3
"""Which type llama-quantize gives each tensor: runs its --dry-run over models that hold no weights (sparse files) and
records the answers in tests/golden/quantize/mixes.txt. A black box: only its printed plan is read.

  tools/quantize_oracle.py --llama-quantize PATH [--check]

The golden file, one record after another:
  model NAME ARCHITECTURE
  key KEY VALUE              without the architecture's prefix
  tensor NAME LAYERS DIMS    blk.* stands for the layers: numbers with commas, or FIRST-LAST/STEP; DIMS innermost first
  plan FILE_TYPE IMATRIX     none, imatrix, or any: both alike
  type NAME TYPE*COUNT...    by layer; or the single line `refused`
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import gguf
import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/quantize/mixes.txt"

FILE_TYPES = ("F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K "
              "IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M IQ3_XXS IQ3_XS IQ3_S IQ3_M IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4_MOE "
              "Q1_0 Q2_0").split()


# Keys that some loader wants and no mixing rule reads.
REQUIRED_FLOATS = {"attention.layer_norm_rms_epsilon": 1e-5, "attention.layer_norm_epsilon": 1e-5,
                   "rope.scaling.yarn_log_multiplier": 0.1}
REQUIRED_INTS = {"ssm.conv_kernel": 4, "ssm.inner_size": 512, "ssm.state_size": 16, "ssm.time_step_rank": 16,
                 "ssm.group_count": 1, "attention.sliding_window": 64, "attention.kv_lora_rank": 256,
                 "attention.q_lora_rank": 256, "attention.decay_lora_rank": 64, "attention.iclr_lora_rank": 64,
                 "attention.value_residual_mix_lora_rank": 32, "attention.gate_lora_rank": 128, "wkv.head_size": 64,
                 "expert_feed_forward_length": 512, "expert_shared_count": 1, "interleave_moe_layer_step": 2,
                 "leading_dense_block_count": 1, "attention.key_length_mla": 192, "attention.value_length_mla": 128}


def attention(n_embd, n_kv, prefix=""):
    return {f"{prefix}attn_norm.weight": [n_embd], f"{prefix}attn_q.weight": [n_embd, n_embd],
            f"{prefix}attn_k.weight": [n_embd, n_kv], f"{prefix}attn_v.weight": [n_embd, n_kv],
            f"{prefix}attn_output.weight": [n_embd, n_embd]}


def dense(n_embd, n_ff):
    return {"ffn_norm.weight": [n_embd], "ffn_gate.weight": [n_embd, n_ff], "ffn_up.weight": [n_embd, n_ff],
            "ffn_down.weight": [n_ff, n_embd]}


def experts(n_embd, n_ff, n_expert):
    return {"ffn_norm.weight": [n_embd], "ffn_gate_inp.weight": [n_embd, n_expert],
            "ffn_gate_exps.weight": [n_embd, n_ff, n_expert], "ffn_up_exps.weight": [n_embd, n_ff, n_expert],
            "ffn_down_exps.weight": [n_ff, n_embd, n_expert]}


def shared(n_embd, n_ff):
    return {"ffn_gate_shexp.weight": [n_embd, n_ff], "ffn_up_shexp.weight": [n_embd, n_ff],
            "ffn_down_shexp.weight": [n_ff, n_embd], "ffn_gate_inp_shexp.weight": [n_embd]}


def fused_qkv(n_embd, n_kv, n_ff):
    return {"attn_norm.weight": [n_embd], "attn_qkv.weight": [n_embd, n_embd + 2 * n_kv],
            "attn_output.weight": [n_embd, n_embd], "ffn_up.weight": [n_embd, n_ff],
            "ffn_down.weight": [n_ff, n_embd]}


def mla(n_embd):
    return {"attn_norm.weight": [n_embd], "attn_q_a.weight": [n_embd, 256], "attn_q_a_norm.weight": [256],
            "attn_q_b.weight": [256, 512], "attn_kv_a_mqa.weight": [n_embd, 320], "attn_kv_a_norm.weight": [256],
            "attn_kv_b.weight": [256, 512], "attn_k_b.weight": [128, 256, 4], "attn_v_b.weight": [256, 128, 4],
            "attn_output.weight": [512, n_embd]}


def model(arch, n_layer, layers, n_head=8, n_head_kv=2, n_embd=256, n_ff=512, n_expert=0, tied=False, order=None,
          extra=None, **keys):
    """layers: list of (layer numbers, {name: dims})."""
    tensors = [("token_embd.weight", [n_embd, 128])]
    if not tied:
        tensors.append(("output.weight", [n_embd, 128]))
    tensors.append(("output_norm.weight", [n_embd]))
    tensors += list((extra or {}).items())
    for numbers, names in layers:
        for name, dims in names.items():
            tensors.append((numbers, name, dims))
    facts = {"block_count": n_layer, "embedding_length": n_embd, "feed_forward_length": n_ff,
             "attention.head_count": n_head, "attention.head_count_kv": n_head_kv, "context_length": 128}
    if n_expert:
        facts["expert_count"] = n_expert
        facts["expert_used_count"] = 2
    facts.update(keys)
    return {"arch": arch, "keys": facts, "tensors": tensors}


def uniform(arch, n_layer, names, **facts):
    return model(arch, n_layer, [(range(n_layer), names)], **facts)


SSM = {"ssm_in.weight": [256, 512], "ssm_conv1d.weight": [4, 512], "ssm_x.weight": [512, 256],
       "ssm_dt.weight": [256, 512], "ssm_out.weight": [512, 256], "attn_norm.weight": [256]}
RWKV = {"time_mix_w1.weight": [256, 64], "time_mix_w2.weight": [64, 256], "time_mix_lerp_fused.weight": [256, 1, 1, 6],
        "time_mix_w0.weight": [256], "time_mix_v0.weight": [256], "time_mix_v1.weight": [256, 32],
        "time_mix_v2.weight": [32, 256], "time_mix_a0.weight": [256], "time_mix_a1.weight": [256, 64],
        "time_mix_a2.weight": [64, 256], "time_mix_g1.weight": [256, 128], "time_mix_g2.weight": [128, 256],
        "time_mix_decay_w1.weight": [256, 64], "time_mix_decay_w2.weight": [64, 256],
        "time_mix_first.weight": [64, 4], "time_mix_key.weight": [256, 256], "time_mix_value.weight": [256, 256],
        "time_mix_receptance.weight": [256, 256], "time_mix_gate.weight": [256, 256],
        "time_mix_output.weight": [256, 256], "channel_mix_key.weight": [256, 512],
        "channel_mix_value.weight": [512, 256], "channel_mix_receptance.weight": [256, 256]}
GEMMA3N = {**attention(256, 64), **dense(256, 512), "altup_correct_coef.weight": [256, 256],
           "altup_router.weight": [256, 256], "altup_predict_coef.weight": [256, 256],
           "laurel_l.weight": [256, 64], "laurel_r.weight": [64, 256], "inp_gate.weight": [256, 256],
           "proj.weight": [256, 256], "post_norm.weight": [256]}
ODDITIES = {**attention(256, 64), **dense(256, 512), "attn_rel_b.weight": [256, 256], "shortconv.conv.weight": [256, 256],
            "shortconv.in_proj.weight": [256, 768], "shortconv.out_proj.weight": [256, 256],
            "indexer.k_norm.weight": [256, 256], "indexer.proj.weight": [256, 256], "indexer.attn_k.weight": [256, 256],
            "indexer.attn_q_b.weight": [256, 256], "ffn_gate_tid2eid.weight": [256, 256], "attn_q.bias": [256, 2],
            "exp_probs_b.bias": [256], "layer_output_norm.weight": [256], "nextn.eh_proj.weight": [512, 256],
            "attn_gate.weight": [256, 256], "attn_sinks.weight": [256], "cross_attn_v.weight": [256, 256]}

MODELS = {
    "gqa32": uniform("llama", 32, {**attention(256, 64), **dense(256, 512)}),
    "mha22": uniform("llama", 22, {**attention(256, 256), **dense(256, 512)}, n_head_kv=8),
    "gqa2_5": uniform("llama", 5, {**attention(256, 128), **dense(256, 512)}, n_head_kv=4),
    "gqa80": uniform("llama", 80, {**attention(256, 64), **dense(256, 512)}),
    "mha80": uniform("llama", 80, {**attention(256, 256), **dense(256, 512)}, n_head_kv=8),
    "gqa2_80": uniform("llama", 80, {**attention(256, 128), **dense(256, 512)}, n_head_kv=4),
    "moe8_80": uniform("llama", 80, {**attention(256, 64), **experts(256, 512, 8)}, n_expert=8),
    "moe8": uniform("llama", 32, {**attention(256, 64), **experts(256, 512, 8)}, n_expert=8),
    "moe8_mha": uniform("llama", 12, {**attention(256, 256), **experts(256, 512, 8)}, n_expert=8, n_head_kv=8),
    "moe8_qkv": uniform("phi3", 8, {**{k: v for k, v in fused_qkv(256, 32, 512).items() if "ffn" not in k},
                                    **experts(256, 512, 8)}, n_expert=8),
    "moe8_falcon": uniform("falcon", 16, {**attention(256, 64), **experts(256, 512, 8)}, n_expert=8),
    "moe4": uniform("llama", 12, {**attention(256, 256), **experts(256, 512, 4)}, n_expert=4, n_head_kv=8),
    "moe2": uniform("llama", 12, {**attention(256, 256), **experts(256, 512, 2)}, n_expert=2, n_head_kv=8),
    "moe60": uniform("qwen2moe", 24, {**attention(256, 256), **experts(256, 512, 60), **shared(256, 512)}, n_expert=60,
                     n_head_kv=8),
    "mixed_dense_moe": model("llama4", 16, [(range(0, 16, 2), {**attention(256, 64), **dense(256, 512)}),
                                            (range(1, 16, 2), {**attention(256, 64), **experts(256, 512, 16),
                                                               **shared(256, 512)})], n_expert=16),
    "mla": model("deepseek2", 27, [([0], {**mla(256), **dense(256, 512)}),
                                   (range(1, 27), {**mla(256), **experts(256, 512, 64), **shared(256, 512)})],
                 n_expert=64, n_head=4, n_head_kv=1),
    "falcon": uniform("falcon", 32, fused_qkv(256, 32, 1024), n_head_kv=1),
    "falcon_split": uniform("falcon", 32, {**attention(256, 64), **dense(256, 512)}),
    "phi3": uniform("phi3", 32, fused_qkv(256, 256, 512), n_head_kv=8),
    "gpt2": uniform("gpt2", 12, fused_qkv(256, 256, 1024), n_head_kv=8, extra={"position_embd.weight": [256, 128]}),
    "bert": uniform("bert", 12, {**attention(256, 256), **dense(256, 512)}, n_head_kv=8, tied=True,
                    extra={"position_embd.weight": [256, 128], "token_types.weight": [256, 2]}),
    "tied26": uniform("gemma3", 26, {**attention(256, 128), **dense(256, 512)}, n_head=4, n_head_kv=1, tied=True),
    "rows576": uniform("llama", 30, {**attention(576, 192), **dense(576, 1536)}, n_embd=576, n_head=9, n_head_kv=3,
                       n_ff=1536, tied=True),
    "rows576_out": uniform("llama", 30, {**attention(576, 192), **dense(576, 1536)}, n_embd=576, n_head=9, n_head_kv=3,
                           n_ff=1536),
    "rows96": uniform("llama", 6, {**attention(96, 32), **dense(96, 160)}, n_embd=96, n_head=3, n_head_kv=1, n_ff=160),
    "rows48": uniform("llama", 6, {**attention(48, 16), **dense(48, 80)}, n_embd=48, n_head=3, n_head_kv=1, n_ff=80),
    "hybrid": model("jamba", 16, [(range(0, 16), dense(256, 512)), (range(3, 16, 8), attention(256, 64)),
                                  ([i for i in range(16) if i % 8 != 3], SSM)]),
    "sparse_ffn": model("jamba", 32, [(range(0, 32, 2), dense(256, 512)), (range(1, 32, 4), attention(256, 64)),
                                      (range(3, 32, 4), SSM)]),
    "mamba": uniform("mamba", 24, SSM, n_head=0, n_head_kv=0, n_ff=0),
    "rwkv": uniform("rwkv7", 12, RWKV, n_head=0, n_head_kv=0),
    "gemma3n": uniform("gemma3n", 10, GEMMA3N, tied=True,
                       extra={"altup_proj.weight": [256, 256, 3], "altup_unembd_proj.weight": [256, 256, 3],
                              "per_layer_token_embd.weight": [256, 128], "per_layer_model_proj.weight": [256, 512],
                              "per_layer_proj_norm.weight": [256]}),
    "oddities": uniform("llama", 8, ODDITIES, extra={"rope_freqs.weight": [32], "token_embd_norm.weight": [256],
                                                     "cls.weight": [256, 256], "cls.output.weight": [256, 2],
                                                     "output.bias": [128], "token_types.weight": [256, 2],
                                                     "position_embd.weight": [256, 128]}),
}


def expand(spec):
    for entry in spec["tensors"]:
        if len(entry) == 2:
            yield entry
        else:
            for number in entry[0]:
                yield f"blk.{number}.{entry[1]}", entry[2]


def write_sparse(path, spec):
    writer = gguf.GGUFWriter(path, spec["arch"])
    for key, value in spec["keys"].items():
        writer.add_uint32(f"{spec['arch']}.{key}", value)
    for key, value in REQUIRED_FLOATS.items():
        writer.add_float32(f"{spec['arch']}.{key}", value)
    for key, value in REQUIRED_INTS.items():
        if key not in spec["keys"]:
            writer.add_uint32(f"{spec['arch']}.{key}", value)
    writer.add_string("tokenizer.ggml.model", "none")
    n_bytes = 0
    for name, dims in expand(spec):
        shape = tuple(reversed(dims))
        dtype = numpy.float32 if len(dims) == 1 else numpy.float16
        size = int(numpy.prod(dims)) * numpy.dtype(dtype).itemsize
        writer.add_tensor_info(name, shape, numpy.dtype(dtype), size)
        n_bytes += (size + 31) // 32 * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with open(path, "r+b") as file:
        file.truncate((path.stat().st_size + 31) // 32 * 32 + n_bytes)


def write_imatrix(path, spec):
    writer = gguf.GGUFWriter(path, "imatrix")
    writer.add_type("imatrix")
    writer.add_array("imatrix.datasets", ["none"])
    writer.add_uint32("imatrix.chunk_count", 1)
    writer.add_uint32("imatrix.chunk_size", 512)
    for name, dims in expand(spec):
        if len(dims) < 2 or not name.endswith("weight"):
            continue
        n_mat = dims[2] if len(dims) > 2 else 1
        writer.add_tensor(f"{name}.in_sum2", numpy.ones((n_mat, dims[0]), numpy.float32))
        writer.add_tensor(f"{name}.counts", numpy.ones((n_mat, 1), numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


LINE = re.compile(r"^\[\s*\d+/\s*\d+\] (\S+)\s+- \[.*\], type =\s*(\S+), size =\s*\S+ MiB(?: ->\s*\S+ MiB \((\S+)\))?")


def ask(tool, path, file_type, imatrix):
    command = [tool, "--dry-run"] + (["--imatrix", str(imatrix)] if imatrix else []) + [str(path), file_type]
    done = subprocess.run(command, capture_output=True, text=True)
    text = done.stdout + done.stderr
    if done.returncode != 0:
        return None, text
    plan = {}
    for line in text.splitlines():
        if match := LINE.match(line):
            plan[match[1]] = (match[3] or match[2]).upper()
    return plan, text


def by_layer(plan):
    """{name with * for the layer: [type per layer, in order]}"""
    groups = {}
    for name, kind in plan.items():
        match = re.match(r"blk\.(\d+)\.(.*)", name)
        groups.setdefault(f"blk.*.{match[2]}" if match else name, []).append((int(match[1]) if match else 0, kind))
    return {name: [kind for _, kind in sorted(items)] for name, items in groups.items()}


def runs(kinds):
    out = []
    for kind in kinds:
        if out and out[-1][0] == kind:
            out[-1][1] += 1
        else:
            out.append([kind, 1])
    return " ".join(f"{kind}*{n}" if n > 1 else kind for kind, n in out)


def numbers_text(numbers):
    numbers = list(numbers)
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    if numbers == list(range(numbers[0], numbers[-1] + 1, step)):
        return f"{numbers[0]}-{numbers[-1]}/{step}"
    return ",".join(map(str, numbers))


def record(tool, folder):
    out = ["# Written by tools/quantize_oracle.py from llama-quantize --dry-run; see there for the format."]
    for name, spec in MODELS.items():
        path, imatrix = folder / f"{name}.gguf", folder / f"{name}.imatrix.gguf"
        write_sparse(path, spec)
        write_imatrix(imatrix, spec)
        out.append(f"model {name} {spec['arch']}")
        out += [f"key {key} {value}" for key, value in spec["keys"].items()]
        for entry in spec["tensors"]:
            if len(entry) == 2:
                out.append(f"tensor {entry[0]} - {' '.join(map(str, entry[1]))}")
            else:
                out.append(f"tensor blk.*.{entry[1]} {numbers_text(entry[0])} {' '.join(map(str, entry[2]))}")
        for file_type in FILE_TYPES:
            answers = {}
            for has_imatrix in (0, 1):
                plan, text = ask(tool, path, file_type, imatrix if has_imatrix else None)
                if plan is not None and len(plan) != len(list(expand(spec))):
                    sys.exit(f"{name} {file_type}: {len(plan)} tensors in the answer\n{text}")
                answers[has_imatrix] = (["refused"] if plan is None else
                                        [f"type {key} {runs(kinds)}" for key, kinds in by_layer(plan).items()])
            both = answers[0] == answers[1]
            for has_imatrix in (0,) if both else (0, 1):
                out.append(f"plan {file_type} {'any' if both else ('none', 'imatrix')[has_imatrix]}")
                out += answers[has_imatrix]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-quantize", required=True)
    parser.add_argument("--check", action="store_true", help="compare with the committed file instead of writing it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = record(arguments.llama_quantize, pathlib.Path(folder))
    if arguments.check:
        if text != GOLDEN.read_text():
            sys.exit(f"{GOLDEN} differs from what llama-quantize answers now")
        print("equal")
    else:
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text(text)


if __name__ == "__main__":
    main()
