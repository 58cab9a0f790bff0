#!/bin/sh
# Runs the tests of the trie and of the router under AddressSanitizer, which needs a nightly toolchain. `costs` is left
# out: it counts allocations. Exits non-zero if anything fails. Environment: CARGO_TARGET_DIR.
set -eu
cd "$(dirname "$0")/../.."
if ! rustc +nightly --version > /dev/null 2>&1; then
    echo "no nightly toolchain: not run" >&2
    exit 0
fi
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/asan" RUSTFLAGS="-Zsanitizer=address"
export ASAN_OPTIONS=detect_leaks=1 PROPTEST_CASES="${PROPTEST_CASES:-64}"
cargo +nightly test --quiet --target "$host" --package courser-router --lib --test routing --test lifetimes --test rings
cargo +nightly test --quiet --target "$host" --package courser-trie --lib --test rules --test cache --test shared_stress
