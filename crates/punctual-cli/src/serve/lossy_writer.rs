//! Writes lines on a thread of its own, so that a server never waits for the reader of its stderr.
//!
//! Lines wait in a bounded queue. If the output does not take them, because its reader is slow,
//! stopped or has exited, lines are dropped and counted. When the output takes lines again, the log says
//! how many are missing.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum size of all lines that wait. A burst of a few thousand lines fits.
const QUEUE_BYTES_MAX: usize = 1 << 20;

/// How long to wait before writing again to an output that another program made non-blocking.
const WRITE_AGAIN: Duration = Duration::from_millis(10);

/// Takes lines and never blocks. Each call of `write` is a line. All clones write to one output.
#[derive(Clone)]
pub(super) struct LossyWriter(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    is_writing: bool,
    /// Lines dropped since the last report.
    lost: u64,
}

impl LossyWriter {
    /// Starts the thread that writes to `output`.
    pub(super) fn start(output: impl Write + Send + 'static) -> io::Result<LossyWriter> {
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() });
        let writer = shared.clone();
        std::thread::Builder::new()
            .name("punctual-log".to_owned())
            .spawn(move || writer.run(output))?;
        Ok(LossyWriter(shared))
    }

    /// Waits until all lines are written, but at most this long.
    pub(super) fn flush(&self, limit: Duration) {
        let is_busy = |queue: &mut Queue| queue.is_writing || !queue.lines.is_empty();
        // What is not written by then cannot be written.
        let _ = self.0.changed.wait_timeout_while(self.0.lock(), limit, is_busy);
    }
}

impl Write for LossyWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut queue = self.lock();
        if queue.bytes + line.len() > QUEUE_BYTES_MAX {
            queue.lost += 1;
            drop(queue);
            count_lost();
            return;
        }
        queue.bytes += line.len();
        queue.lines.push_back(line.to_owned());
        drop(queue);
        self.changed.notify_all();
    }

    fn run(&self, mut output: impl Write) {
        loop {
            let line = self.next();
            let written = write_line(&mut output, &line);
            let mut queue = self.lock();
            queue.is_writing = false;
            match written {
                Ok(()) => {
                    let lost = std::mem::take(&mut queue.lost);
                    drop(queue);
                    if lost > 0 {
                        // It comes back as a line behind those that were not lost.
                        tracing::warn!(lines = lost, "log lines lost: stderr did not accept them");
                    }
                }
                Err(_) => {
                    queue.lost += 1;
                    drop(queue);
                    count_lost();
                }
            }
            self.changed.notify_all();
        }
    }

    /// The next line, as soon as there is one.
    fn next(&self) -> Vec<u8> {
        let is_empty = |queue: &mut Queue| queue.lines.is_empty();
        let waited = self.changed.wait_while(self.lock(), is_empty);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        let line = queue.lines.pop_front().unwrap_or_default();
        queue.bytes -= line.len();
        queue.is_writing = true;
        line
    }
}

const LINES_LOST: &str = "punctual_server_log_lines_lost_total";

/// Registers the help text of the metric with the installed metrics recorder.
pub(super) fn describe_metrics() {
    metrics::describe_counter!(LINES_LOST, "Log lines lost because stderr did not accept them");
}

fn count_lost() {
    metrics::counter!(LINES_LOST).increment(1);
}

fn write_line(output: &mut impl Write, mut line: &[u8]) -> io::Result<()> {
    while !line.is_empty() {
        match output.write(line) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => line = &line[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => pause(),
            Err(error) => return Err(error),
        }
    }
    output.flush()
}

#[expect(clippy::disallowed_methods, reason = "a thread that only writes the log")]
fn pause() {
    std::thread::sleep(WRITE_AGAIN);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// An event that does not come in this time never comes.
    const NEVER: Duration = Duration::from_secs(30);

    /// An output that reports each write and then returns the next result that it was given.
    struct Scripted {
        lines: Sender<String>,
        answers: Receiver<io::Result<()>>,
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.lines.send(String::from_utf8_lossy(bytes).into_owned()).unwrap();
            self.answers.recv().unwrap().map(|()| bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn writer() -> (LossyWriter, Receiver<String>, Sender<io::Result<()>>) {
        let ((lines, written), (answer, answers)) = (channel(), channel());
        let writer = LossyWriter::start(Scripted { lines, answers }).expect("a thread");
        (writer, written, answer)
    }

    fn lost(writer: &LossyWriter) -> u64 {
        writer.0.lock().lost
    }

    #[test]
    fn an_output_that_takes_nothing_blocks_nobody_and_loses_what_does_not_fit() {
        let (mut writer, written, answer) = writer();
        let line = vec![b'x'; 1_000];
        writer.write_all(b"first\n").unwrap();
        assert_eq!(written.recv_timeout(NEVER).unwrap(), "first\n");
        let (fits, too_many) = (QUEUE_BYTES_MAX / line.len(), 10);
        for _ in 0..fits + too_many {
            writer.write_all(&line).unwrap();
        }
        assert_eq!(lost(&writer), too_many as u64);
        writer.flush(Duration::ZERO);
        for _ in 0..=fits {
            answer.send(Ok(())).unwrap();
        }
        for _ in 0..fits {
            written.recv_timeout(NEVER).expect("another line");
        }
        writer.flush(NEVER);
        assert_eq!(lost(&writer), 0, "the loss was reported");
    }

    #[test]
    fn a_line_that_cannot_be_written_is_counted_and_later_ones_are_written() {
        let (mut writer, written, answer) = writer();
        for line in ["one\n", "two\n"] {
            answer.send(Err(ErrorKind::BrokenPipe.into())).unwrap();
            writer.write_all(line.as_bytes()).unwrap();
            assert_eq!(written.recv_timeout(NEVER).unwrap(), line);
        }
        writer.flush(NEVER);
        assert_eq!(lost(&writer), 2);
        answer.send(Err(ErrorKind::Interrupted.into())).unwrap();
        answer.send(Err(ErrorKind::WouldBlock.into())).unwrap();
        answer.send(Ok(())).unwrap();
        writer.write_all(b"three\n").unwrap();
        for _ in 0..3 {
            assert_eq!(written.recv_timeout(NEVER).unwrap(), "three\n");
        }
        writer.flush(NEVER);
        assert_eq!(lost(&writer), 0, "the loss was reported");
    }
}
