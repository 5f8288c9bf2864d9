//! Which nodes run the jobs of a schedule.

use std::fmt;
use std::str::FromStr;

use super::DefinitionError;

/// Which nodes run the jobs of a schedule. All but the first are queues of their own, whose names
/// begin with `@`: a node serves that of its name and those of its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RunOn {
    /// Whichever serves the job's queue.
    #[default]
    Any,
    /// Each node that is alive at the slot, with a job of its own.
    EveryNode,
    /// The one of this name.
    Node(String),
    /// One that has this label.
    Label {
        /// The label's name.
        name: String,
        /// Its value.
        value: String,
    },
}

/// The forms, for messages.
const FORMS: &str = "any, every_node, node NAME, label KEY=VALUE";

/// What the queues of nodes and labels begin with.
pub const NODE_QUEUE: char = '@';

/// Where the job of a slot waits that is for every node; the transaction that fires it makes one of
/// each node's.
pub const EVERY_NODE_QUEUE: &str = "@*";

/// The queue of the node of this name.
pub fn node_queue(name: &str) -> String {
    format!("{NODE_QUEUE}{name}")
}

/// The queue of the nodes that have this label.
pub fn label_queue(name: &str, value: &str) -> String {
    format!("{NODE_QUEUE}{name}={value}")
}

impl RunOn {
    /// Reads `any`, `every_node`, `node NAME` or `label KEY=VALUE`.
    pub fn parse(text: &str) -> Result<RunOn, String> {
        let text = text.trim();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match (word, rest.trim()) {
            ("any", "") => Ok(RunOn::Any),
            ("every_node", "") => Ok(RunOn::EveryNode),
            ("node", "") => Err("`node` requires a name, such as `node db-1`".to_owned()),
            ("node", name) => match check_node_name(name) {
                Ok(()) => Ok(RunOn::Node(name.to_owned())),
                Err(why) => Err(why),
            },
            ("label", label) => match label.split_once('=') {
                Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
                    let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
                    Ok(RunOn::Label { name, value })
                }
                _ => Err(format!(
                    "invalid label `{}`; use `label KEY=VALUE`, such as `label zone=eu`",
                    crate::cron::echo(text)
                )),
            },
            _ => {
                Err(format!("unknown value `{}`; expected one of {FORMS}", crate::cron::echo(text)))
            }
        }
    }

    /// The queue of its jobs, unless they go where the job says.
    pub fn queue(&self) -> Option<String> {
        match self {
            RunOn::Any => None,
            RunOn::EveryNode => Some(EVERY_NODE_QUEUE.to_owned()),
            RunOn::Node(name) => Some(node_queue(name)),
            RunOn::Label { name, value } => Some(label_queue(name, value)),
        }
    }
}

/// A node's name must not read like the queue of a label, or of all nodes.
pub fn check_node_name(name: &str) -> Result<(), String> {
    match name.contains('=') || name == "*" {
        true => Err(format!(
            "invalid node name `{}`: it must not contain `=` or be `*`",
            crate::cron::echo(name)
        )),
        false => Ok(()),
    }
}

impl FromStr for RunOn {
    type Err = DefinitionError;

    /// Reads the same forms as [`RunOn::parse`].
    fn from_str(text: &str) -> Result<RunOn, DefinitionError> {
        RunOn::parse(text)
            .map_err(|message| DefinitionError { field: "run_on".to_owned(), message })
    }
}

impl fmt::Display for RunOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunOn::Any => f.write_str("any"),
            RunOn::EveryNode => f.write_str("every_node"),
            RunOn::Node(name) => write!(f, "node {name}"),
            RunOn::Label { name, value } => write!(f, "label {name}={value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_prints_what_it_parses() {
        for text in ["any", "every_node", "node db-1", "label zone=eu", "node a b", "label a=b=c"] {
            assert_eq!(RunOn::parse(text).map(|it| it.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(RunOn::parse("  label  zone = eu "), RunOn::parse("label zone=eu"));
    }

    #[test]
    fn a_text_that_is_none_says_what_would_be() {
        let refused = |text: &str| RunOn::parse(text).expect_err("it is refused");
        insta::assert_snapshot!(refused("leader"), @"unknown value `leader`; expected one of any, every_node, node NAME, label KEY=VALUE");
        insta::assert_snapshot!(refused("any node"), @"unknown value `any node`; expected one of any, every_node, node NAME, label KEY=VALUE");
        insta::assert_snapshot!(refused("node"), @"`node` requires a name, such as `node db-1`");
        insta::assert_snapshot!(refused("node a=b"), @"invalid node name `a=b`: it must not contain `=` or be `*`");
        insta::assert_snapshot!(refused("label zone"), @"invalid label `label zone`; use `label KEY=VALUE`, such as `label zone=eu`");
    }

    #[test]
    fn queues_of_nodes_and_labels_never_meet() {
        let queue = |text: &str| RunOn::parse(text).expect("it is one").queue();
        assert_eq!(queue("any"), None);
        assert_eq!(queue("every_node").as_deref(), Some("@*"));
        assert_eq!(queue("node db-1").as_deref(), Some("@db-1"));
        assert_eq!(queue("label zone=eu").as_deref(), Some("@zone=eu"));
    }
}
