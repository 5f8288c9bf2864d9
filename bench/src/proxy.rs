//! What lies between a worker and its database: bytes pass, unless they are told not to.

use std::collections::HashMap;
use std::io::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// How long a connection that lies in a black hole for ever is kept open: longer than anybody may
/// take to do without it.
const FROZEN_FOR: Duration = Duration::from_secs(25);
/// How long the server may take to do what its client is not told of.
const DONE_WITHIN: Duration = Duration::from_secs(2);

/// The way of one worker.
pub(crate) struct Way {
    pub(crate) port: u16,
    gate: watch::Sender<Gate>,
    /// Counts up; with each step all connections are cut.
    cuts: watch::Sender<u64>,
    /// So many writes are still answered before one is not; below zero all are.
    until_lost: AtomicI64,
    /// Answers to writes that were kept from the client.
    pub(crate) lost: AtomicU64,
}

#[derive(Clone, Copy)]
struct Gate {
    is_open: bool,
    /// Connections that were made before this many black holes never pass anything again.
    frozen: u64,
}

impl Way {
    /// Begins to pass on connections to this port.
    pub(crate) async fn to(target: u16) -> Result<Arc<Way>> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let way = Arc::new(Way {
            port: listener.local_addr()?.port(),
            gate: watch::Sender::new(Gate { is_open: true, frozen: 0 }),
            cuts: watch::Sender::new(0),
            until_lost: AtomicI64::new(-1),
            lost: AtomicU64::new(0),
        });
        let passes = way.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let way = passes.clone();
                let hole = way.gate.borrow().frozen;
                tokio::spawn(async move {
                    // However a connection ends, both sides see that it did.
                    let _ = way.carry(client, target, hole).await;
                });
            }
        });
        Ok(way)
    }

    /// Cuts all connections in both directions.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// The answer to a write is lost, after so many more that are not.
    pub(crate) fn lose_answer(&self, after: i64) {
        self.until_lost.store(after, Ordering::Relaxed);
    }

    pub(crate) fn lose_no_answer(&self) {
        self.lose_answer(-1);
    }

    /// From now on nothing passes, and nobody is told.
    pub(crate) fn close(&self) {
        self.gate.send_modify(|gate| gate.is_open = false);
    }

    /// New connections pass again; old ones go on, or stay silent for ever.
    pub(crate) fn open(&self, old_go_on: bool) {
        self.gate.send_modify(|gate| {
            gate.is_open = true;
            gate.frozen += u64::from(!old_go_on);
        });
    }

    async fn carry(&self, client: TcpStream, target: u16, hole: u64) -> Result<()> {
        let mut cuts = self.cuts.subscribe();
        cuts.mark_unchanged();
        let carried = async {
            self.passes(hole).await?;
            let server = TcpStream::connect(("127.0.0.1", target)).await?;
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            let ((from_client, to_client), (from_server, to_server)) =
                (client.into_split(), server.into_split());
            let mute = Notify::new();
            tokio::select! {
                asked = self.ask(hole, from_client, to_server, &mute) => asked,
                answered = self.answer(hole, from_server, to_client, &mute) => answered,
            }
        };
        tokio::select! {
            carried = carried => carried,
            _ = cuts.changed() => Ok(()),
        }
    }

    /// Waits until something may pass; an error if it never may again.
    async fn passes(&self, hole: u64) -> Result<()> {
        let mut gate = self.gate.subscribe();
        let Ok(now) = gate.wait_for(|gate| gate.is_open).await.map(|gate| *gate) else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        if now.frozen > hole {
            let _ = tokio::time::timeout(FROZEN_FOR, std::future::pending::<()>()).await;
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    async fn ask(
        &self,
        hole: u64,
        mut client: OwnedReadHalf,
        mut server: OwnedWriteHalf,
        mute: &Notify,
    ) -> Result<()> {
        let mut asked = Asked::default();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = client.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            self.passes(hole).await?;
            let is_lost = asked.writes(&buffer[..count]) && self.loses_next();
            if is_lost {
                mute.notify_one();
            }
            server.write_all(&buffer[..count]).await?;
            if is_lost {
                // The other direction ends the connection when the server has answered.
                std::future::pending::<()>().await;
            }
        }
    }

    fn loses_next(&self) -> bool {
        let before = self.until_lost.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left >= 0).then_some(left - 1)
        });
        before == Ok(0)
    }

    async fn answer(
        &self,
        hole: u64,
        mut server: OwnedReadHalf,
        mut client: OwnedWriteHalf,
        is_mute: &Notify,
    ) -> Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = tokio::select! {
                biased;
                () = is_mute.notified() => {
                    // What it did is durable when it answers.
                    let _ = tokio::time::timeout(DONE_WITHIN, server.read(&mut buffer)).await;
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                count = server.read(&mut buffer) => count?,
            };
            if count == 0 {
                return Ok(());
            }
            self.passes(hole).await?;
            client.write_all(&buffer[..count]).await?;
        }
    }
}

