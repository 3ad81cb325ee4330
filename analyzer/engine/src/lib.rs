//! The engine: what is remembered of each job, and what is right for it. Pure: records go in, decisions with their reasons come
//! out; time is the time of the records.
//!
//! The way through the crate is the way of a record:
//!
//! 1. [`Shard::fold`] takes it in: repeated and damaged ones are refused, parts of a round are gathered, and whatever it says of
//!    a job is merged into the [`JobState`];
//! 2. a round becomes a `sample`, and with the one before it an `interval` of counter differences, never across an attempt;
//! 3. [`JobState::decide`] looks at the newest intervals: `window` finds two half-windows that agree on the load, `demand`
//!    what arrives, `need` what each vertex needs, `limits` what cuts that, `gates` what it waits for;
//! 4. the [`weir_schemas::decision::Decision`] carries each of these steps in its report, and `words` makes one sentence of it.

mod decide;
mod demand;
mod gain;
mod gates;
mod health;
mod interval;
mod job;
mod limits;
mod need;
mod sample;
mod shard;
mod shrink;
mod tally;
mod window;
mod words;

pub use decide::{Context, Judged};
pub use job::{InFlight, JobState};
pub use shard::{Folded, Refusal, STATE_FORMAT, Shard};
pub use tally::Tally;
