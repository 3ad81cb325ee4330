//! Which instance of a service does what.
//!
//! The instances of a service (several analyzers, say) share items of work (the partitions of a log, the clusters). Each
//! registers itself in the control database, reads who else is there, and computes the same [`assign`]ment. What makes an
//! item exclusive is not the computation but its lease: [`Holder`] takes the leases of what is assigned to it, renews them, and
//! gives up what has become another's. Whoever stalls past its lease loses it, and what it does under the old epoch is refused.
//!
//! - [`assign`]: pure; balanced, faithful to who has an item now, and to the tags that an item asks for;
//! - [`Holder`]: the leases of one instance;
//! - [`Keeper`]: renews them while a pass lasts.

mod assign;
mod holder;
mod keeper;

pub use assign::{Item, assign, cluster_tag};
pub use holder::{Holder, LEASE_MS, Member};
pub use keeper::Keeper;
