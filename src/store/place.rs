//! How a checkpoint is written to its place, and how one run keeps other runs away from it.
//!
//! The content is written to a temporary file beside the place, which is synced and then renamed. The
//! temporary file has a unique name and is locked while it is written. A temporary file without a lock is
//! left from a run that was killed; the next save to the same place removes it. The lock stays with the file
//! when it is renamed, and is held until the run saves again or ends, in whatever way. So if a run finds the
//! file at the place locked, or finds a file that was not there when it began and that it did not write, there
//! is, or was, another run.

use crate::error::{Error, Result, printable};
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The first bytes of a checkpoint.
pub(super) const MAGIC: [u8; 8] = *b"emmy\r\n\x1a\n";

/// One file is written at a time: threads that save to one place take turns. A thread that waits for
/// another run has no turn.
static WRITING: Mutex<()> = Mutex::new(());

/// How often, and after what time, the lock of another run is checked again.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// The most symbolic links that lead to a file.
const LINKS: usize = 40;

/// A kind of files. A file of another kind is never replaced.
#[derive(Debug)]
pub(super) struct Kind {
    name: &'static str,
    /// Whether a file of this length whose first bytes are these is of this kind.
    begins: fn(&[u8], u64) -> bool,
}

impl Kind {
    pub(super) const CHECKPOINT: Self = Self {
        name: "checkpoint",
        begins: |bytes, _| bytes.starts_with(&MAGIC),
    };

    /// The length of the header, then the header, a map in JSON.
    pub(super) const WEIGHTS: Self = Self {
        name: "file of weights",
        begins: |bytes, length| {
            let header = bytes.first_chunk().map(|&first| u64::from_le_bytes(first));
            bytes.get(8) == Some(&b'{') && header.is_some_and(|header| header <= length)
        },
    };

    /// Whether a file is of this kind, or empty.
    fn fits(&self, file: &File) -> io::Result<bool> {
        let length = file.metadata()?.len();
        let mut begin = Vec::new();
        file.take(16).read_to_end(&mut begin)?;
        Ok(begin.is_empty() || (self.begins)(&begin, length))
    }
}

/// Where a run saves, and the file that it saved last.
#[derive(Debug)]
pub(super) struct Slot {
    path: PathBuf,
    kind: Kind,
    /// The file at the place, locked; none before there is one.
    held: Option<File>,
    /// Whether nothing was at the place when the run took it, and the run has not saved since.
    was_empty: bool,
}

impl Slot {
    pub(super) fn new(path: PathBuf, kind: Kind) -> Self {
        Self {
            path,
            kind,
            held: None,
            was_empty: false,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps other runs away from the file that is there, if any, and removes the temporary files of killed
    /// runs.
    pub(super) fn take(&mut self) -> Result<()> {
        self.when_free(Self::occupy)
    }

    /// Writes the parts to the place, one after the other, all or none.
    pub(super) fn write(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.when_free(|slot| slot.write_in_turn(parts).map(|_turn| ()))
    }

    /// The same for a run that saves once: if it succeeds, its lock ends with its turn, so no other thread
    /// finds it.
    pub(super) fn write_once(mut self, parts: &[&[u8]]) -> Result<()> {
        self.when_free(|slot| {
            let _turn = slot.write_in_turn(parts)?;
            slot.held = None;
            Ok(())
        })
    }

    /// Calls f, and calls it again for a second as long as another run holds the file.
    fn when_free(&mut self, f: impl Fn(&mut Self) -> Result<(), Refusal>) -> Result<()> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            match f(self) {
                Err(Refusal::Held) => (),
                Err(Refusal::Final(error)) => return Err(error),
                Ok(()) => return Ok(()),
            }
        }
        Err(self.refused(RULE, "one that another run saves to"))
    }

    /// Takes the place, without waiting.
    fn occupy(&mut self) -> Result<(), Refusal> {
        let target = followed(&self.path).map_err(|e| Error::io(&self.path, e))?;
        let family = family(&target)?;
        // Reported now, not after the first epochs.
        fs::metadata(folder(&target)).map_err(|e| Error::io(&self.path, e))?;
        self.hold(&target)?;
        self.was_empty = cfg!(unix) && self.held.is_none();
        // If temporary files cannot be listed, they do no harm.
        let _ = clean(&target, &family);
        Ok(())
    }

