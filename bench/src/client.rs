//! An HTTP client that costs little, so that the server is measured: one connection, one request
//! after the other, responses with a content length.

use std::fmt::Display;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Failure;

pub(crate) struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(server: SocketAddr) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, read: Vec::with_capacity(64 * 1_024) })
    }

    /// Sends a request and returns the body of the response, which must be a success.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<&[u8], Failure> {
        match self.exchange(request).await? {
            (200..300, body) => Ok(body),
            (status, body) => {
                let body = String::from_utf8_lossy(body);
                Err(format!("request rejected with {status}: {body}").into())
            }
        }
    }

    /// Sends a request and returns status and body of the response.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<(u16, &[u8]), Failure> {
        self.stream.write_all(request).await?;
        self.read.clear();
        loop {
            if let Some(head) = Head::read(&self.read)?
                && self.read.len() >= head.end
            {
                return Ok((head.status, &self.read[head.body..head.end]));
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err("the server closed the connection".into());
            }
        }
    }
}

/// The bytes of a request with a JSON body.
pub(crate) fn post(path: &str, body: impl Display) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The bytes of a request without a body.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// Status of a response, and where its body begins and ends.
struct Head {
    status: u16,
    body: usize,
    end: usize,
}

impl Head {
    /// None until the whole head has arrived.
    fn read(read: &[u8]) -> Result<Option<Head>, Failure> {
        let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status: u16 = status.ok_or("a response without a status")?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = match (status, length) {
            // No content.
            (204, None) => 0,
            (_, Some(length)) => length.trim().parse()?,
            (_, None) => return Err("a response without a content length".into()),
        };
        let body = end + 4;
        Ok(Some(Head { status, body, end: body + length }))
    }
}
