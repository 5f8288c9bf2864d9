//! What cron reads otherwise than punctual, said in punctual's words.

use std::ops::Range;

/// An expression for punctual, and what was said differently.
pub(super) struct Translated {
    pub(super) text: String,
    pub(super) notes: Vec<String>,
}

/// The lowest and the highest value of each field.
const FIELDS: [(&str, u32, u32); 5] = [
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day-of-month", 1, 31),
    ("month", 1, 12),
    ("day-of-week", 0, 7),
];

/// Five fields or a nickname, as punctual writes them.
pub(super) fn translate(words: &[&str]) -> Translated {
    let mut notes = Vec::new();
    let [minute, hour, dom, month, dow] = words else {
        return Translated { text: words.join(" "), notes };
    };
    let written = [minute, hour, dom, month, dow];
    let mut fields: Vec<String> = Vec::new();
    for (field, (name, least, most)) in written.into_iter().zip(FIELDS) {
        let items: Vec<String> =
            field.split(',').map(|item| one(item, name, least, most, &mut notes)).collect();
        fields.push(items.join(","));
    }
    // Cron wants both days if either field begins with a star, be it followed by a step.
    let is_all = |field: &str| field == "*";
    let begins_with_star = dom.starts_with('*') || dow.starts_with('*');
    if begins_with_star && !is_all(dom) && !is_all(dow) {
        notes.push(format!(
            "cron requires both day fields, `{dom}` and `{dow}`, to match because one starts with \
             `*`; converted with `+`"
        ));
        fields[4].insert(0, '+');
    }
    Translated { text: fields.join(" "), notes }
}

fn one(item: &str, name: &str, least: u32, most: u32, notes: &mut Vec<String>) -> String {
    // A step beyond the field leaves its first value.
    if let Some((range, step)) = item.split_once('/')
        && let Ok(step) = step.parse::<u32>()
        && step > most - least + 1
    {
        let first = match range.split_once('-') {
            _ if range == "*" => Some(least.to_string()),
            Some((first, _)) => Some(first.to_owned()),
            None => None,
        };
        if let Some(first) = first {
            notes.push(format!(
                "{name}: `{item}` matches only `{first}` because the step is larger than the \
                 field; for a constant interval, use `every`"
            ));
            return first;
        }
    }
    // Somewhere in a range, drawn anew by cron at each start.
    if let Some((from, to)) = item.split_once('~') {
        let (low, high) =
            (least.to_string(), most.min(if name == "day-of-week" { 6 } else { most }).to_string());
        let from = if from.is_empty() { &low } else { from };
        let to = if to.is_empty() { &high } else { to };
        let spread = format!("H({from}-{to})");
        notes.push(format!(
            "{name}: converted `{item}` to `{spread}`, a constant value derived from the schedule \
             name"
        ));
        return spread;
    }
    item.to_owned()
}

/// Where the fields of a translated expression stand in the line.
pub(super) fn locate(
    text: &str,
    span: &Range<usize>,
    words: &[(&str, Range<usize>)],
) -> Option<Range<usize>> {
    let mut at = 0;
    for (field, (word, place)) in text.split(' ').zip(words) {
        let end = at + field.len();
        if span.start >= at && span.end <= end.max(at + 1) {
            // Within the field it is exact only if the field is as it was written.
            return Some(match field == *word {
                true => place.start + span.start - at..place.start + span.end - at,
                false => place.clone(),
            });
        }
        at = end + 1;
    }
    None
}
