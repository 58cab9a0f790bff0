#!/bin/sh
# Runs the tests of the trie and of the router under AddressSanitizer, with its leak check. The sanitizer is not stable,
# which the compiler is told to overlook: what is tested is what the compiler of the project makes. `costs` is left out: it
# counts allocations. Exits non-zero if anything fails. Environment: CARGO_TARGET_DIR.
set -eu
cd "$(dirname "$0")/../.."
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/asan" RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address --cfg asan" CARGO_PROFILE_DEV_OPT_LEVEL=1
export ASAN_OPTIONS=detect_leaks=1
cargo test --locked --target "$host" --package courser-router --lib --test routing --test lifetimes --test rings --test corpus
cargo test --locked --target "$host" --package courser-trie --lib --test rules --test cache --test shared_stress --test corpus
