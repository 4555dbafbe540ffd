#include "tests/support/power_cut_vfs.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace gradstream {

namespace {

constexpr size_t kSectorSize = 512;
constexpr const char* kCallNames[] = {"open",          "read",          "write_database", "write_wal",
                                      "write_journal", "sync_database", "sync_wal",       "sync_journal",
                                      "truncate",      "delete",        "shm_map",        "shm_lock"};
static_assert(std::size(kCallNames) == static_cast<size_t>(DiskCall::kCount));

struct OpenFile {
  sqlite3_file base;
  PowerCutDisk* disk;
  std::shared_ptr<PowerCutDisk::File>* file;
};

OpenFile& of(sqlite3_file* base) { return *reinterpret_cast<OpenFile*>(base); }
PowerCutDisk::File& file_of(sqlite3_file* base) { return **of(base).file; }
PowerCutDisk& disk_of(sqlite3_vfs* vfs) { return *static_cast<PowerCutDisk*>(vfs->pAppData); }

int file_close(sqlite3_file* base) {
  delete of(base).file;
  of(base).file = nullptr;
  return SQLITE_OK;
}
int file_read(sqlite3_file* base, void* out, int size, sqlite3_int64 offset) {
  if (!of(base).disk->enter(DiskCall::kRead)) {
    return SQLITE_IOERR_READ;
  }
  const std::vector<uint8_t>& bytes = file_of(base).current;
  const auto begin = std::min<uint64_t>(static_cast<uint64_t>(offset), bytes.size());
  const auto count = std::min<uint64_t>(static_cast<uint64_t>(size), bytes.size() - begin);
  std::memset(out, 0, static_cast<size_t>(size));
  if (count > 0) {
    std::copy_n(bytes.data() + begin, count, static_cast<uint8_t*>(out));
  }
  return count == static_cast<uint64_t>(size) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}
int file_write(sqlite3_file* base, const void* bytes, int size, sqlite3_int64 offset) {
  return of(base).disk->write(file_of(base), bytes, size, static_cast<uint64_t>(offset));
}
int file_truncate(sqlite3_file* base, sqlite3_int64 size) {
  return of(base).disk->truncate(file_of(base), static_cast<uint64_t>(size));
}
int file_sync(sqlite3_file* base, int) { return of(base).disk->sync(file_of(base)); }
int file_size(sqlite3_file* base, sqlite3_int64* out) {
  *out = static_cast<sqlite3_int64>(file_of(base).current.size());
  return SQLITE_OK;
}
// One connection at a time: every lock is free.
int file_lock(sqlite3_file*, int) { return SQLITE_OK; }
int file_check_lock(sqlite3_file*, int* out) {
  *out = 0;
  return SQLITE_OK;
}
int file_control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
// As SQLite's own VFS on Linux assumes.
int file_sector_size(sqlite3_file*) { return 4096; }
int file_characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }
int shm_map(sqlite3_file* base, int region, int size, int extend, void volatile** out) {
  *out = nullptr;
  if (!of(base).disk->enter(DiskCall::kShmMap)) {
    return SQLITE_IOERR_SHMMAP;
  }
  auto& regions = file_of(base).shm;
  while (extend != 0 && regions.size() <= static_cast<size_t>(region)) {
    regions.push_back(std::make_unique<uint8_t[]>(static_cast<size_t>(size)));
  }
  if (static_cast<size_t>(region) < regions.size()) {
    *out = regions[static_cast<size_t>(region)].get();
  }
  return SQLITE_OK;
}
int shm_lock(sqlite3_file* base, int, int, int) {
  return of(base).disk->enter(DiskCall::kShmLock) ? SQLITE_OK : SQLITE_IOERR_SHMLOCK;
}
void shm_barrier(sqlite3_file*) {}
int shm_unmap(sqlite3_file* base, int remove) {
  if (remove != 0) {
    file_of(base).shm.clear();
  }
  return SQLITE_OK;
}

constexpr sqlite3_io_methods kMethods = {
    2,         file_close,      file_read,    file_write,       file_truncate,        file_sync, file_size, file_lock,
    file_lock, file_check_lock, file_control, file_sector_size, file_characteristics, shm_map,   shm_lock,  shm_barrier,
    shm_unmap, nullptr,         nullptr};

