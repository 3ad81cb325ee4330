//! A disk in memory that fails when it is told to, and knows what would be left of it after a crash.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use super::partition::locked;
use super::storage::{Access, Storage, StorageFile, length_of, memory_length};

/// A disk in memory.
#[derive(Clone, Default)]
pub(super) struct SimDisk {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    disk: Mutex<Disk>,
    opened_gate: Condvar,
}

#[derive(Default)]
struct Disk {
    files: Vec<File>,
    names: BTreeMap<PathBuf, usize>,
    /// The names that would be found after a power failure.
    durable_names: BTreeMap<PathBuf, usize>,
    locks: Vec<PathBuf>,
    faults: Faults,
    written: u64,
    syncs_waiting: usize,
}

#[derive(Clone, Default)]
struct File {
    /// What programs see.
    data: Vec<u8>,
    /// What a power failure certainly leaves.
    durable: Vec<u8>,
}

/// What goes wrong.
#[derive(Clone, Default)]
pub(super) struct Faults {
    /// The process dies when so many bytes were written: the write in which that happens is cut short, and nothing works after.
    pub crash_after_bytes: Option<u64>,
    /// So many bytes fit on the disk.
    pub capacity: Option<u64>,
    /// Making data durable fails.
    pub sync_fails: bool,
    /// Cutting a file fails.
    pub cut_fails: bool,
    /// A write takes at most so many bytes.
    pub longest_write: Option<usize>,
    /// Making data durable waits.
    pub gate_closed: bool,
}

/// What a crash leaves of writes that were not made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    /// The process alone died: all of it.
    Process,
    /// The machine went down: nothing of it.
    Power,
    /// The machine went down while the system wrote back: the first half.
    PowerHalfWritten,
    /// The machine went down while the system wrote back: all but a hole at its beginning, and zeros there.
    PowerOutOfOrder,
}

impl Crash {
    pub const ALL: [Self; 4] = [Self::Process, Self::Power, Self::PowerHalfWritten, Self::PowerOutOfOrder];

    fn remains(self, file: &File) -> Vec<u8> {
        let File { data, durable } = file;
        let common = durable.len().min(data.len());
        match self {
            Self::Process => data.clone(),
            Self::Power => durable.clone(),
            Self::PowerHalfWritten => data[..common + (data.len() - common) / 2].to_vec(),
            Self::PowerOutOfOrder => {
                let mut data = data.clone();
                let hole = ((data.len() - common) / 3).min(20);
                data[common..common + hole].fill(0);
                data
            }
        }
    }
}

impl SimDisk {
    pub fn set_faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut locked(&self.shared.disk).faults);
        self.shared.opened_gate.notify_all();
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        locked(&self.shared.disk).written
    }

    /// Waits until something waits for the gate.
    pub fn wait_for_gate(&self) {
        let mut disk = locked(&self.shared.disk);
        while disk.syncs_waiting == 0 {
            disk = self.shared.opened_gate.wait(disk).unwrap();
        }
    }

    /// What is found after a crash, on a disk without faults.
    pub fn after(&self, crash: Crash) -> Self {
        let disk = locked(&self.shared.disk);
        let left = |file: &File| {
            let data = crash.remains(file);
            // The machine still runs after a crash of the process, and has not written back more than before.
            let durable = if crash == Crash::Process { file.durable.clone() } else { data.clone() };
            File { data, durable }
        };
        let found = Disk {
            files: disk.files.iter().map(left).collect(),
            names: if crash == Crash::Process { disk.names.clone() } else { disk.durable_names.clone() },
            durable_names: disk.durable_names.clone(),
            ..Disk::default()
        };
        Self { shared: Arc::new(Shared { disk: Mutex::new(found), ..Shared::default() }) }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        let mut disk = locked(&self.shared.disk);
        if disk.faults.crash_after_bytes.is_some_and(|bytes| disk.written >= bytes) {
            return Err(io::Error::other("the process died"));
        }
        change(&mut disk)
    }
}

