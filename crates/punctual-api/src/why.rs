//! Why something is as it is, and what is not as it should be.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Explains the state of a job, a schedule or a queue. The first reason is the main one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The job, schedule or queue.
    pub subject: String,
    /// State in one word. Job: its state. Schedule: `active`, `paused`, `disabled`, `finished` or
    /// `quarantined`. Queue: `active`, `paused` or `unused`. An unknown job or schedule has the
    /// state `not_found`; the state is `unknown` if the database cannot be reached.
    pub state: String,
    /// Reasons for the state, most important first.
    pub reasons: Vec<Reason>,
    /// The explanation as text for people.
    pub text: String,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    /// Stable code for programs.
    pub code: String,
    /// The reason as text for people.
    pub text: String,
    /// How to fix it.
    pub remedy: Option<String>,
}

/// The result of a health check of the whole system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Diagnosis {
    /// True if no problems were found.
    pub is_healthy: bool,
    /// The findings.
    pub findings: Vec<Finding>,
    /// The diagnosis as text for people.
    pub text: String,
}

/// A problem or a warning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// Stable code for programs.
    pub code: String,
    /// `warning` or `problem`.
    pub severity: String,
    /// The finding as text for people.
    pub text: String,
    /// How to fix it.
    pub remedy: Option<String>,
}

impl From<punctual::why::Why> for Explanation {
    fn from(why: punctual::why::Why) -> Explanation {
        let reason = |reason: punctual::why::Reason| Reason {
            code: reason.code.to_owned(),
            text: reason.text,
            remedy: reason.remedy,
        };
        Explanation {
            text: why.to_string(),
            subject: why.subject,
            state: why.state,
            reasons: why.reasons.into_iter().map(reason).collect(),
        }
    }
}

impl From<punctual::doctor::Diagnosis> for Diagnosis {
    fn from(diagnosis: punctual::doctor::Diagnosis) -> Diagnosis {
        use punctual::doctor::{Finding as Found, Severity};
        let finding = |finding: Found| Finding {
            code: finding.code.to_owned(),
            severity: match finding.severity {
                Severity::Problem => "problem".to_owned(),
                Severity::Warning => "warning".to_owned(),
            },
            text: finding.text,
            remedy: finding.remedy,
        };
        Diagnosis {
            is_healthy: diagnosis.is_healthy(),
            text: diagnosis.to_string(),
            findings: diagnosis.findings.into_iter().map(finding).collect(),
        }
    }
}
