//! Addresses at which nobody answers.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// An address that refuses connections, and that nobody else gets, for as long as this lives: it is taken, and not listened on.
pub struct Unserved(TcpSocket);

impl Unserved {
    /// Takes one on this machine.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn take() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        Self(socket)
    }

    /// Where nobody answers.
    ///
    /// # Panics
    /// Never: it was taken.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }
}
