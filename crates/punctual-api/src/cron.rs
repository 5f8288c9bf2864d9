//! What an expression means.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A question about an expression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Explain {
    /// A cron expression, `@every DURATION` or `@at INSTANT`.
    pub expr: String,
    /// The zone; UTC if nothing is said.
    #[serde(default)]
    pub tz: Option<String>,
    /// Slots after this instant; now if nothing is said.
    #[serde(default)]
    pub from: Option<String>,
    /// How many; 5 if nothing is said.
    #[serde(default)]
    pub n: Option<usize>,
}

/// What it means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// As it was asked.
    pub expr: String,
    /// In its usual form.
    pub normalised: String,
    /// In words.
    pub means: String,
    /// The zone.
    pub tz: String,
    /// The next slots.
    pub next: Vec<String>,
    /// What to look out for.
    pub warnings: Vec<String>,
}
