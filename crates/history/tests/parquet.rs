//! What a Parquet file may not say, although its columns could hold it.

use std::sync::Arc;

use isolde_history::{Error, Reading, read_jsonl_bytes, read_parquet, write_jsonl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

/// A name as its two columns have it.
type Name = (Option<i64>, Option<&'static str>);

/// One transaction of one operation, as the columns have it; every field may be null.
#[derive(Clone)]
struct Row {
    id: Name,
    session: Name,
    status: Option<i8>,
    start: Option<i64>,
    end: Option<i64>,
    extra: Option<&'static str>,
    kind: Option<i8>,
    key: Name,
    value: Option<i64>,
    detail: Option<&'static str>,
    lines: &'static str,
}

const GOOD: Row = Row {
    id: (Some(7), None),
    session: (None, Some("\"s\"")),
    status: Some(0),
    start: Some(1),
    end: Some(2),
    extra: None,
    kind: Some(1),
    key: (None, Some("\"x\"")),
    value: Some(5),
    detail: None,
    lines: "{\"isolde\":\"history\",\"version\":1}\n",
};

const SCHEMA: &str = "message schema {
    optional int64 id;
    optional binary id_text (utf8);
    optional int64 session;
    optional binary session_text (utf8);
    optional int32 status (int_8);
    optional int64 start;
    optional int64 end;
    optional binary extra (utf8);
    optional group ops (list) {
        repeated group list {
            optional group item {
                optional int32 kind (int_8);
                optional int64 key;
                optional binary key_text (utf8);
                optional int64 value;
                optional binary detail (utf8);
            }
        }
    }
}";
/// How much of the path to a field of an operation is there, the field left out.
const ITEM_DEPTH: i16 = 3;

/// Writes the next column: one value, or none. `depth` is how much of the path is there without it.
fn put<T: DataType>(group: &mut SerializedRowGroupWriter<&mut Vec<u8>>, value: Option<T::T>, depth: i16) {
    let mut column = group.next_column().unwrap().unwrap();
    let level = if value.is_some() { depth + 1 } else { depth };
    let repetitions = if depth > 0 { Some(&[0_i16][..]) } else { None };
    column.typed::<T>().write_batch(value.as_slice(), Some(&[level]), repetitions).unwrap();
    column.close().unwrap();
}

fn bytes(text: Option<&str>) -> Option<ByteArray> {
    text.map(ByteArray::from)
}

fn file(row: &Row) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let lines = KeyValue::new("isolde".to_owned(), row.lines.to_owned());
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![lines])).build();
    let mut content = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut content, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    put::<Int64Type>(&mut group, row.id.0, 0);
    put::<ByteArrayType>(&mut group, bytes(row.id.1), 0);
    put::<Int64Type>(&mut group, row.session.0, 0);
    put::<ByteArrayType>(&mut group, bytes(row.session.1), 0);
    put::<Int32Type>(&mut group, row.status.map(i32::from), 0);
    put::<Int64Type>(&mut group, row.start, 0);
    put::<Int64Type>(&mut group, row.end, 0);
    put::<ByteArrayType>(&mut group, bytes(row.extra), 0);
    put::<Int32Type>(&mut group, row.kind.map(i32::from), ITEM_DEPTH);
    put::<Int64Type>(&mut group, row.key.0, ITEM_DEPTH);
    put::<ByteArrayType>(&mut group, bytes(row.key.1), ITEM_DEPTH);
    put::<Int64Type>(&mut group, row.value, ITEM_DEPTH);
    put::<ByteArrayType>(&mut group, bytes(row.detail), ITEM_DEPTH);
    group.close().unwrap();
    writer.close().unwrap();
    content
}

