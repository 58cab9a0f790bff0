use super::{SECTIONS, help_text, reference_markdown};
use crate::{lists, table};
use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

#[test]
fn the_reference_page_says_what_the_table_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/settings.md");
    if env::var_os("COURSER_BLESS").is_some() {
        fs::create_dir_all(page.parent().expect("a folder")).expect("the folder can be made");
        fs::write(&page, reference_markdown()).expect("the page can be written");
    }
    let written = fs::read_to_string(&page).expect("docs/reference/settings.md can be read");
    assert!(
        written == reference_markdown(),
        "docs/reference/settings.md is old; run: COURSER_BLESS=1 cargo test -p courser-settings reference",
    );
}

#[test]
fn help_names_every_key_once() {
    let help = help_text();
    for setting in table() {
        assert_eq!(
            help.matches(&format!("  {} = ", setting.key)).count(),
            1,
            "{}",
            setting.key
        );
    }
}

#[test]
fn keys_are_unique_and_every_text_is_a_sentence() {
    let keys: BTreeSet<&str> = table().iter().map(|setting| setting.key).collect();
    assert_eq!(keys.len(), table().len());
    let lists = lists();
    let fields = lists.iter().flat_map(|list| &list.fields);
    for (name, doc) in SECTIONS
        .iter()
        .copied()
        .chain(table().iter().map(|setting| (setting.key, setting.doc)))
        .chain(lists.iter().map(|list| (list.name, list.doc)))
        .chain(fields.map(|field| (field.key, field.doc)))
    {
        assert!(
            doc.ends_with('.') && !doc.contains('|') && !doc.contains('\n'),
            "{name}: {doc:?}"
        );
    }
}

#[test]
fn items_of_a_list_are_told_apart_by_a_field_that_must_be_given() {
    for list in lists() {
        let identity = format!("{}.{}", list.name, list.identity);
        let field = list.fields.iter().find(|field| field.key == identity);
        assert_eq!(field.map(|field| &field.default), Some(&None), "{identity}");
        assert!(
            SECTIONS.iter().all(|(section, _)| *section != list.name),
            "{} is a section and a list",
            list.name
        );
    }
}
