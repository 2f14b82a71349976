//! The results folder: created, filled and closed such that a reader never takes half a result for a whole.
//!
//! Every file is written under a temporary name in the folder, synced, and renamed. The manifest is the first
//! file to be written (`running`) and the last (`complete`, `interrupted`), so a process that is killed at any
//! moment leaves a folder that is complete or says that it is not, with whole tables only. Meanwhile the folder is
//! locked, and every file in it is made anew: nothing is written through a link that somebody has put there.

use super::lock::{self, FolderLock};
use super::parquet_file::io_error;
use super::summary::{RunStatus, Summary};
use super::{FlowTable, RunError, VERSION, parquet_file};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use pauseframe_topology::files;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";
/// Rows between two looks at whether to go on: some milliseconds.
const PART: usize = 1 << 16;

/// All that a results folder may hold, and all that replacing one removes. `pauseframe report`, `view` and `export` write
/// the last three.
const FILES: [&str; 18] = [
    MANIFEST,
    "scenario.resolved.toml",
    "flows.parquet",
    "queries.parquet",
    "ports.parquet",
    "links.parquet",
    "series.parquet",
    "throughput.parquet",
    "pause_tree.parquet",
    "states.parquet",
    "deadlocks.parquet",
    "packets.pcapng",
    "jobs.parquet",
    "ranks.parquet",
    "timeline.parquet",
    "report.html",
    "view.html",
    "trace.perfetto-trace",
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
    /// None for a run with built-in congestion controls only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    plugins: Vec<PluginRecord>,
    summary: Option<Summary>,
}

/// A congestion control that was loaded for a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PluginRecord {
    /// As scenarios name it: "mine:swift".
    pub name: String,
    /// The name of its file.
    pub file: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// The text of a Python file; `None` for a shared library.
    pub source: Option<String>,
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
            plugins: Vec::new(),
            summary: None,
        }
    }

    /// The same, with the plug-ins of the run.
    #[must_use]
    pub fn with_plugins(self, plugins: &[PluginRecord]) -> Manifest {
        Manifest { plugins: plugins.to_vec(), ..self }
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

/// Size and digest of a file, so that a reader notices damage before it decodes anything.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Seal {
    bytes: u64,
    sha256: String,
}

/// A manifest and the seals of the files that it is about.
#[derive(Serialize)]
struct Sealed<'a, M> {
    #[serde(flatten)]
    manifest: &'a M,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    files: &'a BTreeMap<String, Seal>,
}

/// A folder that results are being written to.
#[derive(Debug)]
pub struct ResultsFolder {
    path: PathBuf,
    /// Files in place, for messages.
    written: Vec<String>,
    /// The same without the manifest, with what the manifest says of each.
    seals: BTreeMap<String, Seal>,
    _lock: FolderLock,
}

