//! The results folder: created, filled and closed such that a reader never takes half a result for a whole.
//!
//! Every file is written under a temporary name in the folder, synced, and renamed. The manifest is the first
//! file to be written (`running`) and the last (`complete`, `interrupted`), so a process that is killed at any
//! moment leaves a folder that is complete or says that it is not, with whole tables only.

use super::summary::{RunStatus, Summary};
use super::{RunError, VERSION};
use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";

/// All that a results folder may hold, and all that replacing one removes.
const FILES: [&str; 13] = [
    MANIFEST,
    "scenario.resolved.toml",
    "flows.parquet",
    "queries.parquet",
    "ports.parquet",
    "links.parquet",
    "series.parquet",
    "pause_tree.parquet",
    "deadlocks.parquet",
    "packets.pcapng",
    "jobs.parquet",
    "ranks.parquet",
    "timeline.perfetto",
];

/// What `manifest.json` says.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Manifest {
    /// Always "pauseframe": tells our folders from others.
    program: &'static str,
    version: String,
    name: String,
    seed: u64,
    fingerprint: Option<String>,
    status: RunStatus,
    summary: Option<Summary>,
}

impl Manifest {
    /// Of a run that has yet to end.
    pub fn running(name: &str, seed: u64) -> Manifest {
        Manifest {
            program: "pauseframe",
            version: VERSION.into(),
            name: name.into(),
            seed,
            fingerprint: None,
            status: RunStatus::Running,
            summary: None,
        }
    }

    /// Of the run that `summary` is about.
    pub fn ended(summary: &Summary) -> Manifest {
        Manifest {
            fingerprint: Some(summary.fingerprint.clone()),
            status: summary.status,
            summary: Some(summary.clone()),
            ..Manifest::running(&summary.name, summary.seed)
        }
    }
}

/// A folder that results are being written to.
#[derive(Debug)]
pub struct ResultsFolder {
    path: PathBuf,
    /// Files in place, for messages.
    written: Vec<String>,
}

impl ResultsFolder {
    /// Creates the folder, or takes an empty one, and marks it with `manifest`. With `force` the results in
    /// it are replaced; files that are not ours stay.
    ///
    /// # Errors
    /// [`RunError::OutputExists`] and [`RunError::ForeignFolder`] before anything is changed;
    /// [`RunError::Write`] if the system refuses.
    pub fn create(path: &Path, force: bool, manifest: &impl Serialize) -> Result<ResultsFolder, RunError> {
        let mut folder = ResultsFolder { path: path.to_path_buf(), written: Vec::new() };
        fs::create_dir_all(path).map_err(|cause| folder.failure("", cause))?;
        let blank = is_blank(path).map_err(|cause| RunError::read(path, &cause))?;
        if !blank && !force {
            return Err(RunError::OutputExists { path: path.to_path_buf() });
        }
        if !blank && !has_our_manifest(path) {
            return Err(RunError::ForeignFolder { path: path.to_path_buf() });
        }
        // The mark first: the old tables are never without it.
        folder.write_manifest(manifest)?;
        for name in FILES {
            let old = (name != MANIFEST).then(|| path.join(name));
            for file in old.into_iter().chain([path.join(temporary_name(name))]) {
                remove_if_there(&file).map_err(|cause| folder.failure(name, cause))?;
            }
        }
        Ok(folder)
    }

    /// Where the folder is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a table, `name` being "flows.parquet" or the like.
    ///
    /// # Errors
    /// [`RunError::Write`], with what the folder holds then.
    pub fn write_table(&mut self, name: &str, table: &RecordBatch) -> Result<(), RunError> {
        let mut file = self.begin(name)?;
        encode(table, &mut file).map_err(|error| self.failure(name, io_error(error)))?;
        self.commit(file)
    }

    /// Writes a text file.
    ///
    /// # Errors
    /// [`RunError::Write`], with what the folder holds then.
    pub fn write_text(&mut self, name: &str, text: &str) -> Result<(), RunError> {
        self.write_bytes(name, text.as_bytes())
    }