fn refusal(row: &Row) -> String {
    match read_parquet(&file(row)[..], 1, &Reading::default(), || true) {
        Err(Error::Malformed(wrong)) => wrong.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_good_row_is_read() {
    let history = read_parquet(&file(&GOOD)[..], 1, &Reading::default(), || true).unwrap();
    let mut lines = Vec::new();
    write_jsonl(&history, &mut lines).unwrap();
    let line = "{\"id\":7,\"session\":\"s\",\"start\":1,\"end\":2,\"ops\":[[\"w\",\"x\",5]]}";
    assert_eq!(String::from_utf8(lines).unwrap().lines().nth(1), Some(line));
}

#[test]
fn keys_ids_and_sessions_are_strings_or_integers() {
    for json in ["[]", "null", "1.5", "true", "{}", "[1]"] {
        for (field, row) in [
            ("row 0, id", Row { id: (None, Some(json)), ..GOOD }),
            ("row 0, session", Row { session: (None, Some(json)), ..GOOD }),
            ("row 0, ops[0].key", Row { key: (None, Some(json)), ..GOOD }),
        ] {
            assert_eq!(refusal(&row), format!("\"{field}\" is {json}; expected a string or an integer"));
        }
    }
    for broken in ["\"x", "1 2", ""] {
        let message = refusal(&Row { key: (None, Some(broken)), ..GOOD });
        assert!(message.starts_with("\"row 0, ops[0].key\" is not valid JSON"), "{message}");
    }
}

#[test]
fn what_must_be_there_is_asked_for() {
    let name = "expected a string or an integer";
    for (row, message) in [
        (Row { session: (None, None), ..GOOD }, format!("\"row 0, session\" is null; {name}")),
        (Row { key: (None, None), ..GOOD }, format!("\"row 0, ops[0].key\" is null; {name}")),
        (Row { status: None, ..GOOD }, "\"row 0, status\" is null; expected 0, 1 or 2".into()),
        (Row { status: Some(3), ..GOOD }, "\"row 0, status\" is 3; expected 0, 1 or 2".into()),
        (Row { kind: None, ..GOOD }, "\"row 0, ops[0].kind\" is null; expected 0 to 5".into()),
        (Row { kind: Some(6), ..GOOD }, "\"row 0, ops[0].kind\" is 6; expected 0 to 5".into()),
        (Row { kind: Some(3), ..GOOD }, "\"row 0, ops[0].detail\" is null; expected a compare-and-set".into()),
        (Row { end: Some(0), ..GOOD }, "\"row 0, end\" is 0; expected a time not before \"start\" (1)".into()),
        (
            Row { start: Some(i64::MIN), ..GOOD },
            format!("\"row 0, start\" is {}; expected a time after -2^63, or null", i64::MIN),
        ),
    ] {
        assert_eq!(refusal(&row), message);
    }
}

#[test]
fn two_columns_do_not_say_two_things() {
    let both = Row { key: (Some(1), Some("\"x\"")), ..GOOD };
    assert_eq!(refusal(&both), "\"row 0, ops[0].key\" is in both of its columns; expected one of them to be null");
    let both = Row { detail: Some("6"), ..GOOD };
    assert_eq!(refusal(&both), "\"row 0, ops[0].value\" is there beside a \"detail\"; expected one of them to be null");
}

#[test]
fn an_operation_is_of_the_kind_that_the_column_says() {
    for (kind, expected) in [(3, "a compare-and-set"), (4, "a scan"), (5, "an SQL statement")] {
        let row = Row { kind: Some(kind), detail: Some("[\"w\",\"x\",1]"), ..GOOD };
        assert_eq!(refusal(&row), format!("\"row 0, ops[0].detail\" is another operation; expected {expected}"));
    }
    let list = Row { value: None, detail: Some("[1]"), ..GOOD };
    assert_eq!(refusal(&list), "\"row 0, ops[0].value\" is a list; expected a single value");
}

#[test]
fn extra_fields_are_no_way_around_the_columns() {
    for name in ["ops", "session", "id", "status", "start", "end", "versions", "isolde", "initial", "meta", "version"] {
        let extra: &'static str = format!("{{\"{name}\":[[\"w\",\"x\",1]]}}").leak();
        let message = refusal(&Row { extra: Some(extra), ..GOOD });
        assert!(message.contains(&format!("the field {name:?} stands among the extra ones")), "{message}");
    }
    let lines = "{\"isolde\":\"history\",\"version\":1}\n{\"session\":1,\"ops\":[]}\n";
    assert!(refusal(&Row { lines, ..GOOD }).starts_with("a transaction in the metadata \"isolde\""));
}

/// Whatever the columns hold, what is read can be written and is read again as the same; all else is refused.
#[test]
fn texts_of_all_kinds_are_read_as_json_lines_would_read_them_or_refused() {
    const TEXTS: [Option<&str>; 14] = [
        None,
        Some("\"x\""),
        Some("\"\""),
        Some("12345678901234567890"),
        Some("-0"),
        Some("1.5"),
        Some("null"),
        Some("[]"),
        Some("[1,[2]]"),
        Some("{}"),
        Some("true"),
        Some("\"\\ud800\""),
        Some("{\"serial\":1}"),
        Some("[\"cas\",1,2,3,true]"),
    ];
    let mut read = 0;
    for kind in 0..6 {
        for (a, &name) in TEXTS.iter().enumerate() {
            for (b, &detail) in TEXTS.iter().enumerate() {
                let extra = TEXTS[(a + b) % TEXTS.len()].filter(|_| (a * b) % 5 == 0);
                let row =
                    Row { id: (None, name), key: (None, name), kind: Some(kind), value: None, detail, extra, ..GOOD };
                match read_parquet(&file(&row)[..], 1, &Reading::default(), || true) {
                    Ok(history) => {
                        let mut lines = Vec::new();
                        write_jsonl(&history, &mut lines).unwrap();
                        let again = read_jsonl_bytes(&lines).unwrap();
                        let mut twice = Vec::new();
                        write_jsonl(&again, &mut twice).unwrap();
                        assert_eq!(lines, twice);
                        read += 1;
                    }
                    Err(Error::Malformed(_)) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        }
    }
    assert!(read > 50, "{read}");
}

#[test]
fn a_list_among_the_initial_values_of_registers_is_refused() {
    let lines = "{\"isolde\":\"history\",\"version\":1,\"initial\":{\"x\":0,\"log\":[]}}\n";
    assert_eq!(
        refusal(&Row { lines, ..GOOD }),
        "\"initial\" is a list for the key \"log\"; expected a single value, because operations are on registers \
         (w, cas, reads of single values): a history has one kind of keys"
    );
}

#[test]
fn what_is_larger_unpacked_than_allowed_is_refused() {
    let reading = Reading { size_bytes: Some(100), ..Reading::default() };
    match read_parquet(&file(&GOOD)[..], 1, &reading, || true) {
        Err(Error::Io(error)) => assert!(error.to_string().starts_with("more than 100 bytes when unpacked"), "{error}"),
        other => panic!("{other:?}"),
    }
}
