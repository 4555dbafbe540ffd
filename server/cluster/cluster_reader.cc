#include "server/cluster/cluster_reader.h"

#include <algorithm>
#include <chrono>

#include <signal.h>

#include "server/base/ports.h"
#include "server/postgresql/engine_watch.h"

namespace gradstream {

PostgresLook::PostgresLook(std::string address, uint32_t deadline_ms)
    : address_(std::move(address)), deadline_ms_(std::min(deadline_ms, kLookDeadlineMs)) {}

Objection PostgresLook::look(uint32_t run, EngineRunReport* out) {
  Objection objection;
  const bool is_new = session_ == nullptr;
  if (is_new) {
    session_ = std::make_unique<EngineSession>(deadline_ms_);
  }
  // One end for the connection, what is set for it, and the question.
  session_->end_by(std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms_));
  objection = is_new ? session_->open(address_) : objection;
  objection = objection ? objection : read_watched_run(*session_, run, out);
  if (objection) {  // nobody knows what still comes by this connection
    session_.reset();
  }
  return objection;
}

ClusterReader::ClusterReader(std::unique_ptr<EngineLook> look, uint32_t period_ms, uint32_t wait_ms)
    : look_(std::move(look)), period_ms_(period_ms), wait_ms_(wait_ms), thread_([this] { work(); }) {}

ClusterReader::~ClusterReader() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  news_.notify_all();
  thread_.join();
}

std::shared_ptr<const ClusterReading> ClusterReader::read(uint32_t run) {
  std::unique_lock<std::mutex> lock(mutex_);
  wished_run_ = run;
  news_.notify_all();
  const uint64_t wished_ms = steady_ms();
  news_.wait_for(lock, std::chrono::milliseconds(wait_ms_),
                 [&] { return reading_ != nullptr && wished_ms <= reading_->over_ms + period_ms_; });
  return reading_;
}

void ClusterReader::work() {
  sigset_t all;  // signals are the main thread's: this one waits for seconds
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_ending_) {
    const bool is_wished =
        news_.wait_for(lock, std::chrono::milliseconds(kLookIdleMs), [this] { return is_ending_ || wished_run_ != 0; });
    const uint32_t run = std::exchange(wished_run_, 0);
    if (is_ending_) {
      return;
    }
    const std::shared_ptr<const ClusterReading> before = reading_;
    lock.unlock();
    std::shared_ptr<const ClusterReading> now = before;
    if (is_wished) {
      now = std::make_shared<const ClusterReading>(look(run, before.get()));
    } else {
      look_->rest();
    }
    lock.lock();
    reading_ = now;
    news_.notify_all();
    if (is_wished) {
      news_.wait_for(lock, std::chrono::milliseconds(period_ms_), [this] { return is_ending_; });
    }
  }
}

ClusterReading ClusterReader::look(uint32_t run, const ClusterReading* before) {
  const uint64_t began_ms = steady_ms();
  EngineRunReport report;
  const Objection objection = look_->look(run, &report);
  const uint64_t over_ms = steady_ms();
  ClusterReading reading;
  if (objection) {
    reading = before == nullptr ? ClusterReading() : *before;
    reading.over_ms = over_ms;
    reading.trouble = objection.sentence;
    return reading;
  }
  reading.over_ms = reading.read_ms = over_ms;
  reading.took_ms = over_ms - began_ms;
  reading.run = std::move(report);
  return reading;
}

}  // namespace gradstream
