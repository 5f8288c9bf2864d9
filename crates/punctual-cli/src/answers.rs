//! `punctual why` and `punctual doctor`: answers in words.

use std::io::Write;

use clap::Subcommand;
use punctual_api::{Diagnosis, Explanation, Finding};

use crate::exit::Failure;
use crate::output::{self, print_json};
use crate::target::{Client, Target, part};

#[derive(Subcommand)]
pub(crate) enum About {
    /// Explain why a job is waiting, running or finished
    Job {
        /// Job id
        id: String,
    },
    /// Explain why a schedule fires or does not fire
    Schedule {
        /// Schedule name
        name: String,
    },
    /// Explain why the jobs of a queue are waiting
    Queue {
        /// Queue name
        name: String,
    },
}

/// Why something is as it is.
pub(crate) fn why(about: About, client: &Client, is_json: bool) -> Result<(), Failure> {
    let path = match about {
        About::Job { id } => format!("/why/jobs/{}", part(&id)),
        About::Schedule { name } => format!("/why/schedules/{}", part(&name)),
        About::Queue { name } => format!("/why/queues/{}", part(&name)),
    };
    let why: Explanation = client.get(&path)?;
    let mut out = output::stdout();
    match is_json {
        true => print_json(&mut out, &why)?,
        false => writeln!(out, "{}", why.text.trim_end())?,
    }
    match why.reasons.first().map(|reason| reason.code.as_str()) {
        Some("not_found") => Err(Failure::not_found("")),
        _ => Ok(()),
    }
}

/// Looks for whatever is not as it should be; a problem is a failure.
pub(crate) fn doctor(target: &Target, is_json: bool) -> Result<(), Failure> {
    let diagnosis: Diagnosis = match target.client_as_it_is() {
        Ok(client) => client.get("/doctor")?,
        Err(failure) if failure.is_old_schema() => old_schema(failure.message()),
        Err(failure) => return Err(failure),
    };
    let mut out = output::stdout();
    match is_json {
        true => print_json(&mut out, &diagnosis)?,
        false => writeln!(out, "{}", diagnosis.text.trim_end())?,
    }
    match diagnosis.is_healthy {
        true => Ok(()),
        false => Err(Failure::failed("")),
    }
}

/// A database whose tables are too old to be read is examined no further.
fn old_schema(message: &str) -> Diagnosis {
    let remedy = "upgrade the database with `punctual db migrate`".to_owned();
    let finding = Finding {
        code: "schema_old".to_owned(),
        severity: "problem".to_owned(),
        text: message.to_owned(),
        remedy: Some(remedy.clone()),
    };
    Diagnosis {
        is_healthy: false,
        text: format!("problem: {message}\n    → {remedy}\n1 problem, 0 warnings"),
        findings: vec![finding],
    }
}
