//! Lists that may be longer than a page.

use std::io::{self, Write};

use clap::builder::RangedU64ValueParser;
use punctual_api::List;
use serde::de::DeserializeOwned;

use crate::exit::Failure;
use crate::output::FAINT;
use crate::target::{Client, part};

/// The most that a server puts on a page.
const PAGE: usize = 500;

/// The rows of a list up to so many, with where it goes on if there are more.
pub(crate) fn read<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    most: usize,
) -> Result<List<T>, Failure> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let mut list = List::<T>::whole(Vec::new());
    loop {
        let limit = (most - list.items.len()).min(PAGE);
        let cursor = list.next_cursor.as_deref().map(|it| format!("&cursor={}", part(it)));
        let cursor = cursor.unwrap_or_default();
        let page: List<T> = client.get(&format!("{path}{separator}limit={limit}{cursor}"))?;
        list.items.extend(page.items);
        list.next_cursor = page.next_cursor;
        if list.next_cursor.is_none() || list.items.len() >= most {
            return Ok(list);
        }
    }
}

/// How many rows somebody may ask for: as many as they like, from one on.
pub(crate) fn some() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// Says that a list is longer than what is shown of it.
pub(crate) fn say_more<T>(out: &mut impl Write, list: &List<T>) -> io::Result<()> {
    match list.next_cursor {
        Some(_) => writeln!(out, "{FAINT}More results are available; raise --limit{FAINT:#}"),
        None => Ok(()),
    }
}
