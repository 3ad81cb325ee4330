//! A file, written and synced: the least that a durable append can cost on this disk.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use weir_streams::BoxFuture;

use crate::Subject;

/// Bytes of one read.
const READ: usize = 1 << 20;

pub struct Raw {
    written: File,
    read: File,
}

impl Raw {
    pub fn new(folder: &Path) -> Self {
        let path = folder.join("raw");
        let written = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        Self { written, read: File::open(&path).unwrap() }
    }
}

impl Subject for Raw {
    fn append<'a>(&'a mut self, batch: &'a [&'a [u8]]) -> BoxFuture<'a, ()> {
        self.written.write_all(&batch.concat()).unwrap();
        self.written.sync_data().unwrap();
        Box::pin(std::future::ready(()))
    }

    fn read(&mut self) -> BoxFuture<'_, ()> {
        let mut buffer = vec![0; READ];
        while self.read.read(&mut buffer).unwrap() > 0 {}
        Box::pin(std::future::ready(()))
    }
}
