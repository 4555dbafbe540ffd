// A disk in memory whose power can be cut: an SQLite VFS that keeps what was written but not synchronised apart, and at
// a cut keeps any subset of it, sector by sector. What was synchronised always stays.
//
// A cut is planned as "at call number n"; from then on every call fails until restart(), which leaves what a machine
// would find after the power came back. Calls are counted by kind, so that a test can cut at each kind of call.
#ifndef GRADSTREAM_TESTS_SUPPORT_POWER_CUT_VFS_H_
#define GRADSTREAM_TESTS_SUPPORT_POWER_CUT_VFS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <sqlite3.h>

namespace gradstream {

enum class DiskCall : uint8_t {
  kOpen,
  kRead,
  kWriteDatabase,
  kWriteWal,
  kWriteJournal,
  kSyncDatabase,
  kSyncWal,
  kSyncJournal,
  kTruncate,
  kDelete,
  kShmMap,
  kShmLock,
  kCount,
};
const char* disk_call_name(DiskCall call);

class PowerCutDisk {
 public:
  // Registers the VFS under `name`; unregisters it at the end.
  explicit PowerCutDisk(std::string name);
  ~PowerCutDisk();
  PowerCutDisk(const PowerCutDisk&) = delete;
  PowerCutDisk& operator=(const PowerCutDisk&) = delete;
  const char* name() const { return name_.c_str(); }

  // An empty disk that will be cut at call number cut_at (from 1; 0: never).
  void reset(uint64_t seed, uint64_t cut_at);
  // The power is back: files are what the cut left (or, without a cut, what is there).
  void restart();
  bool is_cut() const { return cut_; }
  // Every write fails as on a full disk.
  void set_full(bool full) { full_ = full; }
  // A disk that lies: syncs of this kind are acknowledged and not made, through every reset(). kCount: none.
  void skip_syncs(DiskCall kind) { skipped_sync_ = kind; }
  // Bytes of a file.
  size_t size_of(const std::string& path) const;
  // Damages a byte of a file, durably.
  void flip_byte(const std::string& path, size_t offset);
  // Kinds of all calls since reset(), in order.
  const std::vector<DiskCall>& calls() const { return calls_; }
  uint64_t bytes_dropped() const { return bytes_dropped_; }

  // For the VFS's own functions.
  struct Change {
    bool is_truncate = false;
    uint64_t offset = 0;  // of the write; the new size of a truncate
    std::vector<uint8_t> bytes;
  };
  struct File {
    std::vector<uint8_t> current;
    std::vector<uint8_t> durable;
    std::vector<Change> pending;
    bool durable_name = false;
    DiskCall write_kind = DiskCall::kWriteDatabase;
    DiskCall sync_kind = DiskCall::kSyncDatabase;
    std::vector<std::unique_ptr<uint8_t[]>> shm;
  };
  // False: the power is (now) off.
  bool enter(DiskCall call);
  std::shared_ptr<File> open(const char* path, int flags);
  int write(File& file, const void* bytes, int size, uint64_t offset);
  int truncate(File& file, uint64_t size);
  int sync(File& file);
  int remove(const std::string& path, bool sync_folder);
  bool exists(const std::string& path) const { return files_.count(path) != 0; }

 private:
  void cut();
  void settle(File& file);
  bool keep();

  const std::string name_;
  sqlite3_vfs vfs_ = {};
  std::map<std::string, std::shared_ptr<File>> files_;
  std::map<std::string, std::shared_ptr<File>> deleted_;  // not yet durably so
  std::vector<DiskCall> calls_;
  std::mt19937_64 random_;
  double keep_chance_ = 0;
  uint64_t cut_at_ = 0;
  uint64_t bytes_dropped_ = 0;
  bool cut_ = false;
  bool full_ = false;
  DiskCall skipped_sync_ = DiskCall::kCount;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_POWER_CUT_VFS_H_
