//! Creates, fills and closes the results folder such that a reader never mistakes a partial result for a
//! complete one.
//!
//! Every file is written under a temporary name in the folder, synced, and renamed. The manifest is the first
//! file (status `running`) and the last (`complete` or `interrupted`). A process that is killed at any moment
//! therefore leaves a folder that is either complete or marked as incomplete, and every table in the folder
//! is whole. Meanwhile the folder is locked, and every file is newly created, so no write follows a symbolic
//! link that another user placed in the folder.

use super::lock::{self, FolderLock};
use super::parquet_file::io_error;
use super::summary::{RunStatus, Summary};
use super::{FlowTable, RunError, VERSION, parquet_file};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use pauseframe_units::files;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";
/// Number of rows that are written between two checks for an interrupt, which takes some milliseconds.
const PART: usize = 1 << 16;

/// All file names that a results folder may hold; overwriting a folder removes these files. `pauseframe
/// report`, `view` and `export` write the last three.
const FILES: [&str; 25] = [
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
    "paths.parquet",
    "equal_links.parquet",
    "conweave.parquet",
    "tunnels.parquet",
    "deadlocks.parquet",
    "packets.pcapng",
    "jobs.parquet",
    "collectives.parquet",
    "ranks.parquet",
    "timeline.parquet",
    "kernel_sockets.parquet",
    "kernel_counters.parquet",
    "report.html",
    "view.html",
    "trace.perfetto-trace",
];

/// Folders into which `pauseframe export` writes the tables, named after the ending of the files.
const EXPORTS: [&str; 2] = ["csv", "arrow"];

/// The contents of `manifest.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Manifest {
    /// Always "pauseframe", which tells results folders of this program from other folders.
    program: &'static str,
    version: String,
    name: String,
    seed: u64,
    fingerprint: Option<String>,
    status: RunStatus,
    /// Empty for a run that uses only built-in congestion controls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    plugins: Vec<PluginRecord>,
    /// The Linux kernel of hosts: `kernel.json` of its folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<serde_json::Value>,
    summary: Option<Summary>,
}

/// A congestion control that a plug-in added to the run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PluginRecord {
    /// Name of the congestion control in scenarios, such as "mine:swift".
    pub name: String,
    /// File name of the plug-in.
    pub file: String,
    /// SHA-256 digest of the plug-in's file.
    pub sha256: String,
    /// Source text of a Python plug-in; `None` for a shared library.
    pub source: Option<String>,
}

impl Manifest {
    /// The manifest of a run that has not ended.
    pub fn running(name: &str, seed: u64) -> Manifest {
        Manifest {
            program: "pauseframe",
            version: VERSION.into(),
            name: name.into(),
            seed,
            fingerprint: None,
            status: RunStatus::Running,
            plugins: Vec::new(),
            kernel: None,
            summary: None,
        }
    }

    /// Adds the record of the kernel whose folder is given, with the digests of its source and configuration.
    #[must_use]
    pub fn with_kernel(self, folder: Option<&Path>) -> Manifest {
        let text = folder.and_then(|folder| files::read_text(&folder.join("kernel.json")).ok());
        Manifest { kernel: text.and_then(|text| serde_json::from_str(&text).ok()), ..self }
    }

    /// Adds the plug-ins of the run to the manifest.
    #[must_use]
    pub fn with_plugins(self, plugins: &[PluginRecord]) -> Manifest {
        Manifest { plugins: plugins.to_vec(), ..self }
    }

    /// The manifest of the ended run that `summary` describes.
    pub fn ended(summary: &Summary) -> Manifest {
        Manifest {
            fingerprint: Some(summary.fingerprint.clone()),
            status: summary.status,
            summary: Some(summary.clone()),
            ..Manifest::running(&summary.name, summary.seed)
        }
    }
}

/// Size and digest of a file, so that a reader detects damage before decoding.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Seal {
    bytes: u64,
    sha256: String,
}

/// A manifest with the seals of the files that it lists.
#[derive(Serialize)]
struct Sealed<'a, M> {
    #[serde(flatten)]
    manifest: &'a M,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    files: &'a BTreeMap<String, Seal>,
}

