#!/usr/bin/env bash
# Checks and measures the CUDA backend on a machine with a GPU, from a bundle of scripts/bundle_cuda.sh. Prints the
# numbers of docs/reports/cuda.md; whole outputs go to OUT. Parts, in this order, all by default:
#   tests     the kernels' own tests that the bundle holds
#   ops       check-ops test, every case
#   families  dummies of all families: counts (OUT/CUDA.csv), fused to unfused to reference, F32 and Q8_0
#   dense     llama-8b with random weights, NVFP4 and Q4_0: prefill, decode at depth 0 and 32768, explain
#   experts   qwen3moe-30b-a3b, NVFP4: the same (17 GB of disk)
#   split     the same model with 8 GB of GPU memory
#   sanitizer the tests of a kernel family under compute-sanitizer, memcheck and racecheck (where it is installed)
# Usage: scripts/cuda_report.sh BUNDLE OUT [PART...]     about six minutes in all, one without experts, split, sanitizer
# Exit status: 0 all went well, 1 something failed (the last lines name it), 2 wrong arguments.
set -u
if (($# < 2)); then
  sed -n '2,13s/^# \?//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
refuse() {
  echo "cuda_report: $*" >&2
  exit 2
}
[[ -x $1/bin/tokamak ]] || refuse "$1: no bin/tokamak there (make the folder with scripts/bundle_cuda.sh)"
bundle=$(cd "$1" && pwd)
mkdir -p "$2" || refuse "$2: the folder cannot be made (name another)"
out=$(cd "$2" && pwd)
shift 2
all_parts="tests ops families dense experts split sanitizer"
parts=" ${*:-$all_parts} "
for part in $parts; do
  [[ " $all_parts " == *" $part "* ]] || refuse "$part: no such part (known: $all_parts)"
done
failed=()
export LD_LIBRARY_PATH=$bundle/lib
tokamak=$bundle/bin/tokamak
models=$(mktemp -d)
trap 'rm -rf "$models"' EXIT

say() { printf '== %s (%s)\n' "$*" "$(date +%T)"; }
wants() { [[ $parts == *" $1 "* ]]; }
# Runs a command with a limit in seconds; its whole output to OUT/NAME.txt.
keep() {
  local name=$1 limit=$2
  shift 2
  timeout "$limit" "$@" >"$out/$name.txt" 2>&1
  local status=$?
  ((status == 0)) && return
  echo "$name: ended with $status"
  failed+=("$name")
  return "$status"
}

tests() {
  for program in "$bundle"/bin/*_test; do
    if [[ ! -e $program ]]; then
      echo "tests: the bundle holds none (name them to scripts/bundle_cuda.sh)"
      continue
    fi
    local name=${program##*/}
    say "$name"
    keep "$name" 120 "$program" || grep -a '^\[  FAILED' "$out/$name.txt" | sort -u | head -20
    tail -n 3 "$out/$name.txt"
    grep -aq '^\[  SKIPPED \]' "$out/$name.txt" && echo "$name: some were skipped (without a GPU those that need one are)"
  done
}
ops() {
  say "check-ops"
  keep check_ops 150 "$tokamak" check-ops test --backend cuda
  grep FAILED "$out/check_ops.txt" | cut -c1-200 | head -15
  tail -n 4 "$out/check_ops.txt" | cut -c1-300
}
families() {
  for type in F32 Q8_0; do
    say "families $type"
    keep "families_${type}_synth" 120 "$tokamak" synth --all "$models/$type" --type "$type" || {
      tail -n 1 "$out/families_${type}_synth.txt"
      rm -rf "${models:?}/$type"
      continue
    }
    local record=()
    if [[ $type == F32 ]]; then  # with the models of tests/fusion/check.sh whose weights have post-scales
      for family in llama gpt-oss qwen3moe; do
        keep "families_${family}_nvfp4" 60 "$tokamak" synth "$family" "$models/F32/$family-nvfp4.gguf" --type NVFP4
      done
      record=(--record "$out/CUDA.csv")
    fi
    keep "families_$type" 120 "$tokamak" fusion --models "$models/$type" --device cuda "${record[@]}"
    grep NMSE "$out/families_$type.txt" | sed 's/.*NMSE //' | sort -g | tail -n 3
    grep NMSE "$out/families_$type.txt" | awk '{ print $(NF-3), $1 }' | sort -g | tail -n 5
    tail -n 1 "$out/families_$type.txt"
    rm -rf "${models:?}/$type"
  done
}
# measure MODEL NAME
measure() {
  keep "$2_bench" 60 "$tokamak" bench "$1" --backend cuda -p 2048 -n 128 -r 3 -b 2048
  tail -n 4 "$out/$2_bench.txt"
  keep "$2_bench_512" 60 "$tokamak" bench "$1" --backend cuda -p 512 -n 0 -r 3
  tail -n 2 "$out/$2_bench_512.txt"
  keep "$2_deep" 60 "$tokamak" bench "$1" --backend cuda -p 0 -n 64 -r 2 -d 32768 -b 2048 -c 33280
  tail -n 2 "$out/$2_deep.txt"
  keep "$2_explain" 60 "$tokamak" explain "$1" --backend cuda -b 2048
  sed -n '1,32p' "$out/$2_explain.txt" | cut -c1-190
  grep 'run as a whole' "$out/$2_explain.txt"
}
# unfused MODEL NAME: decoding without any rule, beside what `measure` showed
unfused() {
  say "$2, not fused"
  keep "$2_unfused" 60 "$tokamak" bench "$1" --backend cuda -p 0 -n 64 -r 2 --no-fusion
  tail -n 2 "$out/$2_unfused.txt"
  keep "$2_unfused_deep" 90 "$tokamak" bench "$1" --backend cuda -p 0 -n 32 -r 1 -d 32768 -b 2048 -c 33280 --no-fusion
  tail -n 2 "$out/$2_unfused_deep.txt"
}
# made MODEL NAME: whether synth wrote it; says why not
made() {
  [[ -e $1 ]] && return
  tail -n 1 "$out/$2.txt"
  failed+=("$2")
  return 1
}
dense() {
  for type in NVFP4 Q4_0; do
    "$tokamak" synth llama-8b "$models/$type.gguf" --type "$type" >"$out/dense_${type}_synth.txt" 2>&1 &
  done
  wait
  for type in NVFP4 Q4_0; do
    say "llama-8b $type"
    made "$models/$type.gguf" "dense_${type}_synth" || continue
    measure "$models/$type.gguf" "dense_$type"
  done
  [[ -e $models/NVFP4.gguf ]] && unfused "$models/NVFP4.gguf" dense
  rm -f "$models"/*.gguf
}
experts_model() {
  [[ -e $models/30b.gguf ]] ||
    "$tokamak" synth qwen3moe-30b-a3b "$models/30b.gguf" --type NVFP4 >"$out/experts_synth.txt" 2>&1
  made "$models/30b.gguf" experts_synth
}
experts() {
  say "qwen3moe-30b-a3b NVFP4"
  experts_model || return
  measure "$models/30b.gguf" experts
  unfused "$models/30b.gguf" experts
}
split() {
  say "qwen3moe-30b-a3b in 8 GB of GPU memory"
  experts_model || return
  keep split 90 "$tokamak" bench "$models/30b.gguf" --backend cuda -p 512 -n 16 -r 1 --gpu-memory 8000
  tail -n 5 "$out/split.txt"
}
# A matrix type of each decoding, a cache of each way in: whole suites take hours under racecheck.
sanitizer() {
  command -v compute-sanitizer >/dev/null || {
    echo "sanitizer: compute-sanitizer is not installed, nothing was checked"
    return
  }
  local program name filter
  for program in "$bundle"/bin/cuda_*_test; do
    [[ -e $program ]] || continue
    name=${program##*/}
    case $name in
      cuda_attention_test)
        filter='DecodeAttentionQ8.*:HeadWrites.*:*Decode*/f16_group12:*Decode*/q8_0_pages16:*Decode*/bf16_chunk'
        filter+=':*HeadsOf*/f16_pages48:*HeadsOf*/q8_0_pages48:*HeadsOf*/f8_chunk:*HeadsOf*/f16_group12'
        filter+=':*MatchesReference/f16:*MatchesReference/q8_0_wide'
        ;;
      cuda_sampling_test) filter='*/151:*/4097' ;;
      *) filter='*NVFP4*:*Q4_K*:*IQ2_XS*:*BF16*' ;;
    esac
    for tool in memcheck racecheck; do
      say "$tool $name"
      keep "${tool}_$name" 180 compute-sanitizer --tool "$tool" --error-exitcode 9 "$program" --gtest_filter="$filter"
      tail -n 1 "$out/${tool}_$name.txt"
    done
  done
}

for part in $all_parts; do
  if wants "$part"; then "$part"; fi
done
say "end"
if ((${#failed[@]} > 0)); then
  echo "failed: ${failed[*]}"
  exit 1
fi