    /// Writes a file of our own making.
    ///
    /// # Errors
    /// [`RunError::Write`], with what the folder holds then.
    pub fn write_bytes(&mut self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        let mut file = self.begin(name)?;
        file.write_all(bytes).map_err(|cause| self.failure(name, cause))?;
        self.commit(file)
    }

    /// Begins a file that is written bit by bit; it appears in the folder by [`ResultsFolder::commit`].
    ///
    /// # Errors
    /// [`RunError::Write`], with what the folder holds then.
    pub fn begin(&self, name: &str) -> Result<PendingFile, RunError> {
        assert!(FILES.contains(&name), "{name} is not a file of the results folder");
        PendingFile::create(&self.path, name).map_err(|cause| self.failure(name, cause))
    }

    /// Puts a finished file in its place.
    ///
    /// # Errors
    /// [`RunError::Write`], with what the folder holds then.
    pub fn commit(&mut self, file: PendingFile) -> Result<(), RunError> {
        let name = file.name.clone();
        file.commit().map_err(|cause| self.failure(&name, cause))?;
        self.written.push(name);
        Ok(())
    }

    /// Closes the folder: from here on it is what `manifest` says.
    ///
    /// # Errors
    /// [`RunError::Write`]; the folder then still says `running`.
    pub fn finish(mut self, manifest: &impl Serialize) -> Result<(), RunError> {
        self.write_manifest(manifest)
    }

    /// The error for a failure to write `name`.
    pub fn failure(&self, name: &str, cause: io::Error) -> RunError {
        let tables: Vec<&str> = self.written.iter().map(String::as_str).filter(|n| *n != MANIFEST).collect();
        let left = match (self.written.is_empty(), tables.is_empty()) {
            (true, _) => "Nothing has been written.".into(),
            (false, true) => "The folder is marked as running and holds no tables.".into(),
            (false, false) => {
                format!("The folder is marked as running and holds {} whole.", tables.join(", "))
            }
        };
        RunError::Write { path: self.path.join(name), cause, left }
    }

    fn write_manifest(&mut self, manifest: &impl Serialize) -> Result<(), RunError> {
        let mut json = serde_json::to_string_pretty(manifest).expect("a manifest has text keys only");
        json.push('\n');
        self.write_text(MANIFEST, &json)
    }
}

/// A file of the results that is not in place yet. Dropped before that, it leaves nothing.
#[derive(Debug)]
pub struct PendingFile {
    name: String,
    folder: PathBuf,
    file: BufWriter<File>,
    committed: bool,
}

impl PendingFile {
    fn create(folder: &Path, name: &str) -> io::Result<PendingFile> {
        let file = BufWriter::with_capacity(1 << 18, File::create(folder.join(temporary_name(name)))?);
        Ok(PendingFile { name: name.into(), folder: folder.into(), file, committed: false })
    }

    fn commit(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(self.folder.join(temporary_name(&self.name)), self.folder.join(&self.name))?;
        self.committed = true;
        sync_folder(&self.folder)
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing can be done about a second failure; the name marks the file as partial.
            let _ = fs::remove_file(self.folder.join(temporary_name(&self.name)));
        }
    }
}

fn temporary_name(name: &str) -> String {
    format!(".{name}.partial")
}

/// Whether the folder holds nothing, or only what a process left that was killed before its first file.
fn is_blank(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if !FILES.iter().any(|file| name.to_str() == Some(&temporary_name(file))) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_our_manifest(path: &Path) -> bool {
    let text = fs::read_to_string(path.join(MANIFEST)).unwrap_or_default();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    manifest["program"] == "pauseframe"
}

fn remove_if_there(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a rename in `folder` last (POSIX: a directory is synced like a file; elsewhere the system sees to it).
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn encode(table: &RecordBatch, file: &mut PendingFile) -> Result<(), ParquetError> {
    let level = ZstdLevel::try_new(3)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties))?;
    writer.write(table)?;
    writer.close().map(|_| ())
}

/// What the system said, out of what the Parquet library made of it.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
