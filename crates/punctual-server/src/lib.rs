//! punctual over HTTP: everything that can be asked and done, as a router to be served or nested.
//!
//! Every answer that is no success is a [`punctual_api::Problem`]. Without a token only requests
//! to this machine by its own name are answered, since a page in somebody's browser can send
//! requests to any server on their machine.

mod access;
mod ask;
mod closing;
mod dashboard;
mod fault;
mod feed;
mod headers;
mod health;
mod kinds;
mod listen;
mod operation;
mod parameters;
mod routes;
mod server;
mod status;

pub use access::Token;
pub use closing::Closing;
pub use kinds::UnknownKinds;
pub use listen::{ConnectionLimits, Routers, bind, describe_metrics, listen};
pub use operation::{Bulk, OPERATIONS, handle_operations};
pub use server::{Check, Server, openapi, starting};