impl ResultsFolder {
    /// Creates the folder, or takes an empty one, and marks it with `manifest`. With `force` the results in
    /// it are replaced, a report about them included; files that are not ours stay.
    ///
    /// # Errors
    /// [`RunError::OutputExists`], [`RunError::ForeignFolder`] and [`RunError::InUse`] before anything is changed;
    /// [`RunError::Write`] if the system refuses.
    pub fn create(path: &Path, force: bool, manifest: &impl Serialize) -> Result<ResultsFolder, RunError> {
        fs::create_dir_all(path).map_err(|cause| failure(path, "", cause, &[]))?;
        check_free(path, force)?;
        let lock = FolderLock::take(path)?;
        // Another process may have been at work until the lock was ours.
        check_free(path, force)?;
        let mut folder = ResultsFolder {
            path: path.to_path_buf(),
            written: Vec::new(),
            seals: BTreeMap::new(),
            _lock: lock,
        };
        let temporary = path.join(temporary_name(MANIFEST));
        remove_if_there(&temporary).map_err(|cause| folder.failure(MANIFEST, cause))?;
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

    /// Writes a table, `name` being "flows.parquet" or the like. `go_on` is asked a few times a second.
    ///
    /// # Errors
    /// [`RunError::Write`], with what the folder holds then; [`RunError::Interrupted`].
    pub fn write_table(
        &mut self,
        name: &str,
        table: &RecordBatch,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), RunError> {
        let file = self.begin_table(name, table.schema())?;
        self.fill(file, table.num_rows(), &|rows| table.slice(rows.start, rows.len()), go_on)
    }

    /// Writes the table of flows, of which only a part is in memory at a time.
    ///
    /// # Errors
    /// As [`ResultsFolder::write_table`].
    pub fn write_flows(
        &mut self,
        flows: &FlowTable,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), RunError> {
        let file = self.begin_table("flows.parquet", flows.part(0..0).schema())?;
        self.fill(file, flows.num_rows(), &|rows| flows.part(rows), go_on)
    }

    fn fill(
        &mut self,
        mut file: TableWriter,
        rows: usize,
        part: &dyn Fn(Range<usize>) -> RecordBatch,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), RunError> {
        for begin in (0..rows).step_by(PART) {
            if !go_on() {
                return Err(RunError::Interrupted { left: left(&self.written) });
            }
            let part = part(begin..rows.min(begin + PART));
            file.write(&part).map_err(|cause| self.failure(&file.name, cause))?;
        }
        self.commit_table(file)
    }

    /// Begins a table that is written in parts; it appears in the folder by [`ResultsFolder::commit_table`].
    ///
    /// # Errors
    /// [`RunError::Write`], with what the folder holds then.
    pub fn begin_table(&self, name: &str, schema: SchemaRef) -> Result<TableWriter, RunError> {
        TableWriter::new(self.begin(name)?, schema).map_err(|cause| self.failure(name, cause))
    }

    /// Puts a finished table in its place.
    ///
    /// # Errors
    /// [`RunError::Write`], with what the folder holds then.
    pub fn commit_table(&mut self, table: TableWriter) -> Result<(), RunError> {
        let TableWriter { name, writer } = table;
        let file = writer.into_inner().map_err(|error| self.failure(&name, io_error(error)))?;
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
        let seal = file.commit().map_err(|cause| self.failure(&name, cause))?;
        if name != MANIFEST {
            self.seals.insert(name.clone(), seal);
        }
        self.written.push(name);
        Ok(())
    }

    /// Closes the folder: from here on it is what `manifest` says, with the size and digest of every file.
    ///
    /// # Errors
    /// [`RunError::Write`]; the folder then still says `running`.
    pub fn finish(mut self, manifest: &impl Serialize) -> Result<(), RunError> {
        self.write_manifest(manifest)
    }

    /// The error for a failure to write `name`.
    pub fn failure(&self, name: &str, cause: io::Error) -> RunError {
        failure(&self.path, name, cause, &self.written)
    }

    fn write_manifest(&mut self, manifest: &impl Serialize) -> Result<(), RunError> {
        let sealed = Sealed { manifest, files: &self.seals };
        let mut json = serde_json::to_string_pretty(&sealed).expect("a manifest has text keys only");
        json.push('\n');
        self.write_text(MANIFEST, &json)
    }
}

fn failure(folder: &Path, name: &str, cause: io::Error, written: &[String]) -> RunError {
    RunError::Write { path: folder.join(name), cause, left: left(written) }
}

/// What a folder with these files holds.
fn left(written: &[String]) -> String {
    let tables: Vec<&str> = written.iter().map(String::as_str).filter(|name| *name != MANIFEST).collect();
    match (written.is_empty(), tables.is_empty()) {
        (true, _) => "Nothing has been written.".into(),
        (false, true) => "The folder is marked as running and holds no tables.".into(),
        (false, false) => format!("The folder is marked as running and holds {} whole.", tables.join(", ")),
    }
}

/// A file of the results that is not in place yet. Dropped before that, it leaves nothing.
#[derive(Debug)]
pub struct PendingFile {
    name: String,
    folder: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    digest: Sha256,
    committed: bool,
}

impl PendingFile {
    fn create(folder: &Path, name: &str) -> io::Result<PendingFile> {
        let path = folder.join(temporary_name(name));
        // The folder is ours alone: what is there was put there by nobody who should.
        remove_if_there(&path)?;
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let file = BufWriter::with_capacity(1 << 18, file);
        let (name, folder) = (name.into(), folder.into());
        Ok(PendingFile { name, folder, file, bytes: 0, digest: Sha256::new(), committed: false })
    }

    fn commit(mut self) -> io::Result<Seal> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(self.folder.join(temporary_name(&self.name)), self.folder.join(&self.name))?;
        self.committed = true;
        sync_folder(&self.folder)?;
        let mut sha256 = String::new();
        for byte in self.digest.finalize_reset() {
            write!(sha256, "{byte:02x}").map_err(io::Error::other)?;
        }
        Ok(Seal { bytes: self.bytes, sha256 })
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.digest.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
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

/// Whether results may be written here.
fn check_free(path: &Path, force: bool) -> Result<(), RunError> {
    match is_blank(path).map_err(|cause| RunError::read(path, &cause))? {
        false if !force => Err(RunError::OutputExists { path: path.to_path_buf() }),
        false if !has_our_manifest(path) => Err(RunError::ForeignFolder { path: path.to_path_buf() }),
        _ => Ok(()),
    }
}

/// Whether the folder holds nothing, or only what a process left that was killed before its first file.
fn is_blank(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let is_leftover = |file: &str| name.to_str() == Some(&temporary_name(file));
        if name.to_str() != Some(lock::NAME) && !FILES.iter().copied().any(is_leftover) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_our_manifest(path: &Path) -> bool {
    let text = files::read_text(&path.join(MANIFEST)).unwrap_or_default();
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

/// A Parquet file of the results that is being written.
pub struct TableWriter {
    name: String,
    writer: ArrowWriter<PendingFile>,
}

impl TableWriter {
    fn new(file: PendingFile, schema: SchemaRef) -> io::Result<TableWriter> {
        let name = file.name.clone();
        Ok(TableWriter { name, writer: parquet_file::begin(file, schema)? })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&mut self, rows: &RecordBatch) -> io::Result<()> {
        self.writer.write(rows).map_err(io_error)
    }
}

impl fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableWriter").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
