#!/usr/bin/env bash
# The demo: a model under less memory than it has bytes, then the same with all of it in memory, and a comparison of the texts.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${BUILD:-build}/sluice
model=demo/novels-moe-Q4_K_M.gguf
prompt="It was a dark night, and the old house"
generate=("$program" generate "$model" --prompt "$prompt" --max-tokens 120 --temp 0.8 --seed 7)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# field FILE NAME: one number or text of a JSON file, by a path such as "cache.hits"; empty when it is not there.
field() {
    python3 - "$1" "$2" <<'PYTHON'
import json, sys
value = json.load(open(sys.argv[1]))
for part in sys.argv[2].split("."):
    value = value.get(part) if isinstance(value, dict) else None
print("" if value is None else value)
PYTHON
}

# line LABEL NAME [UNIT]: prints a field of $metrics, scaled when UNIT is MiB or %; says nothing when the run has no such field.
line() {
    local value
    value=$(field "$metrics" "$2")
    [ -n "$value" ] || return 0
    case ${3:-} in
        MiB) value=$(awk -v v="$value" 'BEGIN { printf "%.1f MiB", v / 1048576 }') ;;
        %) value=$(awk -v v="$value" 'BEGIN { printf "%.1f %%", v * 100 }') ;;
        /s) value=$(awk -v v="$value" 'BEGIN { printf "%.1f tokens/s", v }') ;;
    esac
    printf '  %-34s %s\n' "$1" "$value"
}

run() { # BUDGET NAME
    if ! "${generate[@]}" --ram "$1" --metrics "$work/$2.json" 2>"$work/$2.log" | tee "$work/$2.txt"; then
        cat "$work/$2.log" >&2
        exit 1
    fi
    echo
    metrics=$work/$2.json
}

model_bytes=$(wc -c <"$model")
"$program" plan "$model" --ram min --json >"$work/plan.json"
minimum=$(field "$work/plan.json" minimum_bytes)
budget=$((model_bytes / 2))
[ "$minimum" -le "$budget" ] || budget=$minimum

printf 'Model: %s, %d MiB. Budget of the whole process: %d MiB.\n\n' "$model" $((model_bytes >> 20)) $((budget >> 20))
if [ "$budget" -ge "$model_bytes" ]; then
    printf 'Note: this program needs %d MiB, more than the model has; larger models show more.\n\n' $((minimum >> 20))
fi
run "$budget" small

printf '\nWhat happened\n'
line "budget" plan.budget_bytes MiB
line "peak of the process (VmHWM)" memory.peak_bytes MiB
line "trunk, stays in memory" memory.by_owner_bytes.trunk MiB
line "expert cache" memory.by_owner_bytes.cache MiB
line "keys and values" memory.by_owner_bytes.kv MiB
line "hit rate, all tokens" reads.hit_rate %
line "hit rate, second half" reads.hit_rate_last_half %
line "read from disk" reads.read_bytes MiB
line "read per token" reads.read_bytes_per_token MiB
line "speed" times.decode_tokens_per_s /s
line "bound that memory sets" bounds.memory_bound_tokens_per_s /s
line "bound that the disk sets" bounds.disk_bound_tokens_per_s /s

printf '\nThe same with all of the model in memory:\n\n'
run all large
line "peak of the process (VmHWM)" memory.peak_bytes MiB
line "speed" times.decode_tokens_per_s /s

if cmp -s "$work/small.txt" "$work/large.txt"; then
    printf '\nBoth texts are the same, byte for byte: memory decides speed, never tokens.\n'
else
    printf '\nThe texts differ. That is a bug: the budget must not change a byte.\n' >&2
    diff "$work/small.txt" "$work/large.txt" >&2 || true
    exit 1
fi
