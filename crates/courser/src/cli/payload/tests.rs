use std::path::{Path, PathBuf};

use prost_reflect::prost::Message as _;

use super::*;

fn flags(format: &str) -> PayloadFlags {
    let format = PayloadFormat::parse(format).expect("a good format");
    PayloadFlags {
        payload_format: Some(format),
    }
}

const READING: &str = r#"
syntax = "proto3";
package plant;
import "unit.proto";
message Reading { string sensor = 1; double value = 2; Unit unit = 3; }
"#;
const UNIT: &str = r#"
syntax = "proto3";
package plant;
enum Unit { NONE = 0; KELVIN = 1; }
message Scale { Unit unit = 1; }
"#;

/// A folder with a file of one message type that imports another one.
fn plant() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("unit.proto"), UNIT).expect("a file");
    let file = folder.path().join("reading.proto");
    std::fs::write(&file, READING).expect("a file");
    (folder, file)
}

fn proto(file: &Path, rest: &str) -> Result<PayloadFormat, String> {
    PayloadFormat::parse(&format!("proto:{}{rest}", file.display()))
}

#[test]
fn what_is_written_and_what_is_sent() {
    for (format, written, sent) in [
        ("text", "68 \u{e4}", &b"68 \xc3\xa4"[..]),
        ("hex", "6869", b"hi"),
        ("hex", "68 69\n 0aFF", b"hi\n\xff"),
        ("hex", "", b""),
        ("base64", "aGk=", b"hi"),
        ("base64", "aG\nk=\n", b"hi"),
        ("json", "{\"a\" : [1, 2.50]}", b"{\"a\" : [1, 2.50]}"),
    ] {
        let read = flags(format).read(written.as_bytes().to_vec());
        assert_eq!(read.as_deref(), Ok(sent), "{format} {written:?}");
    }
}

#[test]
fn what_is_of_no_such_form_is_not_sent() {
    for (format, written, why) in [
        ("hex", "686", "half a byte"),
        ("hex", "6x", "'x' is no hexadecimal digit"),
        ("base64", "aGk", "not base64"),
        ("base64", "a?k=", "not base64"),
        ("json", "{\"a\":}", "line 1 column 6"),
        ("json", "1 2", "not JSON"),
    ] {
        let error = flags(format)
            .read(written.as_bytes().to_vec())
            .expect_err(written);
        assert!(error.contains(why), "{format} {written:?}: {error}");
    }
}

#[test]
fn how_payloads_are_shown() {
    let payload = b"{\"b\": 1,\n \"a\": \"\x7f\"}";
    let long = br#"[ 123456789012345678901234567890, 2.50, " \" \\", "a b" ]"#;
    let show = |format: &str| flags(format).show(payload).expect("it is one");
    assert_eq!(show("text"), None, "as it came");
    assert_eq!(
        show("hex").as_deref(),
        Some("7b2262223a20312c0a202261223a20227f227d")
    );
    assert_eq!(
        show("base64").as_deref(),
        Some("eyJiIjogMSwKICJhIjogIn8ifQ==")
    );
    assert_eq!(show("json").as_deref(), Some("{\"b\":1,\"a\":\"\u{7f}\"}"));
    let shown = flags("json").show(long).expect("it is one");
    assert_eq!(
        shown.as_deref(),
        Some(r#"[123456789012345678901234567890,2.50," \" \\","a b"]"#)
    );
    assert!(flags("json").show(b"text").is_err());
    assert_eq!(PayloadFlags::default().show(b"\xff"), Ok(None));
}

#[test]
fn a_message_type_goes_both_ways() {
    let (_folder, file) = plant();
    let format = proto(&file, "").expect("the file has one message type itself");
    let json = br#"{"sensor":"t1","value":293.5,"unit":"KELVIN"}"#;
    let bytes = format.read(json.to_vec()).expect("it is one");
    assert_eq!(bytes, b"\x0a\x02t1\x11\0\0\0\0\0\x58\x72\x40\x18\x01");
    assert_eq!(format.show(&bytes).expect("it is one").as_bytes(), json);
    for name in [":Reading", ":plant.Reading"] {
        let named = proto(&file, name).expect("it has that name");
        assert_eq!(named.show(&bytes), format.show(&bytes), "{name}");
    }
    for wrong in [&br#"{"sensor":1}"#[..], br#"{"length":1}"#, b"{", b"{} {}"] {
        let error = format.read(wrong.to_vec()).expect_err("no Reading");
        assert!(error.contains("plant.Reading"), "{error}");
    }
    assert!(format.show(b"\x0a\x7f").is_err(), "cut short");
}

#[test]
fn a_set_of_descriptors_has_its_imports_messages_too() {
    let (folder, file) = plant();
    let set = protox::compile([&file], [folder.path()]).expect("it is right");
    let compiled = folder.path().join("plant.bin");
    std::fs::write(&compiled, set.encode_to_vec()).expect("a file");
    let error = proto(&compiled, "").expect_err("there are two");
    assert!(error.contains("plant.Scale, plant.Reading"), "{error}");
    let format = proto(&compiled, ":Scale").expect("it is there");
    assert_eq!(
        format.show(b"\x08\x01").as_deref(),
        Ok(r#"{"unit":"KELVIN"}"#)
    );
}

#[test]
fn a_file_that_is_of_no_use_is_named() {
    let (folder, file) = plant();
    let error = proto(&file, ":Missing").expect_err("no such message");
    assert!(
        error.ends_with("has no message Missing; it has: plant.Reading"),
        "{error}"
    );
    assert!(proto(&folder.path().join("none.proto"), "").is_err());
    assert!(proto(&folder.path().join("none.bin"), "").is_err());
    std::fs::write(&file, "message {").expect("a file");
    let error = proto(&file, "").expect_err("no name");
    assert!(error.contains("reading.proto"), "{error}");
    assert!(PayloadFormat::parse("xml").is_err());
}
