//! Settings of the PFC watchdog.

use pauseframe_schema::{choices, table};
use pauseframe_units::Span;

table! {
    /// A PFC watchdog, as SONiC's pfcwd: a queue that is paused for too long is taken out of flow control
    // Defaults as in SONiC's `pfcwd start_default`: 200 ms each, drop.
    #[source = "SONiC: pfcwd"]
    #[derive(Copy)]
    pub struct PfcWatchdogSettings as "Watchdog" {
        /// A queue paused for this long without a break, with packets waiting, is in a storm
        detection: Span = or_in(Span::from_ms(200), Span::from_us(1)..=Span::from_secs(60));
        /// What the queue does in a storm: drop its packets, send despite pauses, or wait
        action: WatchdogAction = or(WatchdogAction::Drop);
        /// The storm ends after this long without a pause frame
        restoration: Span = or_in(Span::from_ms(200), Span::from_us(1)..=Span::from_secs(60));
        /// Interval of the watchdog's checks; 0: continuous
        #[source = "SONiC: POLL_INTERVAL"]
        poll: Span = or_in(Span::ZERO, Span::ZERO..=Span::from_secs(60)) => {
            let (message, hint) = (|| format!("{poll} is longer than detection or restoration"), "shorten it");
            t.check(poll <= detection.min(restoration), "poll", message, hint);
        };
    }
    pub fn read(t);
}

choices! {
    /// Action of the watchdog during a storm
    pub enum WatchdogAction {
        /// Drops the packets of the queue and new ones
        Drop = "drop",
        /// Sends despite pauses
        Forward = "forward",
        /// The storm is counted, and the queue stays paused
        Alert = "alert",
    }
}
