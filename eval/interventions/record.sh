#!/bin/bash
# record.sh SOURCES COUNTERS OUT [SECONDS]: builds the program, times every intervention, counts every kernel with ncu.
#
# SOURCES is what `python suite.py SOURCES` wrote, COUNTERS a file with the names of the counters, one a line. Leaves
# times.csv, scales.txt and counters.csv.gz in OUT; a file that does not compile is left out and named. What was measured
# when the time is over stays.
set -u
here=$(cd "$(dirname "$0")" && pwd)
sources=$(realpath "$1") counters=$(realpath "$2") out=$(realpath "$3") total=${4:-540}
examples=${EXAMPLES:-$here/../../examples/kernels} nvcc=${NVCC:-nvcc} ncu=${NCU:-ncu} parts=8
work=$(mktemp -d)
begin=$(date +%s)
left() { echo $((total - ($(date +%s) - begin))); }

cp "$here/main.cu" "$sources"/cases_*.cu "$work"
cd "$work" || exit 2
compile() { timeout 110 "$nvcc" -std=c++20 -O3 -lineinfo -arch="${ARCH:-sm_90}" -I"$here" -I"$examples" -c "$1" -o "${1%.cu}.o" 2> "$1.log"; }
export -f compile; export nvcc here examples
ls ./*.cu | xargs -P "$(nproc)" -I{} bash -c 'compile {} || { echo "not compiled: {}"; head -5 {}.log; rm -f "$(basename {} .cu).o"; }'
"$nvcc" ./*.o -o interventions || exit 2
echo "built after $(($(date +%s) - begin)) s: $(./interventions list | wc -l) cases"

limit=$(($(left) * 2 / 5)); [ "$limit" -gt 150 ] && limit=150
timeout $((limit + 20)) ./interventions time "$out/times.csv" "$out/scales.txt" "$limit"
echo "timed after $(($(date +%s) - begin)) s: $(wc -l < "$out/times.csv") lines"

metrics=$(paste -sd, "$counters")
pages=()
for part in $(seq 0 $((parts - 1))); do
  [ "$(left)" -lt 25 ] && { echo "no time for part $part"; continue; }
  timeout "$(left)" "$ncu" --metrics "$metrics" --replay-mode kernel --cache-control all --clock-control none \
    --kernel-name-base function --kernel-name demand --csv --page raw --print-units base --log-file "part_$part.csv" \
    ./interventions once "$out/scales.txt" "$part" "$parts" > "order_$part.txt" 2> "ncu_$part.log"
  echo "part $part: $(grep -c '^"[0-9]' "part_$part.csv") launches after $(($(date +%s) - begin)) s"
  [ -s "ncu_$part.log" ] && tail -2 "ncu_$part.log"
  grep -m3 '^==ERROR\|^==WARNING' "part_$part.csv"
  pages+=("part_$part.csv" "order_$part.txt")
  python3 "$here/merge.py" "$out/counters.csv.gz" "${pages[@]}"
done
rm -rf "$work"
