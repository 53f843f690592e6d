//! What a reader is told besides the input itself.

use std::io;

/// What it means that a compare-and-set of a Jepsen history failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FailedCas {
    /// The operation did not take place, as Jepsen, Knossos and Elle have it.
    #[default]
    Aborted,
    /// It took place, and found another value than the expected one, as Porcupine's model of etcd has it.
    Compared,
}

/// How a file is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// What a failed compare-and-set of a Jepsen history means.
    pub failed_cas: FailedCas,
    /// How long a line of JSON Lines may be.
    pub line_bytes: u64,
    /// How large an input may be once it is unpacked; without a number, what its format needs of memory decides.
    pub size_bytes: Option<u64>,
    /// What every key of another tool's file holds at first, where that is not what the tool's files usually mean.
    pub initial: Option<i64>,
}

const MEBIBYTE: u64 = 1 << 20;
/// The most that is read of a format whose lines are forgotten once they are in the columns.
const STREAM_BYTES: u64 = 64 << 30;
/// The most that is read of a format that is in memory as a whole while it is read.
const WHOLE_BYTES: u64 = 2 << 30;

impl Default for Reading {
    fn default() -> Self {
        Reading { failed_cas: FailedCas::default(), line_bytes: 256 * MEBIBYTE, size_bytes: None, initial: None }
    }
}

impl Reading {
    /// An input of lines that gives an error once it has grown beyond what is allowed.
    pub(crate) fn bounded_stream<R: io::Read>(&self, input: R) -> Bounded<R> {
        Bounded::new(input, self.size_bytes.unwrap_or(STREAM_BYTES))
    }

    /// An input that will be in memory as a whole, bounded likewise.
    pub(crate) fn bounded_whole<R: io::Read>(&self, input: R) -> Bounded<R> {
        Bounded::new(input, self.size_bytes.unwrap_or(WHOLE_BYTES))
    }

    /// Refuses what says of itself that it is larger than an input of lines may be.
    pub(crate) fn check_size(&self, bytes: u64) -> io::Result<()> {
        let limit = self.size_bytes.unwrap_or(STREAM_BYTES);
        if bytes > limit { Err(too_large(limit)) } else { Ok(()) }
    }
}

/// An input with an end.
pub(crate) struct Bounded<R> {
    input: R,
    limit: u64,
    left: u64,
}

impl<R: io::Read> Bounded<R> {
    fn new(input: R, limit: u64) -> Self {
        Bounded { input, limit, left: limit }
    }
}

impl<R: io::Read> io::Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // One byte more than allowed is asked for, so that an input of exactly that size is read to its end.
        let wanted = into.len().min(usize::try_from(self.left.saturating_add(1)).unwrap_or(usize::MAX));
        let got = self.input.read(&mut into[..wanted])?;
        match self.left.checked_sub(got as u64) {
            Some(left) => self.left = left,
            None => return Err(too_large(self.limit)),
        }
        Ok(got)
    }
}

/// What is said about an input that exceeds its limit. Its kind is none of those that stand for damage.
pub(crate) fn too_large(limit: u64) -> io::Error {
    let text =
        format!("more than {} when unpacked; raise the limit with --size-limit if it is a history", shown(limit));
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

/// A number of bytes for people.
pub(crate) fn shown(bytes: u64) -> String {
    for (unit, size) in [("GiB", MEBIBYTE << 10), ("MiB", MEBIBYTE), ("KiB", 1 << 10)] {
        if bytes >= size && bytes.is_multiple_of(size) {
            return format!("{} {unit}", bytes / size);
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn an_input_of_exactly_the_limit_is_read_and_a_larger_one_is_not() {
        for (size, fits) in [(9, true), (10, true), (11, false), (100, false)] {
            let content = vec![7; size];
            let mut into = Vec::new();
            let read = Bounded::new(&content[..], 10).read_to_end(&mut into);
            assert_eq!(read.is_ok(), fits, "{size}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_whole_unit() {
        assert_eq!(
            [shown(5 << 30), shown(3 << 20), shown(1024), shown(1500)],
            ["5 GiB", "3 MiB", "1 KiB", "1500 bytes"]
        );
    }
}
