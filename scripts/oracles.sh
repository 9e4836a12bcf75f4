#!/usr/bin/env bash
# Compares with the independent Python references: tensor types, token ids, chat templates, logits.
# Usage: scripts/oracles.sh [--check]     without --check the golden files in tests/golden are written anew
# Needs the release build; makes build/venv from tools/requirements.txt and gets the demo models when they are missing.
# TOKAMAK_VENV and TOKAMAK_BIN name another virtual environment and another folder with the built tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check=()
case ${1:-} in
"") ;;
--check) check=(--check) ;;
*)
  echo "oracles: unknown argument '$1' (only --check)" >&2
  exit 2
  ;;
esac

venv=${TOKAMAK_VENV:-build/venv}
bin=${TOKAMAK_BIN:-build/release/bin}
for tool in logits_tool tokenize_tool tokamak; do
  if [[ ! -x $bin/$tool ]]; then
    echo "oracles: $bin/$tool is missing: build with 'cmake --preset release -DTOKAMAK_TESTS=ON && cmake --build --preset release'" >&2
    exit 3
  fi
done
# The copied requirements mark a finished installation of exactly these versions.
if [[ -z ${TOKAMAK_VENV:-} ]] && ! cmp -s tools/requirements.txt "$venv/requirements.txt"; then
  echo "oracles: installing the packages of tools/requirements.txt into $venv (torch is large)" >&2
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r tools/requirements.txt
  cp tools/requirements.txt "$venv/requirements.txt"
fi
mapfile -t models < <(scripts/fetch_model.sh smollm2 gemma3)
((${#models[@]} == 2)) || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
mkdir "$work/models" # the golden files go by the short names
ln -s "$(realpath "${models[0]}")" "$work/models/smollm2.gguf"
ln -s "$(realpath "${models[1]}")" "$work/models/gemma3.gguf"
failed=0
# run NAME TOOL ARGUMENT...: one line on success, the whole output otherwise.
run() {
  local name=$1 start=$SECONDS
  shift
  if "$venv/bin/python" "tools/$1" "${@:2}" >"$log" 2>&1; then
    printf 'ok      %-22s %4d s  %s\n' "$name" $((SECONDS - start)) "$(tail -n 1 "$log")"
  else
    failed=1
    printf 'FAILED  %-22s %4d s\n' "$name" $((SECONDS - start))
    cat "$log"
  fi
}

run "IQ grids" gen_iq_tables.py "${check[@]}"
run "tensor types" quant_oracle.py "${check[@]}"
run "tiny tokenizers" tokenizer_oracle.py golden "${check[@]}"
run "chat templates" chat_oracle.py "${check[@]}" --models "$work/models"
run "tiny models" arch_oracle.py "${check[@]}" --bin "$bin"
run "conversion" convert_oracle.py "${check[@]}" --bin "$bin" --model "$work/models/smollm2.gguf"
run "checkpoint classes" convert_classes_oracle.py "${check[@]}" --bin "$bin"
for model in smollm2 gemma3; do
  run "token ids, $model" tokenizer_oracle.py compare "$work/models/$model.gguf" --tool "$bin/tokenize_tool"
done
run "logits" logits_oracle.py "$work"/models/{smollm2,gemma3}.gguf --bin "$bin"
grep '^|' "$log" || true
exit $failed
