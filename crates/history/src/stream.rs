//! Bytes in and out, compressed or not.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::error::is_damage;

const BUFFER_BYTES: usize = 1 << 18;
const HEAD_BYTES: u64 = 1 << 16;
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// How an output is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// As it is.
    Plain,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// The plain bytes behind `input`, whether it is gzip, zstd or neither; told by its first bytes.
pub fn decompress<'a>(input: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let head = input.fill_buf()?;
    if head.starts_with(GZIP_MAGIC) {
        Ok(Box::new(MultiGzDecoder::new(input)))
    } else if head.starts_with(ZSTD_MAGIC) {
        Ok(Box::new(zstd::Decoder::with_buffer(input)?))
    } else {
        Ok(Box::new(input))
    }
}

/// An input whose first bytes were looked at.
pub struct Source {
    head: Vec<u8>,
    rest: Box<dyn Read + Send>,
}

impl Source {
    /// Unpacks `input` if need be, and reads its first bytes. Where the packed data is damaged there, the damage is left for
    /// whoever reads on.
    pub fn open(input: impl Read + Send + 'static) -> io::Result<Source> {
        let mut rest = decompress(input)?;
        let mut head = Vec::new();
        match rest.as_mut().take(HEAD_BYTES).read_to_end(&mut head) {
            Ok(_) => Ok(Source { head, rest }),
            Err(error) if is_damage(&error) => Ok(Source { head, rest: Box::new(Broken(Some(error))) }),
            Err(error) => Err(error),
        }
    }

    /// The first bytes: 64 KiB, or all there are.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// All bytes, from the first.
    pub fn into_read(self) -> impl Read + Send {
        io::Cursor::new(self.head).chain(self.rest)
    }
}

/// An input that fails, once.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// A writer that must be finished, so that no error of the last bytes is lost.
pub enum Output<W: Write> {
    /// As it is.
    Plain(BufWriter<W>),
    /// gzip.
    Gzip(GzEncoder<BufWriter<W>>),
    /// Zstandard.
    Zstd(zstd::Encoder<'static, BufWriter<W>>),
}

impl<W: Write> Output<W> {
    /// Wraps `inner`.
    pub fn new(inner: W, compression: Compression) -> io::Result<Self> {
        let inner = BufWriter::with_capacity(BUFFER_BYTES, inner);
        Ok(match compression {
            Compression::Plain => Output::Plain(inner),
            Compression::Gzip => Output::Gzip(GzEncoder::new(inner, flate2::Compression::default())),
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(inner, 3)?;
                // Without it a flipped bit may read as another history.
                encoder.include_checksum(true)?;
                Output::Zstd(encoder)
            }
        })
    }

    /// Writes out all that is held back.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Output::Plain(mut w) => w.flush(),
            Output::Gzip(w) => w.finish()?.flush(),
            Output::Zstd(w) => w.finish()?.flush(),
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Plain(w) => w.write(bytes),
            Output::Gzip(w) => w.write(bytes),
            Output::Zstd(w) => w.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Plain(w) => w.flush(),
            Output::Gzip(w) => w.flush(),
            Output::Zstd(w) => w.flush(),
        }
    }
}
