#!/usr/bin/env bash
# A folder of src/ may include itself and the folders above it in this list (the data flow, CONTRIBUTING.md),
# backend/ never includes arch/, and backends do not include each other; backend/lowering is there for all of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
order=(base tensor quant gguf safetensors tokenizer chat grammar ir fuse arch quantize convert synth backend engine eval check server cli)

rank_of() {
  for i in "${!order[@]}"; do [[ ${order[i]} == "$1" ]] && echo "$i" && return; done
  echo "check_includes: src/$1 is not in the list of folders" >&2
  return 1
}

status=0
while IFS=: read -r file included; do
  from=${file#src/} from=${from%%/*}
  to=${included%%/*}
  [[ $to == tokamak && $from == engine ]] && continue  # the public headers, which the engine implements
  [[ $included == page_files.inc ]] && continue  # made by cmake/EmbedFiles.cmake
  [[ -d src/$to ]] || { echo "$file includes \"$included\", which is in no folder of src/"; status=1; continue; }
  if (($(rank_of "$to") > $(rank_of "$from"))); then
    echo "$file includes \"$included\": $to/ comes after $from/ in the data flow"
    status=1
  fi
  if [[ $from == backend && $to == arch ]]; then
    echo "$file includes \"$included\": a backend must not know model families"
    status=1
  fi
  if [[ $from == backend && $to == backend ]]; then
    mine=$(cut -d/ -f3 <<<"$file") theirs=$(cut -d/ -f2 <<<"$included")
    if [[ $included == */*/* && $file == src/backend/*/* && $theirs != lowering && $mine != "$theirs" ]]; then
      echo "$file includes \"$included\": backends must not include each other"
      status=1
    fi
  fi
done < <(grep -rEo '^#include "[^"]+"' src --include='*.h' --include='*.cpp' | sed -E 's/#include "([^"]+)"/\1/')
while IFS=: read -r file included; do
  [[ $included == tokamak/* || $included == base/* ]] || { echo "$file includes \"$included\": a public header may use base/ only"; status=1; }
done < <(grep -rEo '^#include "[^"]+"' include --include='*.h' | sed -E 's/#include "([^"]+)"/\1/')
((status == 0)) && echo "include graph: ok"
exit $status
