//! What an expression means.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A schedule expression to explain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct CronExplainRequest {
    /// A cron expression, `@every DURATION` or `@at TIME`.
    pub expr: String,
    /// Time zone, as an IANA name such as `Europe/Paris`. Default: `UTC`.
    #[serde(default)]
    pub tz: Option<String>,
    /// Only slots after this time (RFC 3339) are listed. Default: now.
    #[serde(default)]
    pub from: Option<String>,
    /// Number of slots to list. Default 5, maximum 1,000.
    #[serde(default)]
    pub n: Option<usize>,
}

/// The meaning of a schedule expression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CronExplanation {
    /// The expression from the request.
    pub expr: String,
    /// The expression in normalized form.
    pub normalized: String,
    /// The expression in plain English.
    pub description: String,
    /// Time zone of the expression.
    pub tz: String,
    /// The next slots, earliest first.
    pub next: Vec<String>,
    /// Warnings, for example about slots that a daylight saving change affects.
    pub warnings: Vec<String>,
}