impl Disk {
    fn id(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// How much of a write gets through.
    fn admit(&mut self, grows_by: u64, length: usize) -> io::Result<usize> {
        let mut admitted = length.min(self.faults.longest_write.unwrap_or(usize::MAX));
        if let Some(capacity) = self.faults.capacity {
            let used: u64 = self.names.values().map(|id| length_of(self.files[*id].data.len())).sum();
            if used + grows_by > capacity {
                admitted = admitted.min(memory_length(capacity.saturating_sub(used)));
                if admitted == 0 {
                    return Err(io::ErrorKind::StorageFull.into());
                }
            }
        }
        if let Some(bytes) = self.faults.crash_after_bytes {
            admitted = admitted.min(memory_length(bytes.saturating_sub(self.written)));
        }
        self.written += length_of(admitted);
        Ok(admitted)
    }
}

struct SimFile {
    disk: SimDisk,
    id: usize,
}

impl Storage for SimDisk {
    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        self.change(|_| Ok(()))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let name = |path: &PathBuf| {
            let inside = path.strip_prefix(dir).ok()?;
            Some(inside.components().next()?.as_os_str().to_string_lossy().into_owned())
        };
        self.change(|disk| Ok(disk.names.keys().filter_map(name).collect()))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        self.change(|disk| {
            if disk.names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let id = disk.files.len();
            disk.files.push(File::default());
            disk.names.insert(path.to_owned(), id);
            Ok(Box::new(SimFile { disk: self.clone(), id }) as Box<dyn StorageFile>)
        })
    }

    fn open(&self, path: &Path, _access: Access) -> io::Result<Box<dyn StorageFile>> {
        self.change(|disk| {
            let id = disk.id(path)?;
            Ok(Box::new(SimFile { disk: self.clone(), id }) as Box<dyn StorageFile>)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|disk| {
            let id = disk.id(from)?;
            disk.names.remove(from);
            disk.names.insert(to.to_owned(), id);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|disk| disk.id(path).map(|_| disk.names.remove(path)).map(drop))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.change(|disk| {
            let inside = |path: &PathBuf| path.parent() == Some(dir);
            disk.durable_names.retain(|path, _| !inside(path));
            let now: Vec<_> =
                disk.names.iter().filter(|(path, _)| inside(path)).map(|(p, id)| (p.clone(), *id)).collect();
            disk.durable_names.extend(now);
            Ok(())
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        struct Held(SimDisk, PathBuf);
        impl Drop for Held {
            fn drop(&mut self) {
                locked(&self.0.shared.disk).locks.retain(|lock| *lock != self.1);
            }
        }
        self.change(|disk| {
            if disk.locks.iter().any(|lock| lock == path) {
                return Ok(None);
            }
            disk.locks.push(path.to_owned());
            Ok(Some(Box::new(Held(self.clone(), path.to_owned())) as Box<dyn Send + Sync>))
        })
    }
}

impl StorageFile for SimFile {
    fn length(&mut self) -> io::Result<u64> {
        self.disk.change(|disk| Ok(length_of(disk.files[self.id].data.len())))
    }

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.disk.change(|disk| {
            let data = disk.files[self.id].data.get(memory_length(offset)..).unwrap_or_default();
            let length = data.len().min(into.len());
            into[..length].copy_from_slice(&data[..length]);
            Ok(length)
        })
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.disk.change(|disk| {
            let begin = memory_length(offset);
            let grows_by = length_of((begin + bytes.len()).saturating_sub(disk.files[self.id].data.len()));
            let admitted = disk.admit(grows_by, bytes.len())?;
            let data = &mut disk.files[self.id].data;
            if data.len() < begin + admitted {
                data.resize(begin + admitted, 0);
            }
            data[begin..begin + admitted].copy_from_slice(&bytes[..admitted]);
            Ok(admitted)
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = locked(&self.disk.shared.disk);
        disk.syncs_waiting += 1;
        self.disk.shared.opened_gate.notify_all();
        while disk.faults.gate_closed {
            disk = self.disk.shared.opened_gate.wait(disk).unwrap();
        }
        disk.syncs_waiting -= 1;
        drop(disk);
        self.disk.change(|disk| {
            if disk.faults.sync_fails {
                return Err(io::Error::other("the disk is broken"));
            }
            disk.files[self.id].durable = disk.files[self.id].data.clone();
            Ok(())
        })
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        self.disk.change(|disk| {
            if disk.faults.cut_fails {
                return Err(io::Error::other("the disk is broken"));
            }
            disk.files[self.id].data.truncate(memory_length(length));
            Ok(())
        })
    }
}
