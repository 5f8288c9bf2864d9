//! Keeps deadlines: of attempts, and of the node itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_store::Result;

use crate::env::Env;
use crate::service::{Report, Rest, Service};
use crate::stop::StopReason;
use crate::work::Work;

pub(crate) struct Watchdog {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) work: Arc<Work>,
    /// How long to wait before it looks again whether the node is in touch, once it is not.
    pub(crate) beat: Duration,
}

#[async_trait]
impl Service for Watchdog {
    fn name(&self) -> &'static str {
        "watchdog"
    }

    async fn run_once(&mut self) -> Result<Report> {
        let (mut acted, next) = self.work.act_on_deadlines();
        let now = self.env.elapsed();
        let trusted_for = self.work.trusted_until().saturating_sub(now);
        let look_again = if trusted_for.is_zero() {
            if self.work.held() > 0 {
                // Others may soon take these jobs: no attempt of ours may overlap with theirs.
                self.work.stop_all(StopReason::OutOfTouch);
                acted += 1;
            }
            self.beat
        } else {
            // Sleep stands still while the machine is suspended; trust does not.
            trusted_for.min(self.beat)
        };
        let wait = next.map_or(look_again, |next| next.saturating_sub(now).min(look_again));
        Ok(Report::new(acted, Rest::AtMost(wait)))
    }
}
