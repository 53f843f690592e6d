//! Named pipes as inputs: opening one waits for a writer, and nothing says that there will ever be one.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long somebody may take to begin to write.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for more.
const PAUSE: Duration = Duration::from_millis(1);

/// Opens a file to be read; a named pipe is not waited for without an end.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if !path.metadata()?.file_type().is_fifo() {
        return Ok(Box::new(File::open(path)?));
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    Ok(Box::new(Pipe { file, opened: Instant::now(), has_writer: false }))
}

/// A named pipe that was opened without waiting.
struct Pipe {
    file: File,
    opened: Instant,
    has_writer: bool,
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(into) {
                // Without a writer there is nothing to read, just as at the end.
                Ok(0) if !self.has_writer && !into.is_empty() => {
                    if self.opened.elapsed() > PATIENCE {
                        let text = format!("nobody has written to this pipe for {} s", PATIENCE.as_secs());
                        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.has_writer = true,
                other => {
                    self.has_writer = true;
                    return other;
                }
            }
            thread::sleep(PAUSE);
        }
    }
}
