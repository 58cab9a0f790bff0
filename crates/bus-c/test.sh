#!/bin/sh
# Builds the C library, checks that the header is what cbindgen makes of the source, and runs the example and the
# tests: against the shared and the static library, and with Rust and C under AddressSanitizer. Exits non-zero if anything
# fails.
# Environment: CARGO_TARGET_DIR, CC, CBINDGEN (path, which `cargo xtask test` gives; without it and without cbindgen in PATH the
# check is left out, and counted as such).
set -eu
cd "$(dirname "$0")"
here=$(pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
cc=${CC:-cc}
flags="-std=c11 -Wall -Wextra -Werror -g -I include"
system="-lpthread -ldl -lm"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cbindgen=${CBINDGEN:-$(command -v cbindgen || true)}
if [ -n "$cbindgen" ]; then
    "$cbindgen" --quiet --config cbindgen.toml --output "$out/courser_router.h" src/lib.rs
    if ! diff -u include/courser_router.h "$out/courser_router.h"; then
        echo "include/courser_router.h is not what cbindgen makes: copy it from a run of cbindgen" >&2
        exit 1
    fi
    echo "test result: ok. 1 passed; 0 failed"
else
    # As cargo says it, which is what `cargo xtask test` counts.
    echo "test include/courser_router.h ... ignored, cbindgen is not installed"
    echo "test result: ok. 0 passed; 0 failed; 1 ignored"
fi

# In a folder of its own: the other builds of a release may go on meanwhile, and nothing of theirs is of use here, where crates are linked as they are.
CARGO_TARGET_DIR="$target/bus-c" CARGO_PROFILE_RELEASE_LTO=off cargo build --locked --quiet --release --package courser-router-c
lib="$target/bus-c/release"
# shellcheck disable=SC2086
"$cc" $flags tests/test.c -o "$out/shared" -L "$lib" -lcourser_router_c -Wl,-rpath,"$lib" $system
# shellcheck disable=SC2086
"$cc" $flags tests/test.c -o "$out/static" "$lib/libcourser_router_c.a" $system
# shellcheck disable=SC2086
"$cc" $flags examples/fan_out.c -o "$out/fan_out" "$lib/libcourser_router_c.a" $system
"$out/shared"
"$out/static"
"$out/fan_out" > "$out/said"
[ "$(grep -c ' got 21 from sensors/kitchen/temperature' "$out/said")" = 2 ]
grep -qx '2 calls' "$out/said"
echo "test result: ok. 1 passed; 0 failed"

# The sanitizer is not stable, which the compiler is told to overlook: what is tested is what the compiler of the project makes.
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$target/asan" CARGO_PROFILE_DEV_OPT_LEVEL=1 RUSTFLAGS="-Zsanitizer=address --cfg asan" \
    cargo build --locked --quiet --package courser-router-c --target "$host"
# The Rust library brings no sanitizer runtime of its own: the C compiler links it.
# shellcheck disable=SC2086
"$cc" $flags -fsanitize=address tests/test.c -o "$out/asan" "$target/asan/$host/debug/libcourser_router_c.a" $system
echo "under AddressSanitizer:"
ASAN_OPTIONS=detect_leaks=1 "$out/asan"
