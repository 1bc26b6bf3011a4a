#include "store/faulty_disk.h"

#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include <sqlite3.h>

namespace dtune::test {
namespace {

FaultyDisk* disk = nullptr;
sqlite3_vfs* system_files = nullptr;

// What SQLite allocates for a file: this, then the system's own part.
struct OpenFile {
  sqlite3_file base;
  std::string* name;
  bool new_entry;  // the first sync has to sync the folder as well

  sqlite3_file* below() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

OpenFile* file_of(sqlite3_file* file) {
  return reinterpret_cast<OpenFile*>(file);
}
sqlite3_file* below(sqlite3_file* file) { return file_of(file)->below(); }

std::string name_of(const char* path) {
  return std::filesystem::path(path).filename().string();
}

int close_file(sqlite3_file* file) {
  delete file_of(file)->name;
  return below(file)->pMethods->xClose(below(file));
}

int read_file(sqlite3_file* file, void* bytes, int size, sqlite3_int64 at) {
  return below(file)->pMethods->xRead(below(file), bytes, size, at);
}

int write_file(sqlite3_file* file, const void* bytes, int size,
               sqlite3_int64 at) {
  const std::string all(static_cast<const char*>(bytes),
                        static_cast<size_t>(size));
  const auto write = [&](int part) {
    return below(file)->pMethods->xWrite(below(file), bytes, part, at);
  };
  const int code =
      disk->note({DiskAction::write, *file_of(file)->name, at, all});
  if (code == SQLITE_OK) return write(size);
  if (disk->tears()) write(size / 2);
  return code;
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  const int code =
      disk->note({DiskAction::truncate, *file_of(file)->name, size, {}});
  if (code != SQLITE_OK) return code;
  return below(file)->pMethods->xTruncate(below(file), size);
}

// Nothing is synced in earnest: the power that is lost here is not real.
int sync_file(sqlite3_file* file, int) {
  const int code = disk->note({DiskAction::sync, *file_of(file)->name, 0, {}});
  if (code != SQLITE_OK) return code;
  if (std::exchange(file_of(file)->new_entry, false)) {
    return disk->note({DiskAction::sync_folder, {}, 0, {}});
  }
  return SQLITE_OK;
}

int size_of_file(sqlite3_file* file, sqlite3_int64* size) {
  return below(file)->pMethods->xFileSize(below(file), size);
}
int lock_file(sqlite3_file* file, int level) {
  return below(file)->pMethods->xLock(below(file), level);
}
int unlock_file(sqlite3_file* file, int level) {
  return below(file)->pMethods->xUnlock(below(file), level);
}
int check_reserved(sqlite3_file* file, int* out) {
  return below(file)->pMethods->xCheckReservedLock(below(file), out);
}
int control_file(sqlite3_file* file, int what, void* argument) {
  return below(file)->pMethods->xFileControl(below(file), what, argument);
}
int sector_size(sqlite3_file* file) {
  return below(file)->pMethods->xSectorSize(below(file));
}
int device_characteristics(sqlite3_file* file) {
  return below(file)->pMethods->xDeviceCharacteristics(below(file));
}
int shm_map(sqlite3_file* file, int page, int size, int extend,
            void volatile** out) {
  return below(file)->pMethods->xShmMap(below(file), page, size, extend, out);
}
int shm_lock(sqlite3_file* file, int offset, int count, int flags) {
  return below(file)->pMethods->xShmLock(below(file), offset, count, flags);
}
void shm_barrier(sqlite3_file* file) {
  below(file)->pMethods->xShmBarrier(below(file));
}
int shm_unmap(sqlite3_file* file, int remove) {
  return below(file)->pMethods->xShmUnmap(below(file), remove);
}

constexpr sqlite3_io_methods kMethods = {2,
                                         close_file,
                                         read_file,
                                         write_file,
                                         truncate_file,
                                         sync_file,
                                         size_of_file,
                                         lock_file,
                                         unlock_file,
                                         check_reserved,
                                         control_file,
                                         sector_size,
                                         device_characteristics,
                                         shm_map,
                                         shm_lock,
                                         shm_barrier,
                                         shm_unmap,
                                         nullptr,
                                         nullptr};

bool is_there(const char* path) {
  int found = 0;
  system_files->xAccess(system_files, path, SQLITE_ACCESS_EXISTS, &found);
  return found != 0;
}

int open_file(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags,
              int* out_flags) {
  std::memset(static_cast<void*>(file), 0, sizeof(sqlite3_file));
  const bool temporary = path == nullptr;
  const bool made =
      !temporary && (flags & SQLITE_OPEN_CREATE) != 0 && !is_there(path);
  if (made) {
    const int code = disk->note({DiskAction::create, name_of(path), 0, {}});
    if (code != SQLITE_OK) return code;
  }
  sqlite3_file* const inner = below(file);
  const int code =
      system_files->xOpen(system_files, path, inner, flags, out_flags);
  if (code != SQLITE_OK) return code;
  auto* const opened = file_of(file);
  opened->name = new std::string(temporary ? "" : name_of(path));
  constexpr int kJournals =
      SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
  opened->new_entry = made && (flags & kJournals) != 0;
  opened->base.pMethods = &kMethods;
  return SQLITE_OK;
}

int delete_file(sqlite3_vfs*, const char* path, int sync_folder) {
  if (!is_there(path)) {
    return system_files->xDelete(system_files, path, 0);
  }
  int code = disk->note({DiskAction::remove, name_of(path), 0, {}});
  if (code != SQLITE_OK) return code;
  code = system_files->xDelete(system_files, path, 0);
  if (code != SQLITE_OK || sync_folder == 0) return code;
  return disk->note({DiskAction::sync_folder, {}, 0, {}});
}

sqlite3_vfs* make_vfs() {
  static sqlite3_vfs vfs = *system_files;  // the other calls go there
  vfs.zName = "faulty disk";
  vfs.pNext = nullptr;
  vfs.szOsFile = static_cast<int>(sizeof(OpenFile)) + system_files->szOsFile;
  vfs.xOpen = open_file;
  vfs.xDelete = delete_file;
  return &vfs;
}

}  // namespace

FaultyDisk::FaultyDisk() {
  disk = this;
  system_files = sqlite3_vfs_find(nullptr);
  sqlite3_vfs_register(make_vfs(), /*makeDflt=*/1);
}

FaultyDisk::~FaultyDisk() {
  sqlite3_vfs_register(system_files, 1);
  sqlite3_vfs_unregister(sqlite3_vfs_find("faulty disk"));
  disk = nullptr;
}

void FaultyDisk::set_fault(std::optional<DiskFault> fault) {
  const std::lock_guard lock(mutex_);
  fault_ = fault;
  met_ = 0;
}

int64_t FaultyDisk::met() const {
  const std::lock_guard lock(mutex_);
  return met_;
}

size_t FaultyDisk::now() const {
  const std::lock_guard lock(mutex_);
  return calls_.size();
}

std::vector<DiskCall> FaultyDisk::take_notes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(calls_, {});
}

void FaultyDisk::stop_noting() {
  const std::lock_guard lock(mutex_);
  noting_ = false;
}

int FaultyDisk::note(DiskCall call) {
  const std::lock_guard lock(mutex_);
  if (call.file.empty() && call.action != DiskAction::sync_folder) {
    return SQLITE_OK;  // a temporary file
  }
  int code = SQLITE_OK;
  if (fault_ && fault_->action == call.action) {
    const int64_t number = met_++;
    if (number >= fault_->first && number < fault_->first + fault_->count) {
      code = fault_->code;
      call.failed = true;
      if (fault_->torn) call.bytes.resize(call.bytes.size() / 2);
    }
  }
  const bool done = !call.failed || call.action == DiskAction::sync ||
                    (call.action == DiskAction::write && fault_->torn);
  if (noting_ && done) calls_.push_back(std::move(call));
  return code;
}

bool FaultyDisk::tears() const {
  const std::lock_guard lock(mutex_);
  return fault_ && fault_->torn;
}

}  // namespace dtune::test
