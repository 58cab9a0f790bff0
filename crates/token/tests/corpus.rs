//! The kept inputs of the fuzz target `jwt`, and damaged forms of them.

#[allow(
    unreachable_pub,
    reason = "the fuzz target, in another crate, uses it too"
)]
mod fuzzed;
#[allow(unreachable_pub, reason = "the same file serves other crates")]
#[path = "../../../fuzz/src/kept.rs"]
mod kept;

#[test]
fn kept_inputs_whole_and_damaged() {
    kept::each("jwt", |input| {
        fuzzed::jwt(input);
        for (at, sign) in input.iter().enumerate() {
            let mut damaged = input.to_vec();
            damaged[at] = sign.rotate_left(1) ^ 1;
            fuzzed::jwt(&damaged);
            fuzzed::jwt(&input[..at]);
        }
    });
}