/// What a client asks for, as far as one has to know to tell when it ends a write. A message is a
/// letter, its length in four bytes, and its content; the first one has no letter.
#[derive(Default)]
struct Asked {
    has_begun: bool,
    rest: Vec<u8>,
    /// Statements by name, and whether they write.
    statements: HashMap<Vec<u8>, bool>,
    /// Is a write under way that the next Sync ends?
    is_writing: bool,
}

impl Asked {
    /// Takes bytes; do they end a write?
    fn writes(&mut self, bytes: &[u8]) -> bool {
        self.rest.extend_from_slice(bytes);
        let mut has_ended = false;
        loop {
            let letter_bytes = usize::from(self.has_begun);
            let Some(length) = self.rest.get(letter_bytes..letter_bytes + 4) else { break };
            let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            let end = letter_bytes + length;
            if self.rest.len() < end {
                break;
            }
            let message: Vec<u8> = self.rest.drain(..end).collect();
            if self.has_begun {
                has_ended |= self.hear(message[0], &message[5..]);
            }
            self.has_begun = true;
        }
        has_ended
    }

    fn hear(&mut self, letter: u8, content: &[u8]) -> bool {
        let mut texts = content.split(|byte| *byte == 0);
        let (first, second) = (texts.next().unwrap_or(&[]), texts.next().unwrap_or(&[]));
        match letter {
            // Parse: a name and the statement.
            b'P' => drop(self.statements.insert(first.to_vec(), is_write(second))),
            // Bind: the portal and the name of the statement.
            b'B' => self.is_writing |= self.statements.get(second).copied().unwrap_or(false),
            b'Q' => return is_write(first) || holds(first, b"COMMIT"),
            b'S' => return std::mem::take(&mut self.is_writing),
            _ => {}
        }
        false
    }
}

fn is_write(text: &[u8]) -> bool {
    [&b"INSERT INTO "[..], b"UPDATE ", b"DELETE FROM "].iter().any(|word| holds(text, word))
}

fn holds(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(letter: &str, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len() + 4).unwrap().to_be_bytes();
        [letter.as_bytes(), &length, content].concat()
    }

    #[test]
    fn a_write_ends_with_its_sync_or_with_commit() {
        let mut asked = Asked::default();
        assert!(!asked.writes(&message("", b"\0\x03\0\0user\0x\0\0")));
        let prepare = message("P", b"s1\0-- Adds.\nINSERT INTO x SELECT 1\0\0\0");
        assert!(!asked.writes(&[prepare, message("S", b"")].concat()), "only prepared");
        let run = [message("B", b"\0s1\0\0\0"), message("E", b"\0\0\0\0\0"), message("S", b"")];
        let run = run.concat();
        // In two parts, of which the second ends it.
        assert!(!asked.writes(&run[..9]));
        assert!(asked.writes(&run[9..]));
        let read =
            [message("P", b"\0SELECT 1\0\0\0"), message("B", b"\0\0\0\0"), message("S", b"")];
        assert!(!asked.writes(&read.concat()));
        assert!(!asked.writes(&message("Q", b"BEGIN\0")));
        assert!(asked.writes(&message("Q", b"COMMIT\0")));
    }
}
