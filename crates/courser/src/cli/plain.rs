//! Texts of clients on a terminal or in a log: what a client has named itself cannot move a cursor, nor begin a line of its own.

use std::borrow::Cow;

/// Whether a letter is shown as it is: no control characters, none that turn the direction of writing or are not seen.
fn is_plain(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

/// A text in which everything that is not plain is escaped, as in Rust and JSON.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_plain(letter) {
            plain.push(letter);
        } else {
            plain.extend(letter.escape_default());
        }
    }
    plain
}

/// A payload in which control characters are escaped, and bytes that are no text; line ends and tabs stay.
pub(crate) fn plain_payload(payload: &[u8]) -> Cow<'_, [u8]> {
    let stays = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t');
    if str::from_utf8(payload).is_ok_and(|text| text.chars().all(stays)) {
        return Cow::Borrowed(payload);
    }
    let mut plain = String::with_capacity(payload.len());
    for chunk in payload.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if stays(letter) {
                plain.push(letter);
            } else {
                plain.extend(letter.escape_default());
            }
        }
        for byte in chunk.invalid() {
            plain.push_str(&format!("\\x{byte:02x}"));
        }
    }
    Cow::Owned(plain.into_bytes())
}

/// [`plain`] for text of several lines.
pub(crate) fn plain_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(plain).collect();
    lines.join("\n")
}

/// JSON in which everything that is not plain is escaped; line ends of the layout stay.
pub(crate) fn plain_json(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter == '\n' || is_plain(letter) {
            plain.push(letter);
        } else {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                plain.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    plain
}

/// A text in quotation marks, in which these and everything that is not plain are escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            _ if is_plain(letter) => quoted.push(letter),
            _ => quoted.extend(letter.escape_default()),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_is_left() {
        let evil = "a\x1b[2J\r\n\u{9b}1m\u{202e}\u{2028}\u{7f}ä";
        let escaped = "a\\u{1b}[2J\\r\\n\\u{9b}1m\\u{202e}\\u{2028}\\u{7f}ä";
        assert_eq!(plain(evil), escaped);
        assert_eq!(plain_lines("a\x1b\nb"), "a\\u{1b}\nb");
        assert_eq!(quoted("a \"b\"\\\n"), "\"a \\\"b\\\"\\\\\\n\"");
        let json = serde_json::json!({ "id": evil }).to_string();
        let shown = plain_json(&json);
        assert!(shown.chars().all(is_plain), "{shown}");
        let read: serde_json::Value = serde_json::from_str(&shown).expect("it is JSON still");
        assert_eq!(read["id"], evil);
    }
}
