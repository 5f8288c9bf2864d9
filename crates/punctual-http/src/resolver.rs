//! The resolver of this machine, and the lack of resources that its errors hide.

use std::fs::File;
use std::io::{Error, Result};
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use punctual::{Failure, is_out_of_resources};

use crate::policy::{Answer, Resolve};

/// Without a response after this time, check whether the lookup has a thread.
const THREAD_CHECK: Duration = Duration::from_secs(5);

/// Resolves names as this machine does.
pub(crate) struct System;

impl Resolve for System {
    fn resolve(&self, host: &str) -> Answer {
        let host = host.to_owned();
        Box::pin(async move { found(&host).await.map_err(cause) })
    }
}

async fn found(host: &str) -> Result<Vec<IpAddr>> {
    let mut lookup = pin!(tokio::net::lookup_host((host, 0)));
    let found = match tokio::time::timeout(THREAD_CHECK, &mut lookup).await {
        Ok(found) => found?,
        Err(_) => {
            // A lookup for which no thread can be started waits without an error.
            check_threads()?;
            lookup.await?
        }
    };
    Ok(found.map(|address| address.ip()).collect())
}

fn check_threads() -> Result<()> {
    match std::thread::Builder::new().spawn(|| {}) {
        Ok(thread) => {
            drop(thread);
            Ok(())
        }
        Err(error) => Err(Error::other(Failure::out_of_resources(format!(
            "no thread can be started: {error}"
        )))),
    }
}

/// The cause of an error of the resolver: "temporary failure in name resolution" can mean that it could
/// not open a file or socket.
fn cause(error: Error) -> Error {
    // What the C libraries call EAI_MEMORY.
    const NO_MEMORY: [&str; 2] = ["Memory allocation failure", "Out of memory"];
    if is_out_of_resources(&error) {
        return error;
    }
    if NO_MEMORY.iter().any(|text| error.to_string().ends_with(text)) {
        return Error::other(Failure::out_of_resources(error));
    }
    match File::open("/dev/null") {
        Err(lack) if is_out_of_resources(&lack) => lack,
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resolver_without_memory_is_a_lack_of_resources() {
        let error =
            |text: &str| Error::other(format!("failed to lookup address information: {text}"));
        assert!(is_out_of_resources(&cause(error("Memory allocation failure"))));
        assert!(is_out_of_resources(&cause(Error::from_raw_os_error(24))));
        assert!(!is_out_of_resources(&cause(error("Name or service not known"))));
    }
}
