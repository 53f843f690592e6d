//! JSON Lines to histories.
//!
//! The input is cut into blocks at line ends; worker threads turn blocks into small histories of their
//! own, and these are appended in order. A block therefore needs to know only its first line's number.

use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use memchr::{memchr, memchr_iter, memrchr};

use crate::error::{Error, Malformed, Result, broken_stream};
use crate::history::History;
use crate::line::{Line, TRUNCATED};
use crate::reading::{Reading, shown};

const BLOCK_BYTES: usize = 2 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a whole history from plain JSON Lines on `threads` threads. `keep_on` is asked between blocks.
pub fn read_jsonl(
    input: impl Read,
    threads: usize,
    reading: &Reading,
    mut keep_on: impl FnMut() -> bool,
) -> Result<History> {
    let mut input = reading.bounded_stream(input);
    let longest = usize::try_from(reading.line_bytes).unwrap_or(usize::MAX);
    let mut history = History::default();
    if threads <= 1 {
        let mut blocks = Blocks::new(&mut input, longest);
        loop {
            if !keep_on() {
                return Err(Error::Interrupted);
            }
            match blocks.next() {
                Ok(Some(block)) => take_part(&mut history, read_block(&block))?,
                Ok(None) => break,
                Err(error) => return Err(broken_stream(error, blocks.line, history.len())),
            }
        }
        history.finish()?;
        return Ok(history);
    }
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1))
            .map(|_| {
                let (send_job, jobs): (SyncSender<Block>, Receiver<Block>) = sync_channel(1);
                let (send_part, parts) = sync_channel(1);
                scope.spawn(move || {
                    for block in jobs {
                        if send_part.send(read_block(&block)).is_err() {
                            return;
                        }
                    }
                });
                (send_job, parts)
            })
            .collect();
        let mut sent = 0;
        let mut taken = 0;
        let take = |history: &mut History, taken: &mut usize| -> Result<()> {
            let (_, parts) = &workers[*taken % workers.len()];
            *taken += 1;
            take_part(history, parts.recv().expect("a worker answers every block"))
        };
        let mut blocks = Blocks::new(&mut input, longest);
        loop {
            if !keep_on() {
                return Err(Error::Interrupted);
            }
            let block = match blocks.next() {
                Ok(Some(block)) => block,
                Ok(None) => break,
                Err(error) => {
                    // What was cut off counts for the message: everything before it was read.
                    while taken < sent {
                        take(&mut history, &mut taken)?;
                    }
                    return Err(broken_stream(error, blocks.line, history.len()));
                }
            };
            workers[sent % workers.len()].0.send(block).expect("a worker lives as long as its channel");
            sent += 1;
            if sent - taken > workers.len() {
                take(&mut history, &mut taken)?;
            }
        }
        while taken < sent {
            take(&mut history, &mut taken)?;
        }
        Ok(())
    })?;
    history.finish()?;
    Ok(history)
}

/// Reads a whole history from JSON Lines in memory.
pub fn read_jsonl_bytes(text: &[u8]) -> Result<History> {
    read_jsonl(text, 1, &Reading::default(), || true)
}

/// Reads lines that more will be appended to, so nothing about the whole is checked yet.
pub(crate) fn read_part(text: &[u8]) -> Result<History> {
    Ok(read_block(&Block { text: text.to_vec(), first_line: 1, longest: usize::MAX })?)
}

fn take_part(history: &mut History, part: std::result::Result<History, Malformed>) -> Result<()> {
    part.map_err(|mut wrong| {
        wrong.transactions_before += history.len() as u64;
        Error::Malformed(finish_truncated(wrong))
    })
    .and_then(|part| history.append(part))
}

fn finish_truncated(mut wrong: Malformed) -> Malformed {
    if wrong.found == TRUNCATED {
        let count = wrong.transactions_before;
        wrong.expected =
            format!("a complete JSON object; {count} transactions came before it (delete this line to keep them)");
    }
    wrong
}

struct Block {
    text: Vec<u8>,
    first_line: u64,
    /// How long a line may be.
    longest: usize,
}

struct Blocks<R> {
    input: R,
    rest: Vec<u8>,
    line: u64,
    longest: usize,
    started: bool,
    ended: bool,
}

impl<R: Read> Blocks<R> {
    fn new(input: R, longest: usize) -> Self {
        Blocks { input, rest: Vec::new(), line: 1, longest, started: false, ended: false }
    }

    /// The next block. It ends with a line end unless it is the last one, or is the beginning of a line that is too long.
    fn next(&mut self) -> std::io::Result<Option<Block>> {
        let mut text = std::mem::take(&mut self.rest);
        let mut seen = 0;
        let cut = loop {
            if self.ended {
                break text.len();
            }
            let wanted = BLOCK_BYTES.max(text.len());
            text.reserve(wanted);
            let got = (&mut self.input).take(wanted as u64).read_to_end(&mut text)?;
            self.ended = got < wanted;
            if !self.started {
                self.started = true;
                if text.starts_with(BYTE_ORDER_MARK) {
                    text.drain(..BYTE_ORDER_MARK.len());
                }
            }
            if !self.ended
                && let Some(at) = memrchr(b'\n', &text[seen..])
            {
                break seen + at + 1;
            }
            seen = text.len();
            // The rest of a line that nobody will read is not waited for.
            if !self.ended && seen > self.longest {
                self.ended = true;
                break seen;
            }
        };
        self.rest = text.split_off(cut);
        if text.is_empty() {
            return Ok(None);
        }
        let first_line = self.line;
        self.line += memchr_iter(b'\n', &text).count() as u64;
        Ok(Some(Block { text, first_line, longest: self.longest }))
    }
}

fn read_block(block: &Block) -> std::result::Result<History, Malformed> {
    let mut history = History::default();
    let mut rest = &block.text[..];
    let mut line = block.first_line;
    while !rest.is_empty() {
        let (text, complete) = match memchr(b'\n', rest) {
            Some(at) => {
                let text = &rest[..at];
                rest = &rest[at + 1..];
                (text, true)
            }
            None => (std::mem::take(&mut rest), false),
        };
        if text.len() > block.longest {
            let limit = shown(block.longest as u64);
            return Err(Malformed {
                line,
                field: String::new(),
                found: format!("a line of more than {limit}"),
                expected: "shorter ones; raise the limit with --line-limit if it is a history".into(),
                transactions_before: history.len() as u64,
            });
        }
        if !text.iter().all(u8::is_ascii_whitespace) {
            let before = history.len() as u64;
            Line::new(text, line, complete)
                .read(&mut history)
                .map_err(|wrong| Malformed { transactions_before: before, ..*wrong })?;
        }
        line += 1;
    }
    Ok(history)
}
