//! The actions that the audit log names.

use std::fmt;

/// The action of an audit entry.
///
/// ```
/// use punctual_store::AuditAction;
///
/// assert_eq!(AuditAction::from("pause queue"), AuditAction::PauseQueue);
/// assert_eq!(AuditAction::PauseQueue.as_str(), "pause queue");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuditAction {
    /// A job was cancelled, or its worker was asked to stop.
    CancelJob,
    /// An ended job was made ready again.
    RequeueJob,
    /// A waiting job got another queue, priority or due time.
    PlaceJob,
    /// A schedule was created.
    CreateSchedule,
    /// A schedule got another definition.
    EditSchedule,
    /// A schedule was paused.
    PauseSchedule,
    /// A paused schedule was resumed.
    ResumeSchedule,
    /// A schedule was enabled.
    EnableSchedule,
    /// A schedule was disabled.
    DisableSchedule,
    /// The slots of a schedule that lie ahead of the database clock were discarded.
    RealignSchedule,
    /// A schedule was deleted.
    DeleteSchedule,
    /// A schedule got another name.
    RenameSchedule,
    /// A schedule was taken over by a set.
    AdoptSchedule,
    /// A job of a schedule was created at once.
    RunSchedule,
    /// A queue was paused.
    PauseQueue,
    /// A paused queue was resumed.
    ResumeQueue,
    /// The limits of a queue were changed.
    LimitQueue,
    /// An action that this version does not know, as a newer version stored it. Use [`AuditAction::from`]
    /// to convert a text: it returns this only for texts that no other action has.
    Other(Box<str>),
}

impl AuditAction {
    /// All actions that this version knows.
    pub const KNOWN: [AuditAction; 17] = [
        AuditAction::CancelJob,
        AuditAction::RequeueJob,
        AuditAction::PlaceJob,
        AuditAction::CreateSchedule,
        AuditAction::EditSchedule,
        AuditAction::PauseSchedule,
        AuditAction::ResumeSchedule,
        AuditAction::EnableSchedule,
        AuditAction::DisableSchedule,
        AuditAction::RealignSchedule,
        AuditAction::DeleteSchedule,
        AuditAction::RenameSchedule,
        AuditAction::AdoptSchedule,
        AuditAction::RunSchedule,
        AuditAction::PauseQueue,
        AuditAction::ResumeQueue,
        AuditAction::LimitQueue,
    ];

    /// The text that is stored.
    pub fn as_str(&self) -> &str {
        match self {
            AuditAction::CancelJob => "cancel job",
            AuditAction::RequeueJob => "requeue job",
            AuditAction::PlaceJob => "place job",
            AuditAction::CreateSchedule => "create schedule",
            AuditAction::EditSchedule => "edit schedule",
            AuditAction::PauseSchedule => "pause schedule",
            AuditAction::ResumeSchedule => "resume schedule",
            AuditAction::EnableSchedule => "enable schedule",
            AuditAction::DisableSchedule => "disable schedule",
            AuditAction::RealignSchedule => "realign schedule",
            AuditAction::DeleteSchedule => "delete schedule",
            AuditAction::RenameSchedule => "rename schedule",
            AuditAction::AdoptSchedule => "adopt schedule",
            AuditAction::RunSchedule => "run schedule",
            AuditAction::PauseQueue => "pause queue",
            AuditAction::ResumeQueue => "resume queue",
            AuditAction::LimitQueue => "limit queue",
            AuditAction::Other(text) => text,
        }
    }
}

impl From<&str> for AuditAction {
    fn from(text: &str) -> AuditAction {
        let known = AuditAction::KNOWN.into_iter().find(|action| action.as_str() == text);
        known.unwrap_or_else(|| AuditAction::Other(text.into()))
    }
}

impl From<String> for AuditAction {
    fn from(text: String) -> AuditAction {
        AuditAction::from(&*text)
    }
}

impl fmt::Display for AuditAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The texts are stored, so they must not change.
    #[test]
    fn stored_texts() {
        let texts: Vec<&str> = AuditAction::KNOWN.iter().map(AuditAction::as_str).collect();
        insta::assert_snapshot!(texts.join(", "), @"cancel job, requeue job, place job, create schedule, edit schedule, pause schedule, resume schedule, enable schedule, disable schedule, realign schedule, delete schedule, rename schedule, adopt schedule, run schedule, pause queue, resume queue, limit queue");
        assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), texts.len());
    }

    #[test]
    fn every_text_converts_back() {
        for action in AuditAction::KNOWN {
            assert_eq!(AuditAction::from(action.as_str()), action);
        }
        let newer = AuditAction::from("drain queue");
        assert_eq!(newer, AuditAction::Other("drain queue".into()));
        assert_eq!(newer.to_string(), "drain queue");
    }
}
