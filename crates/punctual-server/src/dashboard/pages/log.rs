//! What a job's handler has written: the newest lines on the job's page, all of them as a text.

use axum::body::Body;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, future, stream};
use maud::{Markup, html};
use punctual::{Admin, JobId, LogLevel, LogView};

use super::job::read_id;
use crate::dashboard::show::grouped;
use crate::dashboard::view::View;
use crate::fault::Fault;

/// Lines that the page shows.
const LINES: usize = 200;
/// Lines that are read at once.
const PAGE: usize = 500;
/// Pages that are looked through for lines of a level: as many lines as one attempt may write.
const PAGES: usize = 20;

/// The newest lines of a log.
pub(super) struct Newest {
    level: Option<LogLevel>,
    /// In the order in which they were written.
    lines: Vec<LogView>,
    /// Are there older ones of that level?
    has_more: bool,
    /// How many lines were looked through, if not all were.
    looked_at: Option<usize>,
}

impl Newest {
    /// Those that matter at least as much as a level.
    pub(super) async fn read(
        admin: &Admin,
        id: JobId,
        level: Option<LogLevel>,
    ) -> Result<Newest, Fault> {
        let matters = |line: &LogView| level.is_none_or(|level| line.level.code() >= level.code());
        // One more, to know whether there are any.
        let most = if level.is_none() { LINES + 1 } else { PAGE };
        let (mut lines, mut looked_at, mut before) = (Vec::new(), 0, None);
        for _ in 0..PAGES {
            let page = admin.newest_log(id, before, most).await?;
            looked_at += page.items.len();
            lines.extend(page.items.into_iter().filter(matters));
            before = page.next;
            if before.is_none() || lines.len() > LINES {
                break;
            }
        }
        let has_more = lines.len() > LINES;
        lines.truncate(LINES);
        lines.reverse();
        let looked_at = (before.is_some() && !has_more).then_some(looked_at);
        Ok(Newest { level, lines, has_more, looked_at })
    }

    pub(super) fn show(&self) -> Markup {
        html! {
            @if self.has_more { p.faint.inset { "Last " (LINES) " lines" @if self.level.is_some() { " at this level" } "." } }
            @if let Some(count) = self.looked_at { p.faint.inset { "Searched the last " (grouped(count as u64)) " lines. Download the log to see all." } }
            @if !self.lines.is_empty() { (lines(&self.lines)) }
            @else if self.level.is_none() { p.faint.inset { "No log lines." } }
            @else { p.faint.inset { "No log lines at this level." } }
        }
    }
}

/// The levels that the log can be narrowed to: each shows what matters at least as much.
pub(super) fn levels(view: &View, id: JobId, current: Option<LogLevel>) -> Markup {
    let to = |level: LogLevel| format!("{}?level={level}#log-title", view.job(id));
    html! {
        nav.switch aria-label="Log level" {
            a href={ (view.job(id)) "#log-title" } aria-current=[current.is_none().then_some("true")] { "all" }
            @for level in LogLevel::ALL.iter().copied().filter(|level| *level != LogLevel::Debug) {
                a href=(to(level)) aria-current=[(current == Some(level)).then_some("true")] { (level.as_str()) @if level != LogLevel::Error { "+" } }
            }
        }
    }
}

fn lines(lines: &[LogView]) -> Markup {
    html! {
        div.log tabindex="0" role="log" aria-label="Log" aria-live="off" data-follow {
            @for line in lines {
                div.line class=(line.level.as_str()) id={ "g-" (line.attempt) "-" (line.number) } {
                    time datetime=(line.at) data-clock { (line.at.to_jiff().strftime("%H:%M:%S").to_string()) }
                    span.level { (line.level.as_str()) }
                    span.text { (plain(&line.text)) }
                }
            }
        }
    }
}

/// What a terminal would take for colours says nothing here.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => {
                if characters.next_if_eq(&'[').is_some() {
                    while characters.next_if(|it| !('@'..='~').contains(it)).is_some() {}
                    characters.next();
                }
            }
            character if character.is_control() && character != '\t' && character != '\n' => {
                plain.push('\u{fffd}');
            }
            character => plain.push(character),
        }
    }
    plain
}

/// The whole log as a text that no browser takes for anything else. It is sent as it is read: a job of
/// many attempts has more than should be held at once. If the store fails on the way, so does the
/// download.
pub(in crate::dashboard) async fn text(
    view: View,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let (id, admin) = (read_id(&id)?, view.admin());
    let first = admin.log(id, None, PAGE).await?;
    let rest = stream::try_unfold(first.next, move |after| {
        let admin = admin.clone();
        async move {
            let Some(after) = after else { return Ok(None) };
            let page = admin.log(id, Some(after), PAGE).await?;
            Ok::<_, punctual::Error>(Some((written(&page.items), page.next)))
        }
    });
    let whole = stream::once(future::ready(Ok(written(&first.items)))).chain(rest);
    let name = format!("attachment; filename=\"job-{id}.txt\"");
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((headers, Body::from_stream(whole)).into_response())
}

fn written(lines: &[LogView]) -> String {
    let line = |line: &LogView| {
        format!("{} {} {} {}\n", line.at, line.attempt, line.level.as_str(), plain(&line.text))
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_for_terminals_are_left_out() {
        assert_eq!(plain("\u{1b}[31mred\u{1b}[0m\ttab\u{7}"), "red\ttab\u{fffd}");
    }
}
