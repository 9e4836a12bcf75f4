#!/usr/bin/env bash
# The commands over the demo models of the cache. Usage: demo_models.sh PROGRAM. Exit status 77: a model is missing.
set -euo pipefail
program=${1:?program}
cache=${TOKAMAK_CACHE:-$HOME/.cache/tokamak}
smollm2=$cache/SmolLM2-135M-Instruct.Q4_1.gguf gemma3=$cache/gemma-3-270m.Q4_K_M.gguf
for model in "$smollm2" "$gemma3"; do
  [[ -f $model ]] || { echo "skipped: $model is missing (scripts/fetch_model.sh smollm2 gemma3 gets it)"; exit 77; }
done

fail() { echo "FAILED: $*"; exit 1; }
has() { [[ $2 == *"$1"* ]] || fail "expected '$1' in: $2"; }

has Paris "$("$program" run "$smollm2" --raw -p "The capital of France is" --temp 0 -n 4)"
has Hello "$("$program" run "$smollm2" -p "Say hello." --temp 0 -n 8)"
has Paris "$("$program" run "$gemma3" --raw -p "The capital of France is Paris. The capital of France is" --temp 0 -n 8)"
has "can be run" "$("$program" inspect "$smollm2")"
has "can be run" "$("$program" inspect "$gemma3")"
[[ $("$program" run "$smollm2" -p hello --temp 0 -n 20) == $("$program" run "$smollm2" -p hello --temp 0 -n 20 -t 1 -b 3) ]] ||
  fail "the answer depends on threads or batch"
text=$'Grüße, 日本 👍🏽\n\n    x = 1'
[[ $("$program" tokenize "$smollm2" -p "$text" | "$program" tokenize "$smollm2" --ids -) == "$text" ]] || fail "round trip"
has '"decode"' "$("$program" bench "$smollm2" -p 16 -n 4 -r 1 --json)"
has "MUL_MAT+MUL_MAT+GLU" "$("$program" explain "$smollm2" -b 16 -r 1)"
echo "demo models: ok"
