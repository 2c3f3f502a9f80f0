//! An open database: its families, and what is done to all of them.
//!
//! It is shared by threads; families may be made and dropped while others read. When it is dropped,
//! families are let go first, then the log of writes is flushed and the database closed.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int, c_uchar};
use std::path::Path;
use std::ptr::null_mut;
use std::slice;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::c_bytes::c_text;
use crate::db_borrow::DbBorrow;
use crate::family::Family;
use crate::family_handle::FamilyHandle;
use crate::objects::{DbObject, OptionsObject};
use crate::open_db::{OpenDb, WalFlush};
use crate::owned_object::OwnedObject;
use crate::rocks_error::RocksError;
use crate::rocks_library::RocksLibrary;
use crate::rocks_options::RocksOptions;
use crate::rocksdb_folder::CURRENT;
use crate::sst_writer::SstWriter;
use crate::write_batch::WriteBatch;

pub struct RocksDb {
    // The order of the fields is that in which they are destroyed: families before the database.
    families: RwLock<BTreeMap<String, Arc<FamilyHandle>>>,
    open: OpenDb,
    /// Held while a family is made or dropped, which takes a disk's time; readers go on.
    changing: Mutex<()>,
}

/// A log that was not yet flushed is read too: the argument `error_if_wal_file_exists`.
const WAL_MAY_EXIST: c_uchar = 0;

impl RocksDb {
    /// Opens the database in `folder` with all of its families, and makes it if there is none,
    /// unless it is to be read only.
    pub fn open(
        library: &Arc<RocksLibrary>,
        folder: &Path,
        options: &RocksOptions,
    ) -> Result<Self, RocksError> {
        let attempt = format!("cannot open the database in {}", folder.display());
        let fault = |error| RocksError::Io(format!("rocksdb: {attempt}: {error}"));
        let place = c_text(&attempt, folder.as_os_str().as_encoded_bytes())?;
        let read_only = options.read_only;
        let is_new = !folder.join(CURRENT).try_exists().map_err(fault)?;
        if is_new && read_only {
            return Err(RocksError::Io(format!("rocksdb: {attempt}: there is none")));
        }
        let options = options_object(library, options, &attempt)?;
        let names = if is_new {
            std::fs::create_dir_all(folder).map_err(fault)?;
            vec!["default".to_owned()]
        } else {
            stored_names(&options, &place, &attempt)?
        };
        let (db, handles) = open_object(&options, &place, &names, read_only, &attempt)?;
        let open = OpenDb::new(db, options, folder, read_only);
        let families = RwLock::new(names.into_iter().zip(handles).collect());
        Ok(RocksDb { families, open, changing: Mutex::new(()) })
    }

    pub fn family(&self, name: &str) -> Option<Family<'_>> {
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        let handle = families.get(name).map(Arc::clone)?;
        Some(Family { open: DbBorrow::new(&self.open), handle })
    }

    /// In ascending order. There is always one called "default".
    pub fn family_names(&self) -> Vec<String> {
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        families.keys().cloned().collect()
    }

    /// The one there is if it exists already.
    pub fn create_family(&self, name: &str) -> Result<Family<'_>, RocksError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(family) = self.family(name) {
            return Ok(family);
        }
        self.open.require_writable("make a family in")?;
        let attempt = self.open.attempt(&format!("make the family {name} in"));
        let text = c_text(&attempt, name.as_bytes())?;
        let (db, options) = (self.open.object.as_ptr(), self.open.options.as_ptr());
        let mut handle = null_mut();
        let create = self.open.functions().create_column_family;
        let created = self.open.library().checked(
            || attempt,
            // SAFETY: database and options live as long as `self`, the name as this call.
            |error| handle = unsafe { create(db, options, text.as_ptr(), error) },
        );
        // SAFETY: the library made it for us. Older ones make one even if they fail.
        let handle = unsafe { OwnedObject::from_raw(self.open.library(), handle) };
        created?;
        let handle = handle.expect("without an error there is a handle");
        let handle = Arc::new(FamilyHandle::new(handle));
        let mut families = self.families.write().unwrap_or_else(PoisonError::into_inner);
        families.insert(name.to_owned(), Arc::clone(&handle));
        Ok(Family { open: DbBorrow::new(&self.open), handle })
    }

    /// Deletes a family with its keys. Whoever has it can read it on; its files go when nobody has.
    pub fn drop_family(&self, name: &str) -> Result<(), RocksError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let what = format!("drop the family {name} of");
        self.open.require_writable(&what)?;
        let family = self.family(name).ok_or_else(|| {
            RocksError::invalid(&self.open.attempt(&what), "there is no such family")
        })?;
        let (db, handle) = (self.open.object.as_ptr(), family.handle.as_ptr());
        let drop_family = self.open.functions().drop_column_family;
        self.open.library().checked(
            || self.open.attempt(&what),
            // SAFETY: database and family are open as long as they are borrowed here.
            |error| unsafe { drop_family(db, handle, error) },
        )?;
        family.handle.set_dropped();
        self.families.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        Ok(())
    }

    /// An empty one.
    pub fn write_batch(&self) -> WriteBatch<'_> {
        WriteBatch::new(DbBorrow::new(&self.open))
    }

    /// Begins `file`, as the families of this database read it.
    pub fn sst_writer(&self, file: &Path) -> Result<SstWriter, RocksError> {
        SstWriter::create(&self.open, file)
    }

    /// Hands the log of writes to the system: they survive the end of this process.
    pub fn flush_wal(&self) -> Result<(), RocksError> {
        self.open.flush_wal(WalFlush::ToSystem)
    }

    /// Brings the log of writes to the disk: they survive a power cut.
    pub fn sync_wal(&self) -> Result<(), RocksError> {
        self.open.flush_wal(WalFlush::ToDisk)
    }

    /// As dropping it, with an error if the log of writes could not be flushed.
    pub fn close(self) -> Result<(), RocksError> {
        if self.open.read_only { Ok(()) } else { self.flush_wal() }
    }
}

