//! The end of memory, in one line.
//!
//! Rust aborts the process when memory cannot be had, with a text about bytes and a status that looks like a crash. The
//! program's own words for it are a line and the status of what could not be decided.

use std::alloc::{GlobalAlloc, Layout, System};

const TEXT: &[u8] = b"isolde: out of memory\n";
/// What `isolde.cli.main` calls undecided.
const UNDECIDED: i32 = 3;

/// The system's allocator, except that it does not come back without memory.
struct OrLeave;

#[global_allocator]
static ALLOCATOR: OrLeave = OrLeave;

#[allow(unsafe_code)]
// SAFETY: every call is handed to the system's allocator as it came, and its answer is handed back as it is.
unsafe impl GlobalAlloc for OrLeave {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this very method.
        or_leave(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        or_leave(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        or_leave(unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[inline]
fn or_leave(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        leave();
    }
    memory
}

#[cold]
#[allow(unsafe_code)]
fn leave() -> ! {
    // SAFETY: both are plain calls of the system that need no memory; nothing runs after the second.
    unsafe {
        libc::write(libc::STDERR_FILENO, TEXT.as_ptr().cast(), TEXT.len());
        libc::_exit(UNDECIDED)
    }
}
