use super::walk::tests::sorted_page;
use super::*;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
struct Row {
    id: u32,
    size: Option<u32>,
}

fn query(parameters: &[(&str, &str)]) -> Result<ListQuery, ApiError> {
    let owned = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    ListQuery::read::<Row>(owned.collect(), &["match"])
}

#[test]
fn parameters_are_read_and_wrong_ones_are_named() {
    let good = query(&[
        ("limit", "7"),
        ("filter", "id=b"),
        ("filter", "size>1"),
        ("match", "#"),
    ]);
    let good = good.expect("all are known");
    assert_eq!(
        (good.limit(), good.conditions.len(), good.own.len()),
        (7, 2, 1)
    );
    for (name, value, part) in [
        ("limit", "0", "1 to 10000"),
        ("limit", "10001", "1 to 10000"),
        ("limit", "x", "1 to 10000"),
        ("cursor", "zz", "none of ours"),
        ("cursor", "ä", "none of ours"),
        ("filter", "a", "FIELD=PATTERN"),
        (
            "filter",
            "sise=1",
            "unknown field \"sise\"; there are id, size",
        ),
        ("filter", "size>x", "size is a number"),
        ("filter", "id<=", "id is a number"),
        ("sort", "-sise", "unknown field \"sise\""),
        ("lmit", "1", "unknown parameter \"lmit\""),
    ] {
        let error = query(&[(name, value)]).expect_err("it is wrong");
        assert_eq!(error.code(), Code::BadRequest);
        assert!(
            format!("{error:?}").contains(&part.replace('"', "\\\"")),
            "{error:?}"
        );
    }
    assert!(
        query(&[("filter", "id=b"); 17]).is_err(),
        "a question is bounded"
    );
}

#[test]
fn cursors_come_back_as_they_went() {
    for cursor in [
        Cursor::Walk(3, 7, 9),
        Cursor::Sorted(Value::from("ä\"b"), "x".into()),
        Cursor::Topic("a/b".into()),
    ] {
        assert_eq!(Cursor::read(&cursor.write()), Some(cursor));
    }
    let of_walk = Cursor::Walk(0, 0, 0).write();
    let stray = query(&[("cursor", &of_walk), ("sort", "size")]).expect("a cursor");
    assert!(
        stray.sorted().is_err(),
        "a cursor of a walk says nothing about an order"
    );
    assert!(stray.topic().is_err());
}

#[test]
fn a_page_takes_long_rows_until_its_bytes_are_used_up_and_one_in_any_case() {
    let row = Row { id: 10, size: None };
    assert_eq!(json_bytes(&row), r#"{"id":10,"size":null}"#.len());
    for (rows, bytes, expected) in [
        (7, 1000, 7),
        (7, 43, 3),
        (7, 42, 2),
        (7, 1, 1),
        (1, 1000, 1),
    ] {
        let mut fill = Fill::new(rows, bytes);
        let mut taken = 0;
        while !fill.is_full() {
            fill.take(&row);
            taken += 1;
        }
        assert_eq!(taken, expected, "{rows} rows and {bytes} B");
    }
}

#[test]
fn pages_of_an_order_have_every_row_once() {
    let rows: Vec<Row> = (0..1_000)
        .map(|id| Row {
            id,
            size: (id % 7 != 0).then_some(id * 37 % 11),
        })
        .collect();
    for (sort, bytes) in [("size", 1 << 20), ("-size", 200), ("size", 1)] {
        let mut seen = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut parameters = vec![("sort", sort), ("limit", "64")];
            if let Some(cursor) = &cursor {
                parameters.push(("cursor", cursor));
            }
            let query = query(&parameters).expect("all are known");
            let page = sorted_page(&query, rows.clone(), |row| format!("{:04}", row.id), bytes);
            // Each takes some 20 bytes.
            assert!((1..=bytes / 16 + 1).contains(&page.items.len()));
            seen.extend(page.items);
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        let mut expected = rows.clone();
        expected.sort_by_key(|row| (row.size, row.id));
        if sort == "-size" {
            expected.reverse();
        }
        assert_eq!(seen, expected, "{sort}");
    }
}
