use super::schema;
use crate::{lists, table};

#[test]
fn every_setting_is_described_once() {
    let schema = schema();
    for setting in table() {
        let (section, name) = setting.key.split_once('.').expect("keys have a section");
        let described = &schema["properties"][section]["properties"][name];
        let text = described["description"].as_str().expect("a description");
        assert!(text.contains(setting.doc.trim()), "{}", setting.key);
        let kinds = ["type", "anyOf", "enum"];
        assert!(
            kinds.iter().any(|kind| described.get(kind).is_some()),
            "{}",
            setting.key
        );
    }
    for list in lists() {
        let items = &schema["properties"][list.name]["items"];
        let fields = items["properties"].as_object().expect("fields");
        assert_eq!(fields.len(), list.fields.len());
        assert_eq!(items["required"][0], list.identity);
    }
}

#[test]
fn unknown_keys_and_values_out_of_range_are_not_allowed() {
    let schema = schema();
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["mqtt"]["additionalProperties"], false);
    let number = &schema["properties"]["mqtt"]["properties"]["receive_maximum"];
    assert_eq!(number["anyOf"][0]["minimum"], 1);
    assert_eq!(number["anyOf"][0]["maximum"], 65_535);
    assert_eq!(number["default"], 1024);
    let size = &schema["properties"]["mqtt"]["properties"]["packet_bytes_max"];
    assert_eq!(size["anyOf"][0]["maximum"], 268_435_455);
    let word = &schema["properties"]["session"]["properties"]["overflow"]["anyOf"][0]["enum"];
    assert_eq!(word.as_array().map(Vec::len), Some(3));
}
