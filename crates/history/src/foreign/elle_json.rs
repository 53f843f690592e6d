//! Jepsen's and Elle's operations in the JSON of elle-cli: one array of objects.

use std::io::Write;

use jiter::Peek;

use super::elle::Recorder;
use super::elle_write::{Syntax, write_operations};
use super::json_node::Json;
use super::text::utf8;
use super::{Writing, fault};
use crate::error::Result;
use crate::history::History;
use crate::reading::FailedCas;

pub(super) fn read(content: &[u8], failed_cas: FailedCas) -> Result<History> {
    let mut json = Json::new(utf8(content)?);
    let mut recorder = Recorder::new(failed_cas);
    let peek = json.peek()?;
    if peek != Peek::Array {
        let (line, found) = (json.line(), json.node(peek)?.snippet());
        return Err(fault(line, "", found, "an array of operations").into());
    }
    let mut item = json.enter_array()?;
    while let Some(peek) = item {
        let line = json.line();
        let operation = json.node(peek)?;
        recorder.operation(&operation, line)?;
        item = json.next_element()?;
    }
    json.finish()?;
    recorder.finish()
}

pub(super) fn write(history: &History, writing: Writing, output: &mut dyn Write) -> Result<Vec<String>> {
    write_operations(history, Syntax::Json, writing, output)
}
