//! Histories as Parquet, through Arrow: one row a transaction, its operations as a list of structs.
//!
//! Integers have columns of their own, so that the usual history is made of integer columns only; every
//! other value is JSON text in the `detail` column. The header and the version chains, which belong to no
//! transaction, are JSON Lines in the schema's metadata. Reading is `parquet_read.rs`.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::builder::{Int8Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::error::{Error, Result};
use crate::history::{History, NO_TIME, Op};
use crate::jsonl_write::{write_header, write_op, write_versions};
use crate::value::Value;

pub(crate) const ROWS_PER_GROUP: usize = 1 << 17;
pub(crate) const METADATA_KEY: &str = "isolde";

fn op_fields() -> Fields {
    Fields::from(vec![
        Field::new("kind", DataType::Int8, false),
        Field::new("key", DataType::Int64, true),
        Field::new("key_text", DataType::Utf8, true),
        Field::new("value", DataType::Int64, true),
        Field::new("detail", DataType::Utf8, true),
    ])
}

fn schema(history: &History) -> Schema {
    let mut lines = Vec::new();
    write_header(history, &mut lines);
    for (key, values) in &history.versions {
        write_versions(history, &mut lines, *key, values);
    }
    let lines = String::from_utf8(lines).expect("JSON text is made of UTF-8 pieces");
    let ops = Field::new("item", DataType::Struct(op_fields()), false);
    Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("id_text", DataType::Utf8, true),
        Field::new("session", DataType::Int64, true),
        Field::new("session_text", DataType::Utf8, true),
        Field::new("status", DataType::Int8, false),
        Field::new("start", DataType::Int64, true),
        Field::new("end", DataType::Int64, true),
        Field::new("extra", DataType::Utf8, true),
        Field::new("ops", DataType::List(Arc::new(ops)), false),
    ])
    .with_metadata(HashMap::from([(METADATA_KEY.to_owned(), lines)]))
}

/// Writes `history` as Parquet.
pub fn write_parquet(history: &History, output: impl Write + Send) -> Result<()> {
    let schema = Arc::new(schema(history));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).expect("3 is a level of zstd")))
        .set_max_row_group_row_count(Some(ROWS_PER_GROUP))
        .build();
    let mut writer = ArrowWriter::try_new(output, schema.clone(), Some(properties)).map_err(io_error)?;
    let mut first = 0;
    loop {
        let last = (first + ROWS_PER_GROUP).min(history.len());
        writer.write(&batch(history, &schema, first as u32..last as u32)).map_err(io_error)?;
        first = last;
        if first == history.len() {
            break;
        }
    }
    writer.close().map_err(io_error)?;
    Ok(())
}

fn io_error(error: parquet::errors::ParquetError) -> Error {
    match error {
        parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => Error::Io(*inner),
            Err(inner) => Error::Io(io::Error::other(inner)),
        },
        other => Error::Io(io::Error::other(other)),
    }
}

/// A column of names: integers in one array, everything else as text in the other.
#[derive(Default)]
struct NameColumns {
    int: Int64Builder,
    text: StringBuilder,
}

impl NameColumns {
    fn push(&mut self, history: &History, name: Value) {
        match name.as_small_int() {
            Some(i) => {
                self.int.append_value(i);
                self.text.append_null();
            }
            None => {
                self.int.append_null();
                self.text.append_value(history.json(name));
            }
        }
    }

    fn push_null(&mut self) {
        self.int.append_null();
        self.text.append_null();
    }

    fn finish(mut self) -> [ArrayRef; 2] {
        [Arc::new(self.int.finish()), Arc::new(self.text.finish())]
    }
}

fn batch(history: &History, schema: &Arc<Schema>, rows: std::ops::Range<u32>) -> RecordBatch {
    let (mut id, mut session) = (NameColumns::default(), NameColumns::default());
    let mut status = Int8Builder::new();
    let (mut start, mut end) = (Int64Builder::new(), Int64Builder::new());
    let mut extra = StringBuilder::new();
    let mut kind = Int8Builder::new();
    let mut key = NameColumns::default();
    let mut value = Int64Builder::new();
    let mut detail = StringBuilder::new();
    let mut op_counts = Vec::with_capacity(rows.len());
    for txn in rows {
        let row = txn as usize;
        id.push(history, history.txns.id[row]);
        session.push(history, history.sessions.name(history.txns.session[row]));
        status.append_value(history.txns.status[row] as i8);
        start.append_option(Some(history.txns.start[row]).filter(|&t| t != NO_TIME));
        end.append_option(Some(history.txns.end[row]).filter(|&t| t != NO_TIME));
        extra.append_option(extra_text(history, txn));
        let ops = history.ops_of(txn);
        op_counts.push(ops.len());
        for op in ops {
            kind.append_value(history.ops.kind[op] as i8);
            match history.op(op) {
                Op::Read(k, v) | Op::Write(k, v) | Op::Append(k, v) => {
                    key.push(history, history.keys.name(k));
                    value.append_option(v.as_small_int());
                    match v.as_small_int() {
                        Some(_) => detail.append_null(),
                        None => detail.append_value(history.json(v)),
                    }
                }
                op @ (Op::Cas(..) | Op::Scan(_) | Op::Sql(_)) => {
                    key.push_null();
                    value.append_null();
                    let mut text = Vec::new();
                    write_op(history, &mut text, op);
                    detail.append_value(String::from_utf8_lossy(&text));
                }
            }
        }
    }
    let [key, key_text] = key.finish();
    let ops = StructArray::new(
        op_fields(),
        vec![Arc::new(kind.finish()), key, key_text, Arc::new(value.finish()), Arc::new(detail.finish())],
        None,
    );
    let item = Arc::new(Field::new("item", DataType::Struct(op_fields()), false));
    let ops = ListArray::new(item, OffsetBuffer::from_lengths(op_counts), Arc::new(ops), None);
    let ([id, id_text], [session, session_text]) = (id.finish(), session.finish());
    let columns: Vec<ArrayRef> = vec![
        id,
        id_text,
        session,
        session_text,
        Arc::new(status.finish()),
        Arc::new(start.finish()),
        Arc::new(end.finish()),
        Arc::new(extra.finish()),
        Arc::new(ops),
    ];
    RecordBatch::try_new(schema.clone(), columns).expect("the columns follow the schema")
}

fn extra_text(history: &History, txn: u32) -> Option<String> {
    let extra = history.extra(txn)?;
    let mut out = b"{".to_vec();
    if let Some(serial) = extra.serial {
        out.extend_from_slice(b"\"serial\":");
        out.extend_from_slice(history.json(serial).as_bytes());
        out.push(b',');
    }
    if let Some(snapshot) = &extra.snapshot {
        out.extend_from_slice(b"\"snapshot\":");
        out.extend_from_slice(snapshot.as_bytes());
        out.push(b',');
    }
    out.extend_from_slice(extra.fields.as_bytes());
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b'}');
    Some(String::from_utf8(out).expect("JSON text is made of UTF-8 pieces"))
}
