//! The servers that carry the logs.

use weir_tests::{KafkaBroker, PravegaServer};

/// A server that carries the logs of an installation.
pub trait LogServer: Send {
    /// Its part of the configuration.
    fn configuration(&self) -> String;
    /// Ends it as a crash does.
    fn kill(&self);
    /// Starts it again, with what it has on disk.
    fn restart(&mut self);
    /// Stops it where it is.
    fn pause(&self);
    /// Lets it go on.
    fn resume(&self);
}

/// The harnesses have the same verbs; only how the configuration names them differs.
macro_rules! log_server {
    ($server:ty, $configuration:expr) => {
        impl LogServer for $server {
            fn configuration(&self) -> String {
                $configuration(self)
            }

            fn kill(&self) {
                <$server>::kill(self);
            }

            fn restart(&mut self) {
                <$server>::restart(self);
            }

            fn pause(&self) {
                <$server>::pause(self);
            }

            fn resume(&self) {
                <$server>::resume(self);
            }
        }
    };
}

log_server!(KafkaBroker, |it: &Self| { format!("[log]\nkind = \"kafka\"\n[kafka]\nbrokers = {:?}\n", it.address()) });
log_server!(PravegaServer, |it: &Self| {
    format!("[log]\nkind = \"pravega\"\n[pravega]\ncontroller = {:?}\n", it.url())
});
