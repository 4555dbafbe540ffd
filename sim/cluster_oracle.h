// What must hold of a run that several nodes train: each version, computed again from the lineage as one server makes
// it.
//
// The oracle hears of every batch when it is committed, and of every version. Of them it makes the journal that a
// single server would have written. That server's own ledger follows it, and sim/oracle.h, which computes by itself.
#ifndef GRADSTREAM_SIM_CLUSTER_ORACLE_H_
#define GRADSTREAM_SIM_CLUSTER_ORACLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/intake.h"
#include "server/coordinator/ledger.h"
#include "sim/fake_engine.h"
#include "sim/oracle.h"

namespace gradstream {

// The standby's clock is behind the primary's by so much, ms. Reason: they are to be within a second.
inline constexpr uint64_t kStandbyBackMs = 500;

class ClusterOracle : public EngineWatch {
 public:
  ClusterOracle(const RunParameters& parameters, const std::vector<std::string>& names);

  // What a device said, as it arrives at a node.
  void on_said(uint64_t session, uint32_t device, const DeviceMessage& message);
  // What a node answers. All that it says must be committed by then.
  void on_told(uint32_t device, const ServerMessage& message);
  void on_batch(const std::string& node, const EngineBatch& batch, uint64_t engine_ms) override;
  void on_published(const std::string& node, const LeaseRow& lease, const PublishedVersion& next) override;

  // The first that did not hold, as a sentence; empty: all did.
  const std::string& fault() const { return fault_; }
  uint32_t version() const { return single_.run().version(); }
  uint64_t digest() const { return single_.run().digest(); }
  uint64_t update_count() const { return update_count_; }

 private:
  void broken(const std::string& sentence);
  uint32_t stamp_of(uint32_t device) const;
  void record(JournalRecord record);
  void on_verdict(uint32_t device, const DeviceRow& before, const JudgedTask& judged);
  void on_update(uint32_t device, const DeviceRow& before, const JudgedTask& judged);
  void on_task(uint32_t device, const IssuedTask& task, uint64_t engine_ms);

  RunParameters parameters_;
  Ledger single_;
  Oracle oracle_;
  std::map<uint32_t, DeviceRow> rows_;                       // as the batches have made them
  std::map<uint32_t, uint32_t> samples_;                     // by device, as its last Hello says
  std::map<uint64_t, Intake> intakes_;                       // by session
  std::map<std::pair<uint32_t, uint32_t>, Upload> uploads_;  // by device and task
  uint64_t update_count_ = 0;
  std::string fault_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SIM_CLUSTER_ORACLE_H_