fn options_object(
    library: &Arc<RocksLibrary>,
    options: &RocksOptions,
    attempt: &str,
) -> Result<OwnedObject<OptionsObject>, RocksError> {
    let functions = library.functions();
    let text = options.text(functions.flush_wal.is_some())?;
    let text = c_text(attempt, text.as_bytes())?;
    // SAFETY: the function makes options of databases.
    let create = || unsafe { OwnedObject::create(library, functions.options_create) };
    let (base, made) = (create(), create());
    library.checked(
        || attempt.to_owned(),
        // SAFETY: both options and the text live as long as this call.
        |error| unsafe {
            let read = functions.get_options_from_string;
            read(base.as_ptr(), text.as_ptr(), made.as_ptr(), error);
        },
    )?;
    Ok(made)
}

/// The families of the database in the folder `place`.
fn stored_names(
    options: &OwnedObject<OptionsObject>,
    place: &CStr,
    attempt: &str,
) -> Result<Vec<String>, RocksError> {
    let library = options.library();
    let functions = library.functions();
    let (mut list, mut count) = (null_mut(), 0);
    let listed = library.checked(
        || attempt.to_owned(),
        |error| {
            let list_names = functions.list_column_families;
            // SAFETY: options and place live as long as this call.
            list = unsafe { list_names(options.as_ptr(), place.as_ptr(), &raw mut count, error) };
        },
    );
    let texts = match count {
        0 => &[],
        // SAFETY: the library made a list of so many texts.
        _ => unsafe { slice::from_raw_parts(list, count) },
    };
    // SAFETY: each ends with a zero, and all are there until the list is destroyed below.
    let names = texts.iter().map(|&text| unsafe { CStr::from_ptr(text) }.to_owned());
    let names: Vec<_> = names.map(CString::into_string).collect();
    // SAFETY: the list is the library's, also if it is empty, and not used any more.
    unsafe { (functions.list_column_families_destroy)(list, count) };
    listed?;
    let names: Result<Vec<_>, _> = names.into_iter().collect();
    names.map_err(|_| RocksError::invalid(attempt, "the name of a family is not UTF-8"))
}

/// Opens the database with these families, which are all of its own; a handle for each.
fn open_object(
    options: &OwnedObject<OptionsObject>,
    place: &CStr,
    names: &[String],
    read_only: bool,
    attempt: &str,
) -> Result<(OwnedObject<DbObject>, Vec<Arc<FamilyHandle>>), RocksError> {
    let library = options.library();
    let texts = names.iter().map(|name| c_text(attempt, name.as_bytes()));
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let texts: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
    let each = vec![options.as_ptr().cast_const(); names.len()];
    let mut handles = vec![null_mut(); names.len()];
    let count = c_int::try_from(names.len()).expect("families are far fewer than 2^31");
    let mut db = null_mut();
    let open = |error| {
        let functions = library.functions();
        let (options, place, texts) = (options.as_ptr(), place.as_ptr(), texts.as_ptr());
        let (each, handles) = (each.as_ptr(), handles.as_mut_ptr());
        // SAFETY: names, options and handles are `count` each, and live as long as this call.
        db = unsafe {
            if read_only {
                let open = functions.open_for_read_only_column_families;
                open(options, place, count, texts, each, handles, WAL_MAY_EXIST, error)
            } else {
                (functions.open_column_families)(options, place, count, texts, each, handles, error)
            }
        };
    };
    library.checked(|| attempt.to_owned(), open)?;
    // SAFETY: without an error the library made it, and a handle for each name, for us.
    let db = unsafe { OwnedObject::from_raw(library, db) };
    let handles = handles.into_iter().map(|handle| {
        // SAFETY: as above.
        let handle = unsafe { OwnedObject::from_raw(library, handle) };
        let handle = handle.expect("without an error there is a handle for each family");
        Arc::new(FamilyHandle::new(handle))
    });
    Ok((db.expect("without an error there is a database"), handles.collect()))
}
