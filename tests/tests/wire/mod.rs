//! Servers that answer badly, and the calls that are made to them.

pub mod calls;
pub mod raw;
pub mod rig;
pub mod tls;