int vfs_open(sqlite3_vfs* vfs, const char* path, sqlite3_file* base, int flags, int* out_flags) {
  base->pMethods = nullptr;
  PowerCutDisk& disk = disk_of(vfs);
  if (!disk.enter(DiskCall::kOpen)) {
    return SQLITE_CANTOPEN;
  }
  auto file = disk.open(path == nullptr ? "temporary" : path, flags);
  if (file == nullptr) {
    return SQLITE_CANTOPEN;
  }
  of(base).disk = &disk;
  of(base).file = new std::shared_ptr<PowerCutDisk::File>(std::move(file));
  base->pMethods = &kMethods;
  if (out_flags != nullptr) {
    *out_flags = flags;
  }
  return SQLITE_OK;
}
int vfs_delete(sqlite3_vfs* vfs, const char* path, int sync_folder) {
  return disk_of(vfs).remove(path, sync_folder != 0);
}
int vfs_access(sqlite3_vfs* vfs, const char* path, int, int* out) {
  *out = disk_of(vfs).exists(path) ? 1 : 0;
  return SQLITE_OK;
}
int vfs_full_path(sqlite3_vfs*, const char* path, int size, char* out) {
  sqlite3_snprintf(size, out, "%s", path);
  return SQLITE_OK;
}
int vfs_randomness(sqlite3_vfs*, int size, char* out) {
  sqlite3_vfs* const system = sqlite3_vfs_find(nullptr);
  return system->xRandomness(system, size, out);
}
int vfs_sleep(sqlite3_vfs*, int microseconds) { return microseconds; }
int vfs_time(sqlite3_vfs*, double* out) {
  *out = 2460000.5;
  return SQLITE_OK;
}

}  // namespace

const char* disk_call_name(DiskCall call) { return kCallNames[static_cast<size_t>(call)]; }

PowerCutDisk::PowerCutDisk(std::string name) : name_(std::move(name)) {
  vfs_.iVersion = 1;
  vfs_.szOsFile = sizeof(OpenFile);
  vfs_.mxPathname = 512;
  vfs_.zName = name_.c_str();
  vfs_.pAppData = this;
  vfs_.xOpen = vfs_open;
  vfs_.xDelete = vfs_delete;
  vfs_.xAccess = vfs_access;
  vfs_.xFullPathname = vfs_full_path;
  vfs_.xRandomness = vfs_randomness;
  vfs_.xSleep = vfs_sleep;
  vfs_.xCurrentTime = vfs_time;
  sqlite3_vfs_register(&vfs_, 0);
}

PowerCutDisk::~PowerCutDisk() { sqlite3_vfs_unregister(&vfs_); }

void PowerCutDisk::reset(uint64_t seed, uint64_t cut_at) {
  files_.clear();
  deleted_.clear();
  calls_.clear();
  random_.seed(seed);
  // Some disks lose everything that was not synchronised, some nearly nothing.
  constexpr double kChances[] = {0.0, 0.1, 0.5, 0.9, 1.0};
  keep_chance_ = kChances[random_() % std::size(kChances)];
  cut_at_ = cut_at;
  cut_ = false;
  full_ = false;
}

bool PowerCutDisk::enter(DiskCall call) {
  if (cut_) {
    return false;
  }
  calls_.push_back(call);
  if (calls_.size() == cut_at_) {
    cut();
    return false;
  }
  return true;
}

std::shared_ptr<PowerCutDisk::File> PowerCutDisk::open(const char* path, int flags) {
  const auto found = files_.find(path);
  if (found != files_.end()) {
    return found->second;
  }
  if ((flags & SQLITE_OPEN_CREATE) == 0) {
    return nullptr;
  }
  auto file = std::make_shared<File>();
  if ((flags & SQLITE_OPEN_WAL) != 0) {
    file->write_kind = DiskCall::kWriteWal;
    file->sync_kind = DiskCall::kSyncWal;
  } else if ((flags & SQLITE_OPEN_MAIN_DB) == 0) {
    file->write_kind = DiskCall::kWriteJournal;
    file->sync_kind = DiskCall::kSyncJournal;
  }
  files_[path] = file;
  return file;
}

int PowerCutDisk::write(File& file, const void* bytes, int size, uint64_t offset) {
  if (cut_) {
    return SQLITE_IOERR_WRITE;
  }
  if (full_) {
    return SQLITE_FULL;
  }
  const auto* const first = static_cast<const uint8_t*>(bytes);
  file.pending.push_back({false, offset, {first, first + size}});
  // Cut at this call: the write is among what may be torn.
  if (!enter(file.write_kind)) {
    return SQLITE_IOERR_WRITE;
  }
  const uint64_t end = offset + static_cast<uint64_t>(size);
  if (file.current.size() < end) {
    file.current.resize(end);
  }
  std::memcpy(file.current.data() + offset, bytes, static_cast<size_t>(size));
  return SQLITE_OK;
}

