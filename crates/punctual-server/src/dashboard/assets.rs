//! The script and the style, under names that change with what they hold, so that a browser may keep
//! them for good.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

/// A file that pages refer to.
pub(super) struct Asset {
    pub(super) name: &'static str,
    kind: &'static str,
    text: &'static str,
}

pub(super) const SCRIPT: Asset =
    Asset { name: "app.js", kind: "text/javascript; charset=utf-8", text: include_str!("app.js") };
pub(super) const STYLE: Asset =
    Asset { name: "app.css", kind: "text/css; charset=utf-8", text: include_str!("app.css") };
pub(super) const ICON: Asset =
    Asset { name: "icon.svg", kind: "image/svg+xml", text: include_str!("icon.svg") };

const ALL: [&Asset; 3] = [&SCRIPT, &STYLE, &ICON];

/// What all of them hold, in a few characters.
static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for asset in ALL {
        hash.update(asset.text);
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
});

impl Asset {
    /// Where it is, from the root of the dashboard.
    pub(super) fn path(&self) -> String {
        format!("/ui/{}/{}", *HASH, self.name)
    }
}

/// A file; one of another version is not there any more.
pub(super) async fn serve(Path((hash, name)): Path<(String, String)>) -> Response {
    let asset = ALL.into_iter().find(|asset| asset.name == name && hash == *HASH);
    let Some(asset) = asset else {
        return (StatusCode::NOT_FOUND, "file not found; reload the page").into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, asset.text).into_response()
}
