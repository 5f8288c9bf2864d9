//! The end of a process, for those who would otherwise go on for as long as they like: streams end
//! where they are, so that a browser comes back by itself, and whoever waits is answered.

use std::sync::Arc;

use futures_util::Stream;
use futures_util::StreamExt;
use tokio::sync::watch;

/// Whether the process is about to end. All clones tell the same.
#[derive(Clone, Debug, Default)]
pub struct Closing(Arc<watch::Sender<bool>>);

impl Closing {
    /// Tells everybody.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Ends when it is about to end.
    pub async fn begun(&self) {
        // The sender is ours, so that there is always one.
        let _ = self.0.subscribe().wait_for(|is_closing| *is_closing).await;
    }

    /// What a stream tells until then.
    pub(crate) fn cut<S: Stream>(&self, stream: S) -> impl Stream<Item = S::Item> + use<S> {
        let closing = self.clone();
        stream.take_until(Box::pin(async move { closing.begun().await }))
    }
}
