//! Parameters that an operation does not have. To pass over one would be to answer another question
//! than was asked: a list without its filter, a change without its condition.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Query, Request};
use punctual_api::Problem;
use utoipa::openapi::path::{ParameterIn, PathItem};
use utoipa::openapi::{OpenApi, RefOr};

use crate::fault::Fault;

/// What each operation knows, by its path and method.
pub(crate) type Known = Arc<HashMap<(String, String), Vec<String>>>;

/// What the description says of every operation.
pub(crate) fn known(description: &OpenApi) -> Known {
    let of_path = |(path, item): (&String, &PathItem)| {
        let methods = [
            ("GET", &item.get),
            ("PUT", &item.put),
            ("POST", &item.post),
            ("PATCH", &item.patch),
            ("DELETE", &item.delete),
        ];
        let described = methods.into_iter().filter_map(|(method, operation)| {
            let all = operation.as_ref()?.parameters.iter().flatten();
            let asked = all.filter_map(|it| match it {
                RefOr::T(it) if it.parameter_in == ParameterIn::Query => Some(it.name.clone()),
                _ => None,
            });
            Some((method, asked.collect::<Vec<_>>()))
        });
        described
            .map(|(method, names)| ((path.clone(), method.to_owned()), names))
            .collect::<Vec<_>>()
    };
    Arc::new(description.paths.paths.iter().flat_map(of_path).collect())
}

/// Refuses who asks for something unknown. Who has no parameters at all passes at once.
pub(crate) fn check(known: &Known, request: &Request) -> Result<(), Fault> {
    if request.uri().query().is_none_or(str::is_empty) {
        return Ok(());
    }
    let Some(path) = request.extensions().get::<MatchedPath>() else { return Ok(()) };
    // The router may be nested under a path of somebody else's.
    let path = path.as_str();
    let path = path.find("/api/v1/").map_or(path, |start| &path[start..]);
    let method = match request.method().as_str() {
        "HEAD" => "GET",
        method => method,
    };
    // What is not described takes what it likes.
    let Some(names) = known.get(&(path.to_owned(), method.to_owned())) else { return Ok(()) };
    let given = Query::<Vec<(String, String)>>::try_from_uri(request.uri())
        .map_err(|rejection| Fault::unreadable("?", rejection.body_text()))?;
    match given.0.iter().find(|(name, _)| !names.contains(name)) {
        Some((name, _)) => Err(unknown(name, names, &format!("{method} {path}"))),
        None => Ok(()),
    }
}

/// What was written is repeated up to this many characters.
const ECHO_CHARS: usize = 120;

fn unknown(name: &str, names: &[String], operation: &str) -> Fault {
    let shown: String = name.chars().take(ECHO_CHARS).collect();
    let advice = match punctual_core::nearest(&shown, names.iter().map(String::as_str)) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if names.is_empty() => "this operation has no query parameters".to_owned(),
        None => format!("expected one of {}", names.join(", ")),
    };
    let detail = format!("unknown query parameter `{shown}` for {operation}; {advice}");
    let title = "Unknown query parameter";
    Problem::new(400, "unknown_parameter", title, &*detail).at(shown, detail).into()
}
