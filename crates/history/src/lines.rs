//! Texts of lines that are no histories (certificates) as Parquet: a row a line, in the one column `line`.

use std::io::{Read, Write};
use std::panic::catch_unwind;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::error::{Error, Malformed, Result, one_line};
use crate::foreign::read_whole;
use crate::parquet::io_error;
use crate::parquet_columns::{Builder, Group, Wrong};
use crate::reading::Reading;

const SCHEMA: &str = "message lines { REQUIRED BYTE_ARRAY line (STRING); }";
const COLUMN: &str = "line";
const ROWS_PER_GROUP: usize = 1 << 17;

/// Writes the lines of a text, without the ends of lines.
pub fn write_lines_as_parquet(text: &str, output: impl Write + Send) -> Result<()> {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("the schema is written right"));
    let zstd = Compression::ZSTD(ZstdLevel::try_new(3).expect("3 is a level of zstd"));
    let properties = WriterProperties::builder().set_compression(zstd).build();
    let mut writer = SerializedFileWriter::new(output, schema, Arc::new(properties)).map_err(io_error)?;
    let lines: Vec<&str> = text.lines().collect();
    for part in lines.chunks(ROWS_PER_GROUP) {
        let mut column: Builder<ByteArray> = Builder::new(0);
        part.iter().for_each(|line| column.push(Some(ByteArray::from(*line))));
        let mut group = writer.next_row_group().map_err(io_error)?;
        column.write::<ByteArrayType>(&mut group, None).map_err(io_error)?;
        group.close().map_err(io_error)?;
    }
    writer.close().map_err(io_error)?;
    Ok(())
}

/// The text whose lines were written, each with its end.
pub fn read_lines_of_parquet(
    input: impl Read,
    reading: &Reading,
    keep_on: &mut impl FnMut() -> bool,
) -> Result<Vec<u8>> {
    let file = Bytes::from(read_whole(input, reading, keep_on)?);
    // The library panics on some damaged files; that is one more way of being unreadable.
    let read = || -> std::result::Result<Vec<u8>, Wrong> {
        let file = SerializedFileReader::new(file.clone())?;
        let mut text = Vec::new();
        for place in 0..file.num_row_groups() {
            let group = Group::of(&file, place)?;
            let lines = group.texts(None, COLUMN)?;
            for row in 0..lines.len() {
                text.extend_from_slice(lines.value(row).as_bytes());
                text.push(b'\n');
            }
        }
        Ok(text)
    };
    match catch_unwind(read) {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(Wrong::Missing(_) | Wrong::Mistyped(..))) => {
            Err(unreadable(&format!("there are no texts in a column {COLUMN:?}")))
        }
        Ok(Err(Wrong::Damaged(error))) => Err(unreadable(&format!("not a readable Parquet file ({error})"))),
        Err(_) => Err(unreadable(&ParquetError::General("damaged pages".to_owned()).to_string())),
    }
}

fn unreadable(found: &str) -> Error {
    Error::Malformed(Malformed {
        line: 0,
        field: String::new(),
        found: one_line(found),
        expected: "a certificate's lines, each a row of the column \"line\"".to_owned(),
        transactions_before: 0,
    })
}
