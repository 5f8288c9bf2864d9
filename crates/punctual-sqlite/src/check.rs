//! Whether the file is whole.

use std::path::PathBuf;
use std::thread;

use punctual_store::Result;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::explain_owned;
use crate::open;
use crate::writer::{gone, no_thread};

/// Faults that are told; where there is one there are many.
const FAULTS_MAX: u32 = 20;

/// Reads all of a file, on a thread and a connection of its own, and says what is wrong with it.
pub(crate) async fn run(path: PathBuf) -> Result<Vec<String>> {
    let (reply, answer) = oneshot::channel();
    let shown = path.clone();
    thread::Builder::new()
        .name("punctual-check".to_owned())
        .spawn(move || {
            let faults = open::reader(&path).and_then(|db| faults(&db));
            let _ = reply.send(faults.map_err(|error| explain_owned(error, &path)));
        })
        .map_err(no_thread)?;
    answer.await.unwrap_or_else(|_| Err(gone(&shown)))
}

fn faults(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut check = db.prepare(&format!("PRAGMA integrity_check({FAULTS_MAX})"))?;
    let told = check.query_map([], |row| row.get::<_, String>(0))?;
    let told: Vec<String> = told.collect::<rusqlite::Result<_>>()?;
    Ok(told.into_iter().filter(|fault| fault != "ok").collect())
}
