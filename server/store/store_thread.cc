#include "server/store/store_thread.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

namespace gradstream {

StoreThread::StoreThread(asio::io_context& io, Store& store, const StoreThreadLimits& limits, Reports reports)
    : io_(io), store_(store), limits_(limits), reports_(std::move(reports)), thread_([this] { loop(); }) {}

StoreThread::~StoreThread() { stop(); }

void StoreThread::append(JournalRecord record) {
  size_t count = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    items_.push({std::move(record), nullptr});
    count = items_.size();
  }
  if (count == 1 || count == limits_.batch_count_max) {  // a switch of threads for each record would cost as much as it
    changed_.notify_one();
  }
}

void StoreThread::run_after(std::function<void()> job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    items_.push({{}, std::move(job)});
    ++job_count_;
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
  // If a job waits behind the records, waiting for more records gains nothing.
  const auto is_full = [this] { return stopping_ || job_count_ > 0 || items_.size() >= limits_.batch_count_max; };
  changed_.wait_for(lock, std::chrono::milliseconds(limits_.delay_ms), is_full);
  std::vector<JournalRecord> batch;
  batch.reserve(std::min<size_t>(items_.size(), limits_.batch_count_max));
  while (!items_.empty() && !items_.front().job && batch.size() < limits_.batch_count_max) {
    batch.push_back(std::move(items_.front().record));
    items_.pop();
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
  const uint64_t sequence = batch.back().sequence();
  ChainHead chain;
  if (store_.read_chain_end(&chain) != StoreStatus::kOk || chain.sequence != sequence) {
    chain = {};
  }
  asio::post(io_, [report = reports_.on_persisted, sequence, chain] { report(sequence, chain); });
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
      job = std::exchange(items_.front().job, nullptr);
      items_.pop();
      --job_count_;
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