/// An open results folder that a run writes to.
#[derive(Debug)]
pub struct ResultsFolder {
    path: PathBuf,
    /// Names of the complete files, for error messages.
    written: Vec<String>,
    /// The seals of the complete files, without the manifest.
    seals: BTreeMap<String, Seal>,
    _lock: FolderLock,
}

impl ResultsFolder {
    /// Creates the folder, or opens an empty one, and writes `manifest`. With `force`, removes earlier
    /// results, their report and exported tables from the folder; files of other programs stay.
    ///
    /// # Errors
    /// [`RunError::OutputExists`], [`RunError::ForeignFolder`] and [`RunError::InUse`] before anything is
    /// changed; [`RunError::Write`] if the system reports an error.
    pub fn create(path: &Path, force: bool, manifest: &impl Serialize) -> Result<ResultsFolder, RunError> {
        fs::create_dir_all(path).map_err(|cause| failure(path, "", cause, &[]))?;
        check_free(path, force)?;
        let lock = FolderLock::take(path)?;
        // Another process may have written to the folder before this process obtained the lock.
        check_free(path, force)?;
        let mut folder = ResultsFolder {
            path: path.to_path_buf(),
            written: Vec::new(),
            seals: BTreeMap::new(),
            _lock: lock,
        };
        let temporary = path.join(temporary_name(MANIFEST));
        remove_if_there(&temporary).map_err(|cause| folder.failure(MANIFEST, cause))?;
        // The manifest comes first, so that the old tables never lack a manifest.
        folder.write_manifest(manifest)?;
        for name in FILES {
            let old = (name != MANIFEST).then(|| path.join(name));
            for file in old.into_iter().chain([path.join(temporary_name(name))]) {
                remove_if_there(&file).map_err(|cause| folder.failure(name, cause))?;
            }
        }
        for ending in EXPORTS {
            remove_exports(path, ending).map_err(|cause| folder.failure(ending, cause))?;
        }
        Ok(folder)
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a table under `name`, such as "flows.parquet". Calls `go_on` a few times a second, and stops
    /// when `go_on` returns false.
    ///
    /// # Errors
    /// [`RunError::Write`], with a list of the complete files; [`RunError::Interrupted`].
    pub fn write_table(
        &mut self,
        name: &str,
        table: &RecordBatch,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), RunError> {
        let file = self.begin_table(name, table.schema())?;
        self.fill(file, table.num_rows(), &|rows| table.slice(rows.start, rows.len()), go_on)
    }

    /// Writes the table of flows, with only a part of the table in memory at a time.
    ///
    /// # Errors
    /// The errors of [`ResultsFolder::write_table`].
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

    /// Opens a table that is written in parts. The table appears in the folder when
    /// [`ResultsFolder::commit_table`] is called.
    ///
    /// # Errors
    /// [`RunError::Write`], with a list of the complete files.
    pub fn begin_table(&self, name: &str, schema: SchemaRef) -> Result<TableWriter, RunError> {
        TableWriter::new(self.begin(name)?, schema).map_err(|cause| self.failure(name, cause))
    }

    /// Renames a finished table to its final name.
    ///
    /// # Errors
    /// [`RunError::Write`], with a list of the complete files.
    pub fn commit_table(&mut self, table: TableWriter) -> Result<(), RunError> {
        let TableWriter { name, writer } = table;
        let file = writer.into_inner().map_err(|error| self.failure(&name, io_error(error)))?;
        self.commit(file)
    }

    /// Writes a text file.
    ///
    /// # Errors
    /// [`RunError::Write`], with a list of the complete files.
    pub fn write_text(&mut self, name: &str, text: &str) -> Result<(), RunError> {
        self.write_bytes(name, text.as_bytes())
    }

    /// Writes a binary file.
    ///
    /// # Errors
    /// [`RunError::Write`], with a list of the complete files.
    pub fn write_bytes(&mut self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        let mut file = self.begin(name)?;
        file.write_all(bytes).map_err(|cause| self.failure(name, cause))?;
        self.commit(file)
    }

    /// Opens a file that is written in parts. The file appears in the folder when [`ResultsFolder::commit`]
    /// is called.
    ///
    /// # Errors
    /// [`RunError::Write`], with a list of the complete files.
    pub fn begin(&self, name: &str) -> Result<PendingFile, RunError> {
        assert!(FILES.contains(&name), "{name} is not a file of the results folder");
        PendingFile::create(&self.path, name).map_err(|cause| self.failure(name, cause))
    }

    /// Renames a finished file to its final name.
    ///
    /// # Errors
    /// [`RunError::Write`], with a list of the complete files.
    pub fn commit(&mut self, file: PendingFile) -> Result<(), RunError> {
        let name = file.name.clone();
        let seal = file.commit().map_err(|cause| self.failure(&name, cause))?;
        if name != MANIFEST {
            self.seals.insert(name.clone(), seal);
        }
        self.written.push(name);
        Ok(())
    }

    /// Closes the folder: writes the final `manifest` with the size and digest of every file.
    ///
    /// # Errors
    /// [`RunError::Write`]; the folder then remains `running`.
    pub fn finish(mut self, manifest: &impl Serialize) -> Result<(), RunError> {
        self.write_manifest(manifest)
    }

    /// The error for a failed write of the file `name`.
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

/// Removes exported tables, and their folder if it is empty then. A symbolic link is left alone.
fn remove_exports(results: &Path, ending: &str) -> io::Result<()> {
    let folder = results.join(ending);
    if !fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    for table in FILES.iter().filter_map(|name| name.strip_suffix(".parquet")) {
        remove_if_there(&folder.join(format!("{table}.{ending}")))?;
    }
    remove_if_there(&folder.join("export.json"))?;
    match fs::remove_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        done => done,
    }
}

fn failure(folder: &Path, name: &str, cause: io::Error, written: &[String]) -> RunError {
    RunError::Write { path: folder.join(name), cause, left: left(written) }
}

/// The sentence of an error message that lists the complete files of the folder.
fn left(written: &[String]) -> String {
    let tables: Vec<&str> = written.iter().map(String::as_str).filter(|name| *name != MANIFEST).collect();
    match (written.is_empty(), tables.is_empty()) {
        (true, _) => "Nothing has been written.".into(),
        (false, true) => "The run has no results; the folder holds no tables.".into(),
        (false, false) => {
            format!("The run has no results; of its tables the folder holds {} whole.", tables.join(", "))
        }
    }
}

/// A results file under its temporary name. If a `PendingFile` is dropped before it is committed, the
/// temporary file is deleted.
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
        // The lock gives this process the only right to write in the folder, so a file under the temporary
        // name does not belong there.
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
            // A second failure cannot be handled; the temporary name marks the file as partial.
            let _ = fs::remove_file(self.folder.join(temporary_name(&self.name)));
        }
    }
}

fn temporary_name(name: &str) -> String {
    format!(".{name}.partial")
}

/// Checks that results may be written to the folder.
fn check_free(path: &Path, force: bool) -> Result<(), RunError> {
    match is_blank(path).map_err(|cause| RunError::read(path, &cause))? {
        false if !has_our_manifest(path) => Err(RunError::ForeignFolder { path: path.to_path_buf() }),
        false if !force => Err(RunError::OutputExists { path: path.to_path_buf() }),
        _ => Ok(()),
    }
}

/// True if the folder is empty, or holds only the leftovers of a process that was killed before it wrote its
/// first file.
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

/// Makes a rename in `folder` durable. POSIX systems sync a directory like a file; other systems do so by
/// themselves.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// A Parquet file of the results that is open for writing.
pub struct TableWriter {
    name: String,
    writer: ArrowWriter<PendingFile>,
}

impl TableWriter {
    fn new(file: PendingFile, schema: SchemaRef) -> io::Result<TableWriter> {
        let name = file.name.clone();
        Ok(TableWriter { name, writer: parquet_file::begin(file, schema)? })
    }

    /// Appends rows to the table.
    ///
    /// # Errors
    /// The error of the system.
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
