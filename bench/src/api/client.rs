//! A client that costs next to nothing, so that what is measured is the server: one connection, one
//! request after the other, answers with a length.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Failure;

pub(super) struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(server: SocketAddr) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, read: Vec::with_capacity(64 * 1_024) })
    }

    /// Asks, and reads the answer, which must be a success.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(request).await?;
        self.read.clear();
        loop {
            if let Some(length) = whole(&self.read)?
                && self.read.len() >= length
            {
                return Ok(());
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err("the server closed the connection".into());
            }
        }
    }
}

/// How long an answer is, once its head is there.
fn whole(read: &[u8]) -> Result<Option<usize>, Failure> {
    let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
    if !head.starts_with("http/1.1 20") {
        return Err(format!("request rejected: {}", String::from_utf8_lossy(read)).into());
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.ok_or("a response without a content length")?.trim().parse()?;
    Ok(Some(end + 4 + length))
}
