#include "server/store_thread.h"

#include <chrono>
#include <csignal>
#include <utility>

namespace gradstream {

StoreThread::StoreThread(asio::io_context& io, Store& store, const StoreThreadLimits& limits, Reports reports)
    : io_(io), store_(store), limits_(limits), reports_(std::move(reports)), thread_([this] { loop(); }) {}

StoreThread::~StoreThread() { stop(); }

void StoreThread::append(JournalRecord record) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    items_.push_back({std::move(record), nullptr});
  }
  changed_.notify_one();
}

void StoreThread::run_after(std::function<void()> job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    items_.push_back({{}, std::move(job)});
  }
  changed_.notify_one();
}

bool StoreThread::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
  return complete_;
}

std::vector<JournalRecord> StoreThread::wait_for_batch(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] { return stopping_ || !items_.empty(); });
  const auto is_full = [this] {
    size_t count = 0;
    for (const Item& item : items_) {
      if (item.job) {
        return true;  // a job waits behind these: nothing is gained by waiting for more
      }
      if (++count >= limits_.batch_count_max) {
        return true;
      }
    }
    return stopping_;
  };
  changed_.wait_for(lock, std::chrono::milliseconds(limits_.delay_ms), is_full);
  std::vector<JournalRecord> batch;
  while (!items_.empty() && !items_.front().job && batch.size() < limits_.batch_count_max) {
    batch.push_back(std::move(items_.front().record));
    items_.pop_front();
  }
  return batch;
}

// One try, with its reports.
bool StoreThread::store_batch(const std::vector<JournalRecord>& batch) {
  const StoreStatus status = store_.append(batch);
  if (status != StoreStatus::kOk) {
    if (!failing_) {
      failing_ = true;
      asio::post(io_, [report = reports_.on_failed, status] { report(status); });
    }
    return false;
  }
  if (failing_) {
    failing_ = false;
    asio::post(io_, reports_.on_recovered);
  }
  asio::post(io_, [report = reports_.on_persisted, sequence = batch.back().sequence] { report(sequence); });
  return true;
}

void StoreThread::loop() {
  sigset_t all;  // signals are the main thread's: this one may sleep for hours
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    const std::vector<JournalRecord> batch = wait_for_batch(lock);
    std::function<void()> job;
    if (batch.empty()) {
      if (items_.empty()) {
        return;  // stopping, and nothing is left
      }
      job = std::move(items_.front().job);
      items_.pop_front();
    }
    lock.unlock();
    if (job) {
      job();
    }
    bool stored = batch.empty() || store_batch(batch);
    lock.lock();
    while (!stored) {
      const bool last_try = stopping_;
      if (!last_try) {
        changed_.wait_for(lock, std::chrono::milliseconds(limits_.retry_ms), [this] { return stopping_; });
      }
      lock.unlock();
      stored = store_batch(batch);
      lock.lock();
      if (!stored && last_try) {
        complete_ = false;
        return;
      }
    }
  }
}

}  // namespace gradstream
