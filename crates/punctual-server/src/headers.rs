//! Headers of every response.

use axum::http::{HeaderName, HeaderValue, Response, header};
use tower::util::MapResponseLayer;

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// Adds the headers: browsers neither guess the type of a response nor pass it to pages of other
/// origins, and it is not stored, unless the handler has set `Cache-Control`.
pub(crate) fn layer<B>() -> MapResponseLayer<fn(Response<B>) -> Response<B>> {
    MapResponseLayer::new(protect::<B> as fn(Response<B>) -> Response<B>)
}

/// Adds the headers to a response.
pub(crate) fn protect<B>(mut response: Response<B>) -> Response<B> {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
