//! Access control lists of a Kafka broker. The client has no call for them, so they are put on the wire here.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What somebody may do with a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KafkaRight {
    /// Read records.
    Read = 3,
    /// Append records.
    Write = 4,
    /// Make it.
    Create = 5,
    /// See its settings.
    DescribeConfigs = 10,
    /// See and change its settings.
    AlterConfigs = 11,
}

/// Kinds of request, in a version that both know.
const CREATE: i16 = 30;
const DELETE: i16 = 31;
const VERSION: i16 = 1;
/// Numbers of the protocol.
const ANY: u8 = 1;
const TOPIC: u8 = 2;
const PREFIXED: u8 = 4;
const ALLOW: u8 = 3;

/// Gives a user exactly these rights on topics with a prefix.
pub(crate) fn set(broker: &str, user: &str, prefix: &str, rights: &[KafkaRight]) -> io::Result<()> {
    let mut connection = TcpStream::connect(broker)?;
    connection.set_read_timeout(Some(Duration::from_secs(60)))?;
    let principal = format!("User:{user}");
    let filter = [&[TOPIC][..], &text(prefix), &[PREFIXED], &text(&principal), &text("*"), &[ANY, ANY]].concat();
    ask(&mut connection, DELETE, &[filter])?;
    let entry = |right: &KafkaRight| {
        [&[TOPIC][..], &text(prefix), &[PREFIXED], &text(&principal), &text("*"), &[*right as u8, ALLOW]].concat()
    };
    ask(&mut connection, CREATE, &rights.iter().map(entry).collect::<Vec<_>>())
}

/// Sends a request with these entries, and checks each one's answer up to the first that is none.
fn ask(connection: &mut TcpStream, kind: i16, entries: &[Vec<u8>]) -> io::Result<()> {
    let count = i32::try_from(entries.len()).expect("few entries");
    let head = [&kind.to_be_bytes()[..], &VERSION.to_be_bytes(), &0_i32.to_be_bytes(), &text("tests")].concat();
    let request = [&head[..], &count.to_be_bytes(), &entries.concat()].concat();
    connection.write_all(&i32::try_from(request.len()).expect("a short request").to_be_bytes())?;
    connection.write_all(&request)?;
    let mut length = [0; 4];
    connection.read_exact(&mut length)?;
    let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("a length")];
    connection.read_exact(&mut answer)?;
    // After the number of the request, a delay and the number of entries come their codes.
    match answer.get(12..14) {
        None | Some([0, 0]) => Ok(()),
        Some(code) => Err(io::Error::other(format!("the broker answers with code {code:?}: {answer:?}"))),
    }
}

fn text(text: &str) -> Vec<u8> {
    [&i16::try_from(text.len()).expect("a short text").to_be_bytes()[..], text.as_bytes()].concat()
}