int PowerCutDisk::truncate(File& file, uint64_t size) {
  if (cut_) {
    return SQLITE_IOERR_TRUNCATE;
  }
  file.pending.push_back({true, size, {}});
  if (!enter(DiskCall::kTruncate)) {
    return SQLITE_IOERR_TRUNCATE;
  }
  file.current.resize(size);
  return SQLITE_OK;
}

int PowerCutDisk::sync(File& file) {
  if (!enter(file.sync_kind)) {
    return SQLITE_IOERR_FSYNC;
  }
  if (file.sync_kind == skipped_sync_) {
    return SQLITE_OK;
  }
  file.durable = file.current;
  file.pending.clear();
  if (file.write_kind != DiskCall::kWriteDatabase && !file.durable_name) {
    // SQLite on Linux synchronises the folder with the first synchronisation of a new journal or WAL.
    deleted_.clear();
    for (const auto& [path, other] : files_) {
      other->durable_name = true;
    }
    file.durable_name = true;
  }
  return SQLITE_OK;
}

int PowerCutDisk::remove(const std::string& path, bool sync_folder) {
  if (!enter(DiskCall::kDelete)) {
    return SQLITE_IOERR_DELETE;
  }
  const auto found = files_.find(path);
  if (found == files_.end()) {
    return SQLITE_IOERR_DELETE_NOENT;
  }
  if (!sync_folder) {
    deleted_[path] = found->second;
  }
  files_.erase(found);
  return SQLITE_OK;
}

bool PowerCutDisk::keep() { return std::uniform_real_distribution<double>(0, 1)(random_) < keep_chance_; }

// What is left of a file: everything synchronised, and of the rest any subset of its sectors.
void PowerCutDisk::settle(File& file) {
  std::vector<uint8_t> bytes = file.durable;
  for (const Change& change : file.pending) {
    if (change.is_truncate) {
      if (keep()) {
        bytes.resize(change.offset);
      }
      continue;
    }
    for (size_t begin = 0; begin < change.bytes.size();) {
      const uint64_t at = change.offset + begin;
      const size_t size = std::min<size_t>(change.bytes.size() - begin, kSectorSize - at % kSectorSize);
      if (keep()) {
        bytes.resize(std::max<uint64_t>(bytes.size(), at + size));
        std::memcpy(bytes.data() + at, change.bytes.data() + begin, size);
      } else {
        bytes_dropped_ += size;
      }
      begin += size;
    }
  }
  file.durable = bytes;
  file.current = std::move(bytes);
  file.pending.clear();
}

void PowerCutDisk::cut() {
  cut_ = true;
  for (const auto& [path, file] : deleted_) {
    if (files_.count(path) == 0 && keep()) {
      files_[path] = file;
    }
  }
  deleted_.clear();
  for (auto entry = files_.begin(); entry != files_.end();) {
    // The main database's folder was synchronised when the file was made (see SqliteDatabase::open).
    const bool is_database = entry->second->write_kind == DiskCall::kWriteDatabase;
    if (!is_database && !entry->second->durable_name && !keep()) {
      entry = files_.erase(entry);
      continue;
    }
    // A connection that is still open keeps its own copy: it must not see the new life of the file.
    auto left = std::make_shared<File>();
    left->durable = entry->second->durable;
    left->pending = entry->second->pending;
    left->durable_name = true;
    left->write_kind = entry->second->write_kind;
    left->sync_kind = entry->second->sync_kind;
    settle(*left);
    entry->second = std::move(left);
    ++entry;
  }
}

void PowerCutDisk::restart() {
  cut_ = false;
  cut_at_ = 0;
  for (const auto& [path, file] : files_) {
    file->shm.clear();
  }
}

size_t PowerCutDisk::size_of(const std::string& path) const { return files_.at(path)->current.size(); }

void PowerCutDisk::flip_byte(const std::string& path, size_t offset) {
  File& file = *files_.at(path);
  file.current.at(offset) ^= 0xffU;
  file.durable = file.current;
}

}  // namespace gradstream
