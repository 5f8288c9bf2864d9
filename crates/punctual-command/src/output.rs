//! What a command writes: lines for the log as long as there is room, and the last of it.

use punctual::LogLevel;
use punctual_secrets::{Mask, MaskStream};

use crate::plain::Plain;

/// A line of the log takes no more; what is longer becomes several.
const LINE_BYTES_MAX: usize = 4_000;

/// Lines of one attempt that are logged: a few less than its log takes.
const LINES_MAX: usize = 9_900;

/// What is kept of a stream whose lines are logged no more, until it ends: enough for the tail, even
/// if most of it is colours.
const RING_BYTES: usize = 64 << 10;

/// Whoever takes the lines.
pub(crate) type Log<'a> = &'a (dyn Fn(LogLevel, &str) + Send + Sync);

/// How much room is left in the log, for both streams.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: usize,
    lines: usize,
    bytes_max: usize,
    is_full: bool,
}

impl Room {
    pub(crate) fn new(bytes_max: usize) -> Room {
        Room { bytes: 0, lines: 0, bytes_max, is_full: false }
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Logs a line if there is room; says so once if there is not.
    fn log(&mut self, level: LogLevel, line: &str, log: Log<'_>) {
        if self.is_full {
            return;
        }
        if self.bytes + line.len() > self.bytes_max || self.lines >= LINES_MAX {
            self.is_full = true;
            log(
                LogLevel::Warn,
                &format!(
                    "output truncated after {} bytes in {} lines; the end of the output is kept \
                     with the attempt",
                    self.bytes, self.lines
                ),
            );
            return;
        }
        self.bytes += line.len().max(1);
        self.lines += 1;
        log(level, line);
    }
}

/// One stream of a command. Its order is: plain text first, so that no colour parts a secret; then
/// the mask, so that nothing behind it ever has one.
pub(crate) struct Stream {
    level: LogLevel,
    mask: Mask,
    plain: Plain,
    masked: MaskStream,
    line: Vec<u8>,
    /// Was the last byte the end of a line that a newline may belong to?
    is_after_return: bool,
    /// What came since the log was full.
    ring: Option<Ring>,
    tail: String,
    tail_bytes: usize,
    /// All that came.
    pub(crate) bytes: u64,
}

#[derive(Default)]
struct Ring {
    bytes: Vec<u8>,
    has_lost: bool,
}

impl Stream {
    pub(crate) fn new(level: LogLevel, mask: &Mask, tail_bytes: usize) -> Stream {
        Stream {
            level,
            mask: mask.clone(),
            plain: Plain::default(),
            masked: mask.stream(),
            line: Vec::new(),
            is_after_return: false,
            ring: None,
            tail: String::new(),
            tail_bytes,
            bytes: 0,
        }
    }

    /// Takes what has come.
    pub(crate) fn push(&mut self, piece: &[u8], room: &mut Room, log: Log<'_>) {
        self.bytes += piece.len() as u64;
        if !room.is_full() {
            return self.read(piece, room, log);
        }
        let keep = RING_BYTES + self.mask.longest();
        let ring = self.ring.get_or_insert_default();
        ring.bytes.extend_from_slice(piece);
        if ring.bytes.len() > 2 * keep {
            ring.bytes.drain(..ring.bytes.len() - keep);
            ring.has_lost = true;
        }
    }

    /// The last of it; nothing more comes.
    pub(crate) fn finish(&mut self, room: &mut Room, log: Log<'_>) -> String {
        if let Some(ring) = self.ring.take() {
            let from = if ring.has_lost {
                // What was read before has no connection with this, and this may begin within a
                // secret.
                (self.plain, self.masked) = (Plain::default(), self.mask.stream());
                self.line.clear();
                self.tail.clear();
                self.mask.longest().min(ring.bytes.len())
            } else {
                0
            };
            self.read(&ring.bytes[from..], room, log);
        }
        let plain = self.plain.finish();
        let mut masked = self.masked.push(&plain);
        masked.extend(self.masked.finish());
        self.split(&masked, room, log);
        self.end_line(room, log);
        let text = last(&self.tail, self.tail_bytes);
        text.trim_end_matches('\n').to_owned()
    }

    fn read(&mut self, piece: &[u8], room: &mut Room, log: Log<'_>) {
        let plain = self.plain.push(piece);
        let masked = self.masked.push(&plain);
        self.split(&masked, room, log);
    }

    /// Lines end with `\n`, `\r\n`, or `\r` alone, as progress bars do.
    fn split(&mut self, bytes: &[u8], room: &mut Room, log: Log<'_>) {
        for byte in bytes {
            let is_second = self.is_after_return && *byte == b'\n';
            self.is_after_return = *byte == b'\r';
            match byte {
                b'\n' if is_second => {}
                b'\n' | b'\r' => {
                    self.line.push(b'\n');
                    self.end_line(room, log);
                }
                byte => {
                    // A character begins here, so that none is parted.
                    if self.line.len() >= LINE_BYTES_MAX - 4 && *byte & 0xc0 != 0x80
                        || self.line.len() >= LINE_BYTES_MAX
                    {
                        self.end_line(room, log);
                    }
                    self.line.push(*byte);
                }
            }
        }
    }

    fn end_line(&mut self, room: &mut Room, log: Log<'_>) {
        if self.line.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        room.log(self.level, text.trim_end_matches('\n'), log);
        self.tail.push_str(&text);
        if self.tail.len() > 2 * self.tail_bytes {
            self.tail = last(&self.tail, self.tail_bytes).to_owned();
        }
    }
}

/// The end of a text, within so many bytes: whole lines, if there is one.
fn last(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let text = &text[text.ceil_char_boundary(text.len() - bytes_max)..];
    match text.split_once('\n') {
        Some((_, lines)) if !lines.is_empty() => lines,
        _ => text,
    }
}