    /// Writes, and returns the turn: while it lives, no other thread writes.
    fn write_in_turn(&mut self, parts: &[&[u8]]) -> Result<MutexGuard<'static, ()>, Refusal> {
        let turn = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        match self.held {
            // The temporary files of killed runs were removed when the place was taken.
            Some(_) => self.hold(&followed(&self.path).map_err(|e| Error::io(&self.path, e))?)?,
            None => self.occupy()?,
        }
        self.replace(parts).map_err(|e| Error::io(&self.path, e))?;
        Ok(turn)
    }

    fn replace(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let target = followed(&self.path)?;
        let old = fs::metadata(&target).ok();
        let family = family(&target).map_err(io::Error::other)?;
        let (temporary, mut file) = create(&target, &family, old.as_ref())?;
        let renamed = fill(&mut file, parts)
            .and_then(|()| match &old {
                Some(old) => file.set_permissions(old.permissions()),
                None => Ok(()),
            })
            .and_then(|()| fs::rename(&temporary, &target));
        if let Err(error) = renamed {
            // If this fails, nothing is lost: it is only the temporary file.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        self.held = cfg!(unix).then_some(file);
        self.was_empty = false;
        sync_folder(&target)
    }

    /// Holds the file at `target`, if there is one.
    ///
    /// # Errors
    /// If it is not a regular file or not a checkpoint, another run holds it, or it is not the file that this run
    /// left there.
    fn hold(&mut self, target: &Path) -> Result<(), Refusal> {
        let io = |e| Error::io(&self.path, e);
        let Some(found) = open(target).map_err(io)? else {
            self.held = None;
            return Ok(());
        };
        if let Some(held) = &self.held {
            let other = "another file than this run saved last, which stays as it is";
            return match is_same(held, &found).map_err(io)? {
                true => Ok(()),
                false => Err(self.refused(RULE, other).into()),
            };
        }
        if lock(&found) == Lock::Another {
            return Err(Refusal::Held);
        }
        if self.was_empty {
            let new = "a file that was not there when this run began, which stays as it is";
            return Err(self.refused(RULE, new).into());
        }
        if !self.kind.fits(&found).map_err(io)? {
            let rule = format!("no file, or a {} that may be replaced", self.kind.name);
            let other = "a file of another kind, which stays as it is";
            return Err(self.refused(&rule, other).into());
        }
        // Another run may have renamed its file to this place before the lock was had.
        match open(target).map_err(io)? {
            Some(now) if is_same(&now, &found).map_err(io)? => {
                self.held = cfg!(unix).then_some(found);
                Ok(())
            }
            _ => Err(Refusal::Held),
        }
    }

    fn refused(&self, rule: &str, found: &str) -> Error {
        let what = format!("{} {}", self.kind.name, printable(&self.path));
        Error::invalid(what, rule, found)
    }
}

/// What a file at a place must be.
const RULE: &str = "a file that no other run saves to";

/// Why a place could not be held or written.
enum Refusal {
    /// Another run holds the file, perhaps not for long.
    Held,
    /// What waiting does not change.
    Final(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// Who holds the lock of a file.
#[derive(Debug, PartialEq, Eq)]
enum Lock {
    /// It is locked by this handle now.
    Own,
    /// It is locked by another.
    Another,
    /// It is not known: the file system has no locks, or the locks of this system would keep readers away.
    Unknown,
}

fn lock(file: &File) -> Lock {
    if !cfg!(unix) {
        return Lock::Unknown;
    }
    match file.try_lock() {
        Ok(()) => Lock::Own,
        Err(TryLockError::WouldBlock) => Lock::Another,
        Err(TryLockError::Error(_)) => Lock::Unknown,
    }
}

/// The place that a path means: symbolic links are followed to their end, which need not exist.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = path.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("more than 40 symbolic links"))
}

/// The file at a place, opened so that it can be locked; refuses anything that is not a regular file.
fn open(target: &Path) -> io::Result<Option<File>> {
    match fs::metadata(target) {
        Ok(found) if !found.is_file() => return Err(io::Error::other("not a regular file")),
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        // Other errors are reported when the file is opened.
        _ => (),
    }
    // Some file systems lock only files that are open for writing.
    let opened = OpenOptions::new().read(true).write(true).open(target);
    match opened.or_else(|_| File::open(target)) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether two handles are of one file.
fn is_same(a: &File, b: &File) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (a, b) = (a.metadata()?, b.metadata()?);
        Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = (a, b);
        Ok(true)
    }
}

/// The first part of the names of the temporary files of a place: the beginning of the name of the place, so
/// that people recognise it, and a checksum of the whole name. It is short even if the name has the largest
/// possible length.
fn family(target: &Path) -> Result<String> {
    let Some(name) = target.file_name() else {
        let found = target.display().to_string();
        return Err(Error::invalid("checkpoint", "the path of a file", found));
    };
    let text = name.to_string_lossy();
    let ends = text.char_indices().map(|(start, c)| start + c.len_utf8());
    let short = &text[..ends.take_while(|&end| end <= 64).last().unwrap_or(0)];
    let checksum = crc32fast::hash(name.as_encoded_bytes());
    Ok(format!("{short}.{checksum:08x}."))
}

/// A new file beside `target`, locked, as private as the one that it will replace.
fn create(target: &Path, family: &str, old: Option<&Metadata>) -> io::Result<(PathBuf, File)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Some(old) = old {
        use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
        options.mode(old.mode() & 0o777);
    }
    let mut last = io::Error::other("no name for a temporary file");
    for _ in 0..ATTEMPTS {
        // The standard library seeds this from the operating system; no result depends on it.
        let random = RandomState::new().build_hasher().finish();
        let path = target.with_file_name(format!("{family}{random:016x}.tmp"));
        match options.open(&path) {
            // Another run that cleans up may have removed the file before it was locked.
            Ok(file) if lock(&file) != Lock::Another && path.exists() => return Ok((path, file)),
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => last = e,
            Err(e) => return Err(e),
        }
    }
    Err(last)
}

/// Removes the temporary files of a family that no run is writing.
fn clean(target: &Path, family: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder(target))? {
        let entry = entry?;
        let name = entry.file_name();
        let random = (name.to_str())
            .and_then(|name| name.strip_prefix(family))
            .and_then(|rest| rest.strip_suffix(".tmp"));
        let is_ours = random.is_some_and(|r| r.len() == 16 && u64::from_str_radix(r, 16).is_ok());
        if !is_ours || !entry.file_type()?.is_file() {
            continue;
        }
        let path = target.with_file_name(&name);
        let file = OpenOptions::new().write(true).open(&path);
        if file.is_ok_and(|file| lock(&file) == Lock::Own) {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

fn fill(file: &mut File, parts: &[&[u8]]) -> io::Result<()> {
    for part in parts {
        file.write_all(part)?;
    }
    file.sync_all()
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Makes the renaming itself durable; only Unix lets one open a folder for that.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder(path))?.sync_all()?;
    }
    Ok(())
}
