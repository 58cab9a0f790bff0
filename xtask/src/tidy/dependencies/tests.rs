use super::unexplained;
use serde_json::json;

fn check(page: &str, expected: &[&str]) {
    let metadata = json!({
        "workspace_members": ["a", "b"],
        "packages": [
            { "id": "a", "name": "a", "dependencies": [{ "name": "b" }, { "name": "bytes" }, { "name": "loom" }] },
            { "id": "b", "name": "b", "dependencies": [{ "name": "bytes" }] },
            { "id": "bytes", "name": "bytes", "dependencies": [{ "name": "std" }] },
        ],
    });
    assert_eq!(
        unexplained(&metadata, page).expect("metadata is whole"),
        expected,
        "{page}"
    );
}

#[test]
fn each_dependency_has_its_line_and_no_line_is_left_over() {
    check("| `bytes` | x |\n| `loom` | y |\n", &[]);
    check(
        "| `bytes` | x |\n",
        &["docs/dependencies.md: has no line for loom"],
    );
    check(
        "| `bytes` | x |\n| `loom` |\n| `tokio` | z |\n",
        &["docs/dependencies.md: no crate uses tokio"],
    );
    check(
        "`bytes` and `loom` are used",
        &[
            "docs/dependencies.md: has no line for bytes",
            "docs/dependencies.md: has no line for loom",
        ],
    );
}
