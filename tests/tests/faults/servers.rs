//! The servers that carry the logs.

use weir_tests::{KafkaBroker, PravegaServer};

/// A server that carries the logs of an installation.
pub trait LogServer: Send {
    /// Its part of the configuration.
    fn configuration(&self) -> String;
    /// Ends it as a crash does.
    fn kill(&mut self);
    /// Starts it again, with what it has on disk.
    fn restart(&mut self);
    /// Stops it where it is.
    fn pause(&mut self);
    /// Lets it go on.
    fn resume(&mut self);
}

pub struct OnKafka(pub KafkaBroker);

impl LogServer for OnKafka {
    fn configuration(&self) -> String {
        format!("[log]\nkind = \"kafka\"\n[kafka]\nbrokers = {:?}\n", self.0.address())
    }

    fn kill(&mut self) {
        self.0.kill();
    }

    fn restart(&mut self) {
        self.0.restart();
    }

    fn pause(&mut self) {
        self.0.pause();
    }

    fn resume(&mut self) {
        self.0.resume();
    }
}

pub struct OnPravega(pub PravegaServer);

impl LogServer for OnPravega {
    fn configuration(&self) -> String {
        format!("[log]\nkind = \"pravega\"\n[pravega]\ncontroller = {:?}\n", self.0.url())
    }

    fn kill(&mut self) {
        self.0.kill();
    }

    fn restart(&mut self) {
        self.0.restart();
    }

    fn pause(&mut self) {
        self.0.pause();
    }

    fn resume(&mut self) {
        self.0.resume();
    }
}
