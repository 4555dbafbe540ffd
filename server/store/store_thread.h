// The thread that waits for the disk, so that the io_context never does.
//
//   io_context thread: append(record) ... append(record)          on_persisted(last sequence of the batch)
//   store thread:               [ one transaction per batch ] ----^
//
// A batch closes at batch_count_max records, or delay_ms after its first one. The thread is woken for the first record,
// for the one that fills a batch and for a job, and sleeps through all others. A batch that fails is kept and tried
// again every retry_ms, with the records that came since behind it. So no appended record is dropped while the process
// lives. Reports are posted to the io_context.
#ifndef GRADSTREAM_SERVER_STORE_STORE_THREAD_H_
#define GRADSTREAM_SERVER_STORE_STORE_THREAD_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/base/asio_alias.h"
#include "server/base/recycled_queue.h"
#include "server/journal/store.h"

namespace gradstream {

// Items whose memory is kept for the next ones. Reason: a batch of 64 records, in 32 KB.
inline constexpr size_t kSpareItemCountMax = 64;

struct StoreThreadLimits {
  uint32_t batch_count_max = 64;
  uint32_t delay_ms = 2;
  uint32_t retry_ms = 1000;
};

class StoreThread {
 public:
  struct Reports {
    // Of the last record of a batch. chain: with it; its sequence is 0 where the store has none.
    std::function<void(uint64_t sequence, const ChainHead& chain)> on_persisted;
    std::function<void(StoreStatus status)> on_failed;  // once, at the first failure of a series
    std::function<void()> on_recovered;                 // before the on_persisted that ends the series
  };
  // The store is used by this thread alone from here to the end of stop(). Everything must outlive it.
  StoreThread(asio::io_context& io, Store& store, const StoreThreadLimits& limits, Reports reports);
  ~StoreThread();
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;

  void append(JournalRecord record);
  // Runs a job on this thread once everything appended before it is durable: exports, the run's state.
  void run_after(std::function<void()> job);
  // Stores what is left, tries a failing store once more, and joins. True if nothing was left behind.
  bool stop();

 private:
  struct Item {
    JournalRecord record;
    std::function<void()> job;  // set: a job, not a record
  };

  void loop();
  // Waits for the next batch (empty: the next item is a job, or the end has come).
  std::vector<JournalRecord> wait_for_batch(std::unique_lock<std::mutex>& lock);
  bool store_batch(const std::vector<JournalRecord>& batch);

  asio::io_context& io_;
  Store& store_;
  const StoreThreadLimits limits_;
  const Reports reports_;
  std::mutex mutex_;
  std::condition_variable changed_;
  RecycledQueue<Item> items_{kSpareItemCountMax};
  size_t job_count_ = 0;  // of these
  bool stopping_ = false;
  bool complete_ = true;
  bool failing_ = false;  // store thread only
  std::thread thread_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_STORE_STORE_THREAD_H_
