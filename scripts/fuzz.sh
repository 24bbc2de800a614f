#!/bin/sh
# fuzz.sh SECONDS JOBS TARGET...   Runs the libFuzzer targets, JOBS at a time, each for SECONDS.
# Seeds come from fuzz/corpus/NAME (NAME: chunk or chunk_fuzz), new inputs go to build/fuzz/corpus, failures to
# build/fuzz/artifacts. One line per target; a failure prints the path of its artifact.

if [ "$1" = one ]; then
  seconds=$2 target=$3
  name=$(basename "$target") short=$(basename "$target" _fuzz)
  log=build/fuzz/$name.log found=build/fuzz/corpus/$name
  mkdir -p "$found" build/fuzz/artifacts
  set --
  for d in "fuzz/corpus/$short" "fuzz/corpus/$name"; do [ -d "$d" ] && set -- "$@" "$d"; done
  for d in "fuzz/$short.dict" "fuzz/corpus/$short.dict"; do [ -f "$d" ] && set -- "$@" "-dict=$d"; done
  if "$target" "$found" "$@" "-max_total_time=$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      "-artifact_prefix=build/fuzz/artifacts/$name-" >"$log" 2>&1
  then
    echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") runs, nothing found"
    exit 0
  fi
  echo "$name: FAILED, $(grep -o 'build/fuzz/artifacts/[^ ]*' "$log" | tail -n 1)"
  echo "  again with: $target ARTIFACT   (all of it: $log)"
  grep -E -A 12 'ERROR: |runtime error|invariant|Assertion' "$log" | head -n 30 | sed 's/^/  | /'
  exit 1
fi

seconds=$1 jobs=$2
shift 2
[ $# -gt 0 ] || { echo "no fuzz targets in fuzz/"; exit 0; }
printf '%s\n' "$@" | xargs -P "$jobs" -I '{}' sh "$0" one "$seconds" '{}'
