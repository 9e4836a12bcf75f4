#!/usr/bin/env bash
# Libraries below server/ and cli/ never print, exit or abort; CHECK (base/check.cpp) is the sole exception, and what nvcc
# adds to .cu files.
# Usage: scripts/check_symbols.sh BUILD_FOLDER
set -euo pipefail
build=${1:?build folder}
banned='abort|exit|_exit|quick_exit|printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror|__printf_chk|__fprintf_chk|_ZSt4cout|_ZSt4cerr|_ZSt4clog'

status=0 n=0
while IFS= read -r library; do
  n=$((n + 1))
  hits=$(nm -A --undefined-only "$library" 2>/dev/null | grep -E " U ($banned)(@|\$)" | grep -vE ':(check\.cpp|[a-z0-9_]*\.cu)\.o:' || true)
  [[ -z $hits ]] || { echo "$hits"; status=1; }
done < <(find "$build/src" -name 'libtokamak_*.a')
((n > 0)) || { echo "check_symbols: no libraries in $build/src" >&2; exit 1; }
((status == 0)) && echo "symbols: $n libraries, none prints or aborts"
exit $status
