//! Days by hours, as a table of coloured cells: it is one, and reads as one.

use maud::{Markup, html};

/// A cell: the class of its colour, what it says, and where it leads.
#[derive(Clone, Default)]
pub(in crate::dashboard) struct Cell {
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) words: String,
    pub(in crate::dashboard) link: Option<String>,
}

/// A table of days by 24 hours; each row has its name.
pub(in crate::dashboard) fn cells(id: &str, caption: &str, rows: &[(String, Vec<Cell>)]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table.cells.linked[rows.iter().any(|(_, cells)| cells.iter().any(|cell| cell.link.is_some()))] id=(id) {
                caption.hidden { (caption) }
                thead { tr {
                    th scope="col" { span.hidden { "Day" } }
                    @for hour in 0..24_u8 { th scope="col" { @if hour % 3 == 0 { (format!("{hour:02}")) } @else { span.hidden { (format!("{hour:02}")) } } } }
                } }
                tbody {
                    @for (name, cells) in rows {
                        tr {
                            th scope="row" { (name) }
                            @for cell in cells {
                                td class=(cell.class) title=(cell.words) {
                                    @match &cell.link {
                                        // By keyboard there is one link to all: a stop for each cell would be a wall.
                                        Some(link) => a href=(link) tabindex="-1" { span.hidden { (cell.words) } },
                                        None => span.hidden { (cell.words) },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
