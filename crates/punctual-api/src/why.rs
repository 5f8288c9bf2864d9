//! Why something is as it is, and what is not as it should be.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why something is as it is: the first reason is the answer, the others are worth knowing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// What was asked about.
    pub subject: String,
    /// How it is, in one word.
    pub state: String,
    /// Why.
    pub reasons: Vec<Reason>,
    /// The same for people.
    pub text: String,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    /// A word for programs.
    pub code: String,
    /// One sentence for people.
    pub text: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// What was looked at, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Diagnosis {
    /// Is everything as it should be?
    pub is_healthy: bool,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
    /// The same for people.
    pub text: String,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// A word for programs.
    pub code: String,
    /// `warning` or `problem`.
    pub severity: String,
    /// One sentence for people.
    pub text: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl From<punctual::why::Why> for Why {
    fn from(why: punctual::why::Why) -> Why {
        let reason = |reason: punctual::why::Reason| Reason {
            code: reason.code.to_owned(),
            text: reason.text,
            remedy: reason.remedy,
        };
        Why {
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
