//! Histories in the files of other tools, one file a format.
//!
//! A reader builds the same columns as that of JSON Lines and maps the tool's conventions (what is initial, what
//! was aborted) to ours, so that nothing behind it knows where a history came from. A writer refuses what its format
//! cannot say, and tells what it leaves out or renames. `docs/other-formats.md` has the mapping.

mod awdit;
mod cobra;
mod cobra_write;
mod dbcop_bincode;
mod dbcop_hist;
mod dbcop_json;
mod edn;
mod elle;
mod elle_edn;
mod elle_fit;
mod elle_json;
mod elle_write;
mod json_node;
mod node;
mod numbered;
mod plume;
mod text;

use std::io::{Read, Write};
use std::path::Path;

use crate::error::{Error, Malformed, Result, broken_stream};
use crate::history::{History, Op};
use crate::reading::{FailedCas, Reading};
use crate::value::Value;

/// A format of another tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Jepsen's and Elle's operations in EDN.
    ElleEdn,
    /// The same in the JSON of elle-cli.
    ElleJson,
    /// dbcop's histories in bincode, as the other checkers of black-box histories use them, too.
    DbcopBincode,
    /// dbcop's histories in JSON.
    DbcopJson,
    /// dbcop's short text.
    DbcopHist,
    /// Cobra's logs: a directory with a file a client.
    Cobra,
    /// One operation a line: Plume, PolySI, IsoVista, MTC.
    Plume,
    /// AWDIT's `test` text.
    Awdit,
}

/// Every format and its name.
pub const FORMATS: [(&str, Format); 8] = [
    ("elle-edn", Format::ElleEdn),
    ("elle-json", Format::ElleJson),
    ("dbcop-bincode", Format::DbcopBincode),
    ("dbcop-json", Format::DbcopJson),
    ("dbcop-hist", Format::DbcopHist),
    ("cobra", Format::Cobra),
    ("plume", Format::Plume),
    ("awdit", Format::Awdit),
];

const CHUNK_BYTES: u64 = 1 << 22;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Format {
    /// The format of that name.
    pub fn named(name: &str) -> Option<Format> {
        FORMATS.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    /// Whether a history is a directory instead of a file.
    pub fn is_directory(self) -> bool {
        self == Format::Cobra
    }
}

/// Reads a whole history from a file's plain bytes. `keep_on` is asked while they come in.
pub fn read_foreign(
    format: Format,
    input: impl Read,
    reading: &Reading,
    mut keep_on: impl FnMut() -> bool,
) -> Result<History> {
    let content = read_whole(input, reading, &mut keep_on)?;
    let content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&content);
    let mut history = match format {
        Format::ElleEdn => elle_edn::read(content, reading.failed_cas)?,
        Format::ElleJson => elle_json::read(content, reading.failed_cas)?,
        Format::DbcopBincode => dbcop_bincode::read(content)?,
        Format::DbcopJson => dbcop_json::read(content)?,
        Format::DbcopHist => dbcop_hist::read(content)?,
        Format::Plume => plume::read(content)?,
        Format::Awdit => awdit::read(content)?,
        Format::Cobra => {
            return Err(Error::Refused("a Cobra history is a directory of .log files; name the directory".into()));
        }
    };
    start_as_told(&mut history, reading);
    history.finish()?;
    Ok(history)
}

/// Reads a whole history from a directory.
pub fn read_foreign_directory(
    format: Format,
    path: &Path,
    reading: &Reading,
    mut keep_on: impl FnMut() -> bool,
) -> Result<History> {
    let mut history = match format {
        Format::Cobra => cobra::read(path, reading, &mut keep_on)?,
        _ => return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory).into()),
    };
    start_as_told(&mut history, reading);
    history.finish()?;
    Ok(history)
}

/// What a writer is told besides the history itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Writing {
    /// How a failed compare-and-set will be read.
    pub failed_cas: FailedCas,
    /// Whether to leave out what the format cannot say even where verdicts may change.
    pub lossy: bool,
}

/// Writes `history`, or refuses it ([`Error::Refused`]) before anything is written. The answer says what was renamed
/// or left out, a line each.
pub fn write_foreign(
    format: Format,
    history: &History,
    writing: Writing,
    output: &mut dyn Write,
) -> Result<Vec<String>> {
    match format {
        Format::ElleEdn => elle_edn::write(history, writing, output),
        Format::ElleJson => elle_json::write(history, writing, output),
        Format::DbcopBincode => dbcop_bincode::write(history, writing, output),
        Format::DbcopJson => dbcop_json::write(history, writing, output),
        Format::DbcopHist => dbcop_hist::write(history, writing, output),
        Format::Plume => plume::write(history, writing, output),
        Format::Awdit => awdit::write(history, writing, output),
        Format::Cobra => Err(Error::Refused("a Cobra history is a directory of .log files, not one stream".into())),
    }
}

/// Writes `history` into a directory, which is made if need be.
pub fn write_foreign_directory(
    format: Format,
    history: &History,
    writing: Writing,
    path: &Path,
) -> Result<Vec<String>> {
    match format {
        Format::Cobra => cobra_write::write(history, writing, path),
        _ => Err(std::io::Error::from(std::io::ErrorKind::IsADirectory).into()),
    }
}

/// Everything that an input has, for formats that are not read line by line.
pub fn read_whole(input: impl Read, reading: &Reading, keep_on: &mut impl FnMut() -> bool) -> Result<Vec<u8>> {
    let mut input = reading.bounded_whole(input);
    let mut content = Vec::new();
    loop {
        if !keep_on() {
            return Err(Error::Interrupted);
        }
        match (&mut input).take(CHUNK_BYTES).read_to_end(&mut content) {
            Ok(0) => return Ok(content),
            Ok(_) => {}
            Err(error) => return Err(broken_stream(error, 0, 0)),
        }
    }
}

fn fault(line: u64, field: &str, found: impl Into<String>, expected: impl Into<String>) -> Malformed {
    Malformed { line, field: field.into(), found: found.into(), expected: expected.into(), transactions_before: 0 }
}

/// Refuses more operations or transactions than the columns can number.
fn check_size(history: &History) -> std::result::Result<(), Malformed> {
    match history.ops.kind.len() >= u32::MAX as usize || history.len() >= u32::MAX as usize / 4 {
        true => Err(History::too_large(history.len())),
        false => Ok(()),
    }
}

/// Gives every key that occurs the initial value that the caller knows of, if any.
fn start_as_told(history: &mut History, reading: &Reading) {
    if let Some(number) = reading.initial {
        let value = history.atoms.integer(number);
        let keys = 0..history.keys.len() as u32;
        history.header.initial = keys.map(|key| (history.keys.name(key), value)).collect();
    }
}

/// Gives every key that occurs its initial value, in the formats where 0 stands for it: 0, unless somebody writes that to the
/// key. Such a writer takes the place of the initial one that the tools imagine, and the key starts absent: of two writers of 0,
/// a read could choose the one that fits. A read of `null` stands for the initial value, whatever it is.
fn start_at_zero(history: &mut History) {
    let nought = Value::small_int(0).expect("0 is small");
    let mut starts = vec![true; history.keys.len()];
    for row in 0..history.ops.kind.len() {
        if let Op::Write(key, value) = history.op(row) {
            starts[key as usize] &= value != nought;
        }
    }
    let keys = 0..history.keys.len() as u32;
    history.header.initial =
        keys.filter(|&key| starts[key as usize]).map(|key| (history.keys.name(key), nought)).collect();
    history.map_reads(|_, key, value| if value == Value::NULL && starts[key as usize] { nought } else { value });
}
