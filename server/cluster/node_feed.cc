#include "server/cluster/node_feed.h"

#include <utility>

#include "server/run/run_core.h"
#include "server/run/trigger.h"

namespace gradstream {

NodeFeed::NodeFeed(std::string name, const RunParameters& parameters, std::string command_options)
    : name_(std::move(name)),
      parameters_(std::make_shared<const RunParameters>(parameters)),
      command_options_(std::move(command_options)) {}

void NodeFeed::note_version(const PublishedVersion& published, const ShellCounters& counters, uint64_t time_ms) {
  WatchedRound round;
  round.summary.version = published.version;
  round.summary.time_ms = time_ms;
  round.summary.opened_ms = rounds_.empty() ? 0 : rounds_.back().summary.time_ms;
  round.summary.has_losses = false;
  round.summary.record_bytes = published.record.size();
  round.wire_bytes_received = counters.traffic.wire_bytes_received;
  round.wire_bytes_sent = counters.traffic.wire_bytes_sent;
  rounds_.push_back(std::move(round));
  if (rounds_.size() > kRoundHistoryMax) {
    rounds_.pop_front();
  }
}

std::shared_ptr<const WatchSnapshot> NodeFeed::view(const FollowedRun& run, const NodeSnapshot& now,
                                                    uint64_t time_ms) const {
  const auto view = std::make_shared<WatchSnapshot>();
  view->taken_ms = time_ms;
  view->taken_steady_ms = now.taken_steady_ms;
  view->started_ms = now.started_ms;
  view->run = now.run;
  view->run_name = name_;
  view->run_state = now.run_state;
  view->has_version = run.ledger().has_version();
  view->version = run.version();
  view->digest = run.ledger().digest();
  view->round_count = parameters_->trigger->round_count;
  view->rounds_done = run.ledger().round();
  view->parameters = parameters_;
  view->round.asked = fleet_.active;
  view->round.wanted = update_goal(*parameters_, fleet_.active);
  view->round.opened_ms = rounds_.empty() ? 0 : rounds_.back().summary.time_ms;
  view->enrolled = fleet_;
  view->sessions = now.sessions;
  view->handshakes = now.handshakes;
  view->place.is_storage_failed = !now.is_connected;  // nothing becomes durable meanwhile
  view->place.command_options = command_options_;
  view->is_draining = now.is_draining;
  view->shell = now.shell;
  view->rounds.assign(rounds_.begin(), rounds_.end());
  return view;
}

}  // namespace gradstream
