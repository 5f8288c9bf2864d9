//! How many attempts ran at once, and where a new version of the program joined.

use punctual::{Node, Span, Timestamp};

use super::range::Range;

/// Steps that a stretch is divided into: a few pixels each.
const STEPS: i64 = 120;

/// The most attempts that ran at once in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) most: usize,
}

/// The steps of a stretch up to now, each with the most attempts that ran at one moment of it. An attempt
/// runs from its claim up to, and not at, its end.
pub(super) fn levels(spans: &[Span], range: &Range, now: Timestamp) -> Vec<Level> {
    let mut changes: Vec<(Timestamp, i32)> = Vec::with_capacity(spans.len() * 2);
    for span in spans {
        changes.push((span.claimed_at, 1));
        // One that began and ended within the same microsecond ran all the same.
        let end = span.ended_at.map(|end| end.max(span.claimed_at + MOMENT));
        changes.extend(end.map(|end| (end, -1)));
    }
    // Who ends makes room for who begins at the same instant.
    changes.sort_unstable();
    let mut changes = changes.into_iter().peekable();
    let (start, whole) = (range.from.as_micros(), range.to.as_micros() - range.from.as_micros());
    let edge = |step: i64| Timestamp::from_micros(start + whole * step / STEPS);
    let mut running = 0_i32;
    let mut levels = Vec::new();
    for step in 0..STEPS {
        let (from, to) = (edge(step), edge(step + 1));
        if from > now {
            break;
        }
        while let Some((_, change)) = changes.next_if(|(at, _)| *at <= from) {
            running += change;
        }
        let mut most = running;
        while let Some((_, change)) = changes.next_if(|(at, _)| *at < to) {
            running += change;
            most = most.max(running);
        }
        levels.push(Level { from, to: to.min(now), most: usize::try_from(most).unwrap_or(0) });
    }
    levels
}

/// The shortest length there is.
const MOMENT: std::time::Duration = std::time::Duration::from_micros(1);

/// Where the first node of a version joined, of those that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deploy {
    pub(super) at: Timestamp,
    pub(super) version: String,
    pub(super) node: String,
}

/// The first joins of each version within a stretch. A node that leaves in order is not known any
/// more, so that a version may have been there before under another node.
pub(super) fn deploys(nodes: &[Node], range: &Range) -> Vec<Deploy> {
    let mut nodes: Vec<&Node> = nodes.iter().collect();
    nodes.sort_by_key(|node| node.joined_at);
    let mut seen: Vec<&str> = Vec::new();
    let mut deploys = Vec::new();
    for node in nodes {
        if seen.contains(&node.info.version.as_str()) {
            continue;
        }
        seen.push(&node.info.version);
        if (range.from..range.to).contains(&node.joined_at) {
            deploys.push(Deploy {
                at: node.joined_at,
                version: node.info.version.clone(),
                node: node.info.name.clone(),
            });
        }
    }
    deploys
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual::{JobId, NodeId, NodeInfo};

    use super::*;

    fn second(number: i64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000 + number)
    }

    fn range(seconds: i64) -> Range {
        Range { from: second(0), to: second(seconds), window: None }
    }

    fn span(from: i64, to: Option<i64>) -> Span {
        Span {
            job: JobId::floor(second(from)),
            attempt: 1,
            queue: "default".to_owned(),
            kind: "echo".to_owned(),
            schedule: None,
            node: None,
            claimed_at: second(from),
            ended_at: to.map(second),
            outcome: None,
        }
    }

    #[test]
    fn each_step_tells_the_most_that_ran_at_one_moment_of_it() {
        // Of 120 steps of a second: two meet at 10, three overlap at 20, one goes on.
        let spans = [
            span(-50, Some(2)),
            span(5, Some(10)),
            span(10, Some(15)),
            span(18, Some(30)),
            span(19, Some(21)),
            span(20, Some(22)),
            span(100, None),
            span(50, Some(50)),
        ];
        let levels = levels(&spans, &range(120), second(110));
        assert_eq!(levels.len(), 111, "what is to come is not drawn");
        let most = |number: usize| levels[number].most;
        assert_eq!((most(0), most(1), most(2), most(3)), (1, 1, 0, 0));
        assert_eq!((most(9), most(10), most(14), most(15)), (1, 1, 1, 0));
        assert_eq!((most(19), most(20), most(21), most(22), most(30)), (2, 3, 2, 1, 0));
        assert_eq!((most(50), most(51), most(99), most(110)), (1, 0, 0, 1));
    }

    #[test]
    fn long_steps_keep_short_peaks() {
        let spans = [span(10, Some(11)), span(10, Some(11)), span(13, Some(14))];
        let levels = levels(&spans, &range(1_200), second(2_000));
        assert_eq!(levels.len(), 120);
        assert_eq!((levels[0].most, levels[1].most, levels[2].most), (0, 2, 0));
    }

    #[test]
    fn the_first_node_of_a_version_marks_a_deploy() {
        let node = |name: &str, version: &str, joined: i64| Node {
            info: NodeInfo {
                id: NodeId::floor(second(joined)),
                name: name.to_owned(),
                version: version.to_owned(),
                queues: Vec::new(),
                kinds: Vec::new(),
                labels: Vec::new(),
            },
            joined_at: second(joined),
            seen_at: second(joined),
            seen_watch: Duration::ZERO,
            dead_at: None,
            running: 0,
        };
        let nodes = [
            node("c", "1.1", 30),
            node("a", "1.0", -10),
            node("b", "1.1", 20),
            node("d", "1.0", 40),
            node("e", "1.2", 500),
        ];
        let found: Vec<(String, String)> = deploys(&nodes, &range(100))
            .into_iter()
            .map(|deploy| (deploy.version, deploy.node))
            .collect();
        assert_eq!(found, [("1.1".to_owned(), "b".to_owned())]);
        let wide = Range { from: second(0) - Duration::from_secs(60), ..range(600) };
        assert_eq!(deploys(&nodes, &wide).len(), 3);
    }
}
