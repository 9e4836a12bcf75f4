#!/usr/bin/env bash
# Wall time of quantizing a 1B-parameter F16 model, ours and llama-quantize's, in turns; prints the medians.
#   bench/quantize_beside_llama.sh TOKAMAK LLAMA_QUANTIZE PYTHON [TYPE=Q4_K_M] [RUNS=3] [THREADS=nproc]
# PYTHON needs gguf and numpy, to write the model once: random weights in the shapes of Llama 3.2 1B (2.5 GB). Needs
# 5 GB in ${TMPDIR:-/tmp}.
set -euo pipefail
tokamak=$1 llama=$2 python=$3 type=${4:-Q4_K_M} runs=${5:-3} threads=${6:-$(nproc)}
folder=${TMPDIR:-/tmp}/tokamak-quantize-bench
mkdir -p "$folder"
model=$folder/model-1b-f16.gguf
if [[ ! -e $model ]]; then
  "$python" - "$model.part" <<'PYTHON'
import sys
import gguf
import numpy

N_LAYER, N_EMBD, N_FF, N_KV, N_VOCAB = 16, 2048, 8192, 512, 128256
shapes = {"token_embd.weight": (N_VOCAB, N_EMBD), "output_norm.weight": (N_EMBD,)}
for i in range(N_LAYER):
    for name, shape in {"attn_norm": (N_EMBD,), "attn_q": (N_EMBD, N_EMBD), "attn_k": (N_KV, N_EMBD),
                        "attn_v": (N_KV, N_EMBD), "attn_output": (N_EMBD, N_EMBD), "ffn_norm": (N_EMBD,),
                        "ffn_gate": (N_FF, N_EMBD), "ffn_up": (N_FF, N_EMBD), "ffn_down": (N_EMBD, N_FF)}.items():
        shapes[f"blk.{i}.{name}.weight"] = shape
writer = gguf.GGUFWriter(sys.argv[1], "llama")
for key, value in {"block_count": N_LAYER, "embedding_length": N_EMBD, "feed_forward_length": N_FF,
                   "attention.head_count": 32, "attention.head_count_kv": 8, "context_length": 131072}.items():
    writer.add_uint32(f"llama.{key}", value)
writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
writer.add_string("tokenizer.ggml.model", "none")
types = {name: numpy.dtype(numpy.float16 if len(shape) > 1 else numpy.float32) for name, shape in shapes.items()}
for name, shape in shapes.items():
    writer.add_tensor_info(name, shape, types[name], int(numpy.prod(shape)) * types[name].itemsize)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_ti_data_to_file()
random = numpy.random.default_rng(1)
for name, shape in shapes.items():
    writer.write_tensor_data((random.standard_normal(shape, numpy.float32) * 0.02).astype(types[name]))
writer.close()
PYTHON
  mv "$model.part" "$model"
fi
cat "$model" > /dev/null  # both read from memory

seconds_of() {
  local begin end
  rm -f "$folder/out.gguf"
  sync
  begin=$(date +%s.%N)
  "$@" > "$folder/log.txt" 2>&1 || { cat "$folder/log.txt" >&2; exit 1; }
  end=$(date +%s.%N)
  awk "BEGIN { printf \"%.2f\", $end - $begin }"
}
for ((i = 1; i <= runs; ++i)); do
  ours=$(seconds_of "$tokamak" quantize "$model" "$folder/out.gguf" "$type" -t "$threads")
  theirs=$(seconds_of "$llama" "$model" "$folder/out.gguf" "$type" "$threads")
  echo "run $i: tokamak $ours s, llama-quantize $theirs s"
  echo "$ours $theirs" >> "$folder/times-$$.txt"
done
rm -f "$folder/out.gguf"
median() { cut -d' ' -f"$1" "$folder/times-$$.txt" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ours=$(median 1) theirs=$(median 2)
rm -f "$folder/times-$$.txt"
awk "BEGIN { printf \"median: tokamak %.2f s, llama-quantize %.2f s, ratio %.2f\n\", $ours, $theirs, $ours / $theirs }"
