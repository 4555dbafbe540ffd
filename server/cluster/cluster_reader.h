// Reads the run's row and its nodes from the engine, for whoever looks at a node's HTTP port.
//
//   HTTP thread: read() --wish--> a thread of its own: EngineLook --reading--> read()
//
// It has a connection of its own, so that no call of the front or the leader waits behind a look. Nobody looks: nothing
// is asked, and after kLookIdleMs there is no connection. However many look, the engine is asked once in kLookPeriodMs.
#ifndef GRADSTREAM_SERVER_CLUSTER_CLUSTER_READER_H_
#define GRADSTREAM_SERVER_CLUSTER_CLUSTER_READER_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "server/base/objection.h"
#include "server/postgresql/engine_admin.h"
#include "server/postgresql/engine_session.h"

namespace gradstream {

// Between two looks, ms. Reason: a page asks every two seconds, and one small statement a second is nothing to an
// engine.
inline constexpr uint32_t kLookPeriodMs = 1'000;
// Nobody has looked for so long, ms: the connection ends. Reason: an engine has few, and a page that is open asks more
// often.
inline constexpr uint32_t kLookIdleMs = 10'000;
// Of a whole look, with its connection where there was none, ms. Reason: a node that ends waits for a look under way,
// and its devices dial again meanwhile.
inline constexpr uint32_t kLookDeadlineMs = 2'000;
// Who looks waits so long for a reading of now, ms. Reason: a person who asks once gets the nodes with the first
// answer. /healthz waits behind it, whose askers wait longer than this.
inline constexpr uint32_t kFirstLookMs = 500;
// A reading that is older is none for who looks, ms. Reason: while somebody looks, a look that fails is over by then.
inline constexpr uint64_t kLookStaleMs = 5'000;

// How the engine is asked. Called by the reader's thread alone.
class EngineLook {
 public:
  virtual ~EngineLook() = default;
  // As read_watched_run().
  virtual Objection look(uint32_t run, EngineRunReport* out) = 0;
  // Nobody looks any more.
  virtual void rest() = 0;
};

class PostgresLook final : public EngineLook {
 public:
  // address: engine.address. A look ends at deadline_ms, and at kLookDeadlineMs.
  PostgresLook(std::string address, uint32_t deadline_ms);
  Objection look(uint32_t run, EngineRunReport* out) override;
  void rest() override { session_.reset(); }

 private:
  const std::string address_;
  const uint32_t deadline_ms_;
  std::unique_ptr<EngineSession> session_;  // null: there is no connection
};

// The last look, and what the last one that came to something has read.
struct ClusterReading {
  uint64_t over_ms = 0;  // when it ended, by steady_ms()
  uint64_t read_ms = 0;  // when the engine answered; 0: it never has
  uint64_t took_ms = 0;  // from the beginning of that look to its answer, with the connection where there was none
  EngineRunReport run;   // as of read_ms
  std::string trouble;   // why the last look came to nothing; empty: it did
};

class ClusterReader {
 public:
  // period_ms, wait_ms: kLookPeriodMs and kFirstLookMs but for tests.
  explicit ClusterReader(std::unique_ptr<EngineLook> look, uint32_t period_ms = kLookPeriodMs,
                         uint32_t wait_ms = kFirstLookMs);
  // Waits for a look under way: kLookDeadlineMs at most, beside libpq's look-up of a name.
  ~ClusterReader();
  ClusterReader(const ClusterReader&) = delete;
  ClusterReader& operator=(const ClusterReader&) = delete;

  // Wishes for a look at the run, and gives the last reading. Where that is older than a period or there is none, it
  // waits for the next one, at most kFirstLookMs. Reason: a page asks less often than a look may be made, so the last
  // reading would be that of its question before. Null: there is none yet. From any thread.
  std::shared_ptr<const ClusterReading> read(uint32_t run);

 private:
  void work();
  ClusterReading look(uint32_t run, const ClusterReading* before);

  const std::unique_ptr<EngineLook> look_;
  const uint32_t period_ms_, wait_ms_;
  std::mutex mutex_;
  std::condition_variable news_;
  uint32_t wished_run_ = 0;  // 0: nobody looks
  bool is_ending_ = false;
  std::shared_ptr<const ClusterReading> reading_;
  std::thread thread_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_CLUSTER_CLUSTER_READER_H_
