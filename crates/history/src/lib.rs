//! Transaction histories in columns: interned, validated, read and written fast.
//!
//! The meaning of every field is fixed by the history format, version 1 (`docs/history-format.md`).

mod certificate;
mod components;
mod error;
mod foreign;
mod history;
mod json;
mod jsonl_read;
mod jsonl_write;
mod line;
mod lines;
mod names;
mod pace;
mod parquet;
mod parquet_columns;
mod parquet_read;
mod reading;
mod serial;
mod stream;
mod value;
mod whole;

pub use certificate::{INITIAL_VERSION, Plain, plain_certificate};
pub use components::{Component, components};
pub use error::{Error, Malformed, Result};
pub use foreign::{
    FORMATS, Format, Writing, read_foreign, read_foreign_directory, read_whole, write_foreign, write_foreign_directory,
};
pub use history::{Cas, Extra, Header, History, Lists, NO_KEY, NO_TIME, Op, OpKind, Ops, Space, Status, Txns};
pub use jsonl_read::{read_jsonl, read_jsonl_bytes};
pub use jsonl_write::{write_jsonl, write_jsonl_rows};
pub use lines::{read_lines_of_parquet, write_lines_as_parquet};
pub use names::Names;
pub use pace::{Part, pace};
pub use parquet::write_parquet;
pub use parquet_read::read_parquet;
pub use reading::{FailedCas, Reading};
pub use stream::{Compression, Output, Source, decompress};
pub use value::{Atoms, Kind, Value};
