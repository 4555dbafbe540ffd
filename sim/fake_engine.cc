#include "sim/fake_engine.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "runtime/base/config.h"
#include "server/engine/engine_verb.h"

namespace gradstream {
namespace {

// Transactions that a fail-over may undo.
constexpr size_t kHistoryMax = 64;
constexpr uint64_t kNever = UINT64_MAX;
// Deadlines from kUnknown to a call that is much late: one question whose answer is lost, and the next one.
constexpr uint64_t kMuchLateDeadlines = 2;

RandomKey key_of(uint32_t seed) {
  RandomKey key;
  key.seed = seed;
  return key;
}

bool is_read(EngineVerb verb) {
  return verb == EngineVerb::kLoad || verb == EngineVerb::kReadProgress || verb == EngineVerb::kReadSums ||
         verb == EngineVerb::kReadUpdates || verb == EngineVerb::kReadVersions || verb == EngineVerb::kReadFleet;
}

}  // namespace

// The rows of the run.
struct FakeEngine::Tables {
  uint32_t open_version = 0;
  bool is_sealed = false;
  EngineRunState state = EngineRunState::kActive;
  LeaseRow lease;
  std::map<std::string, FrontRow> fronts;
  std::map<uint32_t, DeviceRow> devices;
  std::map<uint32_t, std::map<SumPlace, std::vector<uint8_t>>> sums;  // by version
  struct Kept {
    uint32_t version = 0;  // the one that was open
    std::vector<uint8_t> bytes;
  };
  std::map<std::pair<uint32_t, uint32_t>, Kept> updates;  // by device and base version
  std::vector<PublishedVersion> versions;
  std::map<std::pair<bool, uint32_t>, FleetChange> fleet;  // by whether it is a claim, and its number
  uint64_t fleet_change = 0;
};

// A call under way: to the engine, then back.
struct FakeEngine::Call {
  std::string node;
  EngineTicket ticket = 0;
  EngineVerb verb = EngineVerb::kJoin;
  std::vector<uint32_t> devices;
  EngineBatch batch;
  uint64_t term = 0;
  uint64_t sum_count = 0;
  uint32_t version = 0;
  SumPlace after;
  UpdatePart part = UpdatePart::kOpen;
  UpdatePlace from_update;
  PublishedVersion next;
  FleetPlace from;
  uint64_t at_ms = 0;        // when it is executed; kNever: it never is, or was
  uint64_t answer_ms = 0;    // when its node has the reply
  bool is_answered = false;  // its node has the reply, or is gone
  bool is_lost = false;      // its node learns nothing from the reply
  bool is_late = false;      // executed after that
  EngineReply reply;
};

class FakeEngine::Node : public EngineNode {
 public:
  Node(FakeEngine* engine, std::string name) : engine_(engine), name_(std::move(name)) {}
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() override {
    if (const auto known = engine_->nodes_.find(name_); known != engine_->nodes_.end() && known->second == this) {
      engine_->nodes_.erase(known);
    }
  }

  EngineTicket join() override { return submit(of(EngineVerb::kJoin)); }
  EngineTicket load(const std::vector<uint32_t>& devices) override {
    Call call = of(EngineVerb::kLoad);
    call.devices = devices;
    return submit(std::move(call));
  }
  EngineTicket commit(const EngineBatch& batch) override {
    Call call = of(EngineVerb::kCommit);
    call.batch = batch;
    return submit(std::move(call));
  }
  EngineTicket resolve(uint64_t epoch, uint64_t number) override {
    Call call = of(EngineVerb::kResolve);
    call.batch.epoch = epoch;
    call.batch.number = number;
    return submit(std::move(call));
  }
  EngineTicket take_lease() override { return submit(of(EngineVerb::kTakeLease)); }
  EngineTicket read_progress(uint32_t version) override {
    Call call = of(EngineVerb::kReadProgress);
    call.version = version;
    return submit(std::move(call));
  }
  EngineTicket read_sums(uint32_t version, const SumPlace& after) override {
    Call call = of(EngineVerb::kReadSums);
    call.version = version;
    call.after = after;
    return submit(std::move(call));
  }
  EngineTicket read_updates(uint32_t version, UpdatePart part, const UpdatePlace& from) override {
    Call call = of(EngineVerb::kReadUpdates);
    call.version = version;
    call.part = part;
    call.from_update = from;
    return submit(std::move(call));
  }
  EngineTicket seal(uint64_t term, uint32_t version) override {
    Call call = of(EngineVerb::kSeal);
    call.term = term;
    call.version = version;
    return submit(std::move(call));
  }
  EngineTicket publish(uint64_t term, uint64_t sum_count, const PublishedVersion& next) override {
    Call call = of(EngineVerb::kPublish);
    call.term = term;
    call.sum_count = sum_count;
    call.next = next;
    return submit(std::move(call));
  }
  EngineTicket read_versions(uint32_t from, EngineRunState) override {
    Call call = of(EngineVerb::kReadVersions);
    call.version = from;
    return submit(std::move(call));
  }
  EngineTicket release_lease(uint64_t term) override {
    Call call = of(EngineVerb::kReleaseLease);
    call.term = term;
    return submit(std::move(call));
  }
  EngineTicket read_fleet(const FleetPlace& from) override {
    Call call = of(EngineVerb::kReadFleet);
    call.from = from;
    return submit(std::move(call));
  }
  std::vector<EngineReply> take_replies() override { return std::exchange(replies_, {}); }

  void take(EngineReply reply) { replies_.push_back(std::move(reply)); }

 private:
  Call of(EngineVerb verb) {
    Call call;
    call.node = name_;
    call.ticket = ++last_ticket_;
    call.verb = verb;
    return call;
  }
  EngineTicket submit(Call call) {
    const auto alive = engine_->nodes_.find(name_);
    if (alive != engine_->nodes_.end() && alive->second == this) {
      engine_->submit(std::move(call));
    }
    return last_ticket_;
  }

  FakeEngine* engine_;
  std::string name_;
  EngineTicket last_ticket_ = 0;
  std::vector<EngineReply> replies_;
};

FakeEngine::FakeEngine(const FakeEngineOptions& options)
    : options_(options), draw_(key_of(options.seed)), tables_(std::make_unique<Tables>()) {
  GS_ASSERT((options.fault_bits & ~kEveryEngineCallFault) == 0);
}

FakeEngine::~FakeEngine() { GS_ASSERT(nodes_.empty()); }

std::unique_ptr<EngineNode> FakeEngine::connect(const std::string& node) {
  std::erase_if(calls_, [&node](const Call& call) { return call.node == node && call.at_ms == kNever; });
  for (Call& call : calls_) {
    call.is_answered = call.is_answered || call.node == node;  // a reply finds nobody
    call.is_late = call.is_late || call.node == node;          // nor do calls of the new connection wait for it
  }
  paused_.erase(node);  // of the one before
  auto connection = std::make_unique<Node>(this, node);
  nodes_[node] = connection.get();
  return connection;
}

void FakeEngine::plant(const std::string& node, Fault fault) { planted_[node] = fault; }

void FakeEngine::pause(const std::string& node, uint64_t until_ms) {
  paused_[node] = until_ms;
  for (Call& call : calls_) {
    if (call.node != node) {
      continue;
    }
    if (call.at_ms != kNever) {
      call.at_ms = std::max(call.at_ms, until_ms + (call.is_late ? 1 : 0));  // late: behind its kUnknown still
    }
    call.answer_ms = std::max(call.answer_ms, until_ms);
  }
}

// ---- Ways ----

// One of those that the options allow.
FakeEngine::Fault FakeEngine::draw_fault() {
  if (options_.lost_odds == 0 || options_.fault_bits == 0 || draw_.next() % options_.lost_odds != 0) {
    return Fault::kNone;
  }
  std::vector<Fault> allowed;
  for (size_t i = 1; i < kEngineCallFaultCount; ++i) {
    if ((options_.fault_bits & bit_of(static_cast<Fault>(i))) != 0) {
      allowed.push_back(static_cast<Fault>(i));
    }
  }
  return allowed[draw_.next() % allowed.size()];
}

void FakeEngine::go_away(uint64_t until_ms) {
  ++counters_.aways;
  away_until_ms_ = until_ms;
  for (Call& call : calls_) {
    call.at_ms = kNever;
    call.is_lost = true;
    call.answer_ms = std::max(call.answer_ms, now_ms_ + 1);
  }
}

void FakeEngine::submit(Call call) {
  const auto way_ms = [this] { return 1 + draw_.next() % options_.delay_most_ms; };
  Fault fault = Fault::kNone;
  if (const auto planted = planted_.find(call.node); planted != planted_.end()) {
    fault = planted->second;
    planted_.erase(planted);
  } else {
    fault = draw_fault();
  }
  call.at_ms = std::max(now_ms_ + way_ms(), paused_[call.node]);
  for (const Call& other : calls_) {
    if (other.node == call.node && other.at_ms != kNever && !other.is_late) {
      call.at_ms = std::max(call.at_ms, other.at_ms);
    }
  }
  call.answer_ms =
      std::max(fault == Fault::kNone ? call.at_ms + way_ms() : now_ms_ + options_.deadline_ms, paused_[call.node]);
  call.is_lost = fault != Fault::kNone;
  if (fault == Fault::kLostBefore) {
    call.at_ms = kNever;
    ++counters_.lost_before;
  } else if (fault == Fault::kLate || fault == Fault::kMuchLate) {
    call.at_ms = call.answer_ms + (fault == Fault::kLate ? 1 : kMuchLateDeadlines * options_.deadline_ms);
    call.is_late = true;
    ++(fault == Fault::kLate ? counters_.late : counters_.much_late);
  } else if (fault == Fault::kLostAfter) {
    ++counters_.lost_after;
  }
  if (is_away()) {
    call.at_ms = kNever;
    call.is_lost = true;
    call.answer_ms = std::max(now_ms_ + options_.deadline_ms, paused_[call.node]);
  }
  calls_.push_back(std::move(call));
}

uint64_t FakeEngine::next_ms() const {
  uint64_t next = kNever;
  for (const Call& call : calls_) {
    next = std::min({next, call.at_ms, call.is_answered ? kNever : call.answer_ms});
  }
  return next;
}

void FakeEngine::advance(uint64_t now_ms) {
  GS_ASSERT(now_ms >= now_ms_);
  while (next_ms() <= now_ms) {
    now_ms_ = next_ms();
    for (Call& call : calls_) {  // in the order of their submission
      if (call.at_ms == now_ms_) {
        call.at_ms = kNever;
        call.reply = execute(call);
      }
    }
    for (Call& call : calls_) {
      if (!call.is_answered && call.answer_ms == now_ms_) {
        call.is_answered = true;
        answer(call);
      }
    }
    std::erase_if(calls_, [](const Call& call) { return call.is_answered && call.at_ms == kNever; });
  }
  now_ms_ = now_ms;
}

// A reply that is lost says that nobody knows, and nothing else.
void FakeEngine::answer(const Call& call) {
  EngineReply reply = call.is_lost ? EngineReply() : call.reply;
  reply.ticket = call.ticket;
  if (const auto node = nodes_.find(call.node); node != nodes_.end()) {
    node->second->take(std::move(reply));
  }
}

void FakeEngine::fail_over(size_t lost_count, uint64_t back_ms) {
  ++counters_.failovers;
  back_ms_ = back_ms;
  for (Call& call : calls_) {
    call.at_ms = kNever;  // what has not reached the old primary is lost with it
    call.is_lost = true;
    call.answer_ms = std::max(call.answer_ms, now_ms_ + 1);
  }
  if (lost_count > 0 && !history_.empty()) {
    const size_t undone = std::min(lost_count, history_.size());
    const EngineRunState state = tables_->state;  // what the operator has said stands
    *tables_ = history_[history_.size() - undone];
    tables_->state = state;
    history_.resize(history_.size() - undone);
  }
}

// ---- Transactions ----

EngineReply FakeEngine::execute(const Call& call) {
  ++counters_.executed;
  Tables before = *tables_;
  EngineReply reply = transact(call);
  const bool happened = call.verb == EngineVerb::kResolve ? before.fronts[call.node] != tables_->fronts[call.node]
                                                          : reply.outcome == EngineOutcome::kCommitted;
  if (happened && !is_read(call.verb)) {
    tell(call);
    history_.push_back(std::move(before));
    if (history_.size() > kHistoryMax) {
      history_.erase(history_.begin());
    }
  } else {
    *tables_ = std::move(before);
  }
  return reply;
}

void FakeEngine::tell(const Call& call) const {
  if (watch_ == nullptr) {
    return;
  }
  if (call.verb == EngineVerb::kCommit) {
    watch_->on_batch(call.node, call.batch, clock_ms());
  } else if (call.verb == EngineVerb::kPublish) {
    watch_->on_published(call.node, tables_->lease, call.next);
  }
}

EngineReply FakeEngine::transact(const Call& call) {
  Tables& tables = *tables_;
  EngineReply reply;
  reply.outcome = EngineOutcome::kCommitted;
  FrontRow& front = tables.fronts[call.node];
  switch (call.verb) {
    case EngineVerb::kJoin:
      begin_epoch(&front);
      reply.front = front;
      break;
    case EngineVerb::kLoad:
      for (const uint32_t device : call.devices) {
        reply.rows.push_back(row(device));
      }
      break;
    case EngineVerb::kCommit:
      commit(call.node, call.batch, &reply);
      break;
    case EngineVerb::kResolve:
      resolve(call.node, call.batch, &reply);
      break;
    case EngineVerb::kTakeLease:
      take_lease(call.node, &reply);
      break;
    case EngineVerb::kReadProgress:
      read_progress(call, &reply);
      break;
    case EngineVerb::kReadSums:
      read_sums(call, &reply);
      break;
    case EngineVerb::kReadUpdates:
      read_updates(call, &reply);
      break;
    case EngineVerb::kSeal:
      seal(call, &reply);
      break;
    case EngineVerb::kPublish:
      publish(call, &reply);
      break;
    case EngineVerb::kReadVersions:
      reply.engine_ms = clock_ms();
      reply.state = tables.state;
      for (const PublishedVersion& one : tables.versions) {
        if (one.version >= call.version) {
          reply.versions.push_back(one);
        }
      }
      break;
    case EngineVerb::kReleaseLease:
      release_lease(call, &reply);
      break;
    case EngineVerb::kReadFleet:
      read_fleet(call, &reply);
      break;
  }
  return reply;
}

void FakeEngine::begin_epoch(FrontRow* front) const {
  front->previous_batch = front->batch;
  ++front->epoch;
  front->batch = 0;
  const uint32_t open_version = tables_->open_version + (tables_->is_sealed ? 1 : 0);
  if (front->open_version != open_version) {
    front->on_time_count = front->late_count = 0;
  }
  front->open_version = open_version;
}

void FakeEngine::commit(const std::string& node, const EngineBatch& batch, EngineReply* reply) {
  FrontRow& front = tables_->fronts[node];
  reply->front = front;
  if (front.epoch != batch.epoch || front.open_version != batch.open_version || front.batch + 1 != batch.number) {
    reply->outcome = EngineOutcome::kCut;
    return;
  }
  for (const RowChange& change : batch.changes) {
    const DeviceRow& row = tables_->devices[change.device];
    if (row.task.sequence != change.task_sequence || row.task.is_open != change.is_open) {
      reply->outcome = EngineOutcome::kConflict;
      return;
    }
  }
  for (const RowChange& change : batch.changes) {
    tables_->devices[change.device] = change.row;
  }
  ++front.batch;
  front.on_time_count += batch.on_time_count;
  front.late_count += batch.late_count;
  if (!batch.sum.empty()) {
    tables_->sums[batch.open_version][{node, batch.epoch, batch.number}] = batch.sum;
  }
  for (const StoredUpdate& update : batch.updates) {
    const Tables::Kept kept = {batch.open_version, update.bytes};
    const bool is_new = tables_->updates.insert_or_assign({update.device, update.base_version}, kept).second;
    GS_ASSERT(is_new || options_.takes_again);  // PostgreSQL refuses the batch, and its front would send it for ever
  }
  reply->front = front;
}

// An answer that was lost is asked for again: then the epoch is over already, and its last batch is kept.
void FakeEngine::resolve(const std::string& node, const EngineBatch& batch, EngineReply* reply) {
  FrontRow& front = tables_->fronts[node];
  if (front.epoch == batch.epoch) {
    begin_epoch(&front);
  }
  const bool happened = front.previous_batch >= batch.number;
  reply->outcome = front.epoch != batch.epoch + 1 ? EngineOutcome::kConflict
                   : happened                     ? EngineOutcome::kCommitted
                                                  : EngineOutcome::kCut;
  reply->front = front;
}

void FakeEngine::take_lease(const std::string& node, EngineReply* reply) {
  LeaseRow& lease = tables_->lease;
  if (lease.node != node && clock_ms() < lease.until_ms) {
    reply->outcome = EngineOutcome::kCut;
  } else {
    lease.term += lease.node == node ? 0 : 1;
    lease.node = node;
    lease.until_ms = clock_ms() + options_.lease_ms;
  }
  reply->lease = lease;
}

// By the holder, whatever FakeEngineOptions::checks_holder says: what is asked of the others is seal() and publish().
void FakeEngine::release_lease(const Call& call, EngineReply* reply) {
  LeaseRow& lease = tables_->lease;
  if (lease.node != call.node || lease.term != call.term) {
    reply->outcome = EngineOutcome::kCut;
  } else {
    lease.node.clear();
    lease.until_ms = std::min(lease.until_ms, clock_ms());
  }
  reply->lease = lease;
}

void FakeEngine::read_fleet(const Call& call, EngineReply* reply) const {
  const auto place_of = [](uint64_t change, bool is_claim, uint64_t number) {
    return std::make_tuple(change, is_claim, number);
  };
  const auto from = place_of(call.from.change, call.from.is_claim, call.from.number);
  std::map<std::tuple<uint64_t, bool, uint64_t>, const FleetChange*> by_place;
  for (const auto& [key, row] : tables_->fleet) {
    by_place[place_of(row.change, row.is_claim, row.number)] = &row;
  }
  for (auto one = by_place.lower_bound(from); one != by_place.end() && reply->fleet.size() < options_.fleet_count_max;
       ++one) {
    reply->fleet.push_back(*one->second);
  }
  reply->fleet_change = tables_->fleet_change;
}

void FakeEngine::change_fleet(FleetChange row) {
  row.change = ++tables_->fleet_change;
  tables_->fleet[{row.is_claim, row.number}] = std::move(row);
}

void FakeEngine::change_state(EngineRunState state) { tables_->state = state; }

EngineRunState FakeEngine::state() const { return tables_->state; }

bool FakeEngine::is_sealed() const { return tables_->is_sealed; }

void FakeEngine::read_progress(const Call& call, EngineReply* reply) const {
  if (call.version != tables_->open_version) {
    reply->outcome = EngineOutcome::kCut;
    return;
  }
  reply->progress.is_sealed = tables_->is_sealed;
  reply->progress.state = tables_->state;
  for (const auto& [name, front] : tables_->fronts) {
    // A node that has not joined since counts for an older version. All others do for this one, sealed or not.
    if (front.open_version >= call.version) {
      reply->progress.on_time_count += front.on_time_count;
      reply->progress.late_count += front.late_count;
    }
  }
}

void FakeEngine::read_sums(const Call& call, EngineReply* reply) const {
  if (call.version != tables_->open_version) {
    reply->outcome = EngineOutcome::kCut;
    return;
  }
  const auto of_version = tables_->sums.find(call.version);
  if (of_version == tables_->sums.end()) {
    return;
  }
  for (auto one = of_version->second.upper_bound(call.after);
       one != of_version->second.end() && reply->sums.size() < options_.sum_count_max; ++one) {
    reply->sums.push_back({one->first, one->second});
  }
}

void FakeEngine::read_updates(const Call& call, EngineReply* reply) const {
  if (call.version != tables_->open_version) {
    reply->outcome = EngineOutcome::kCut;
    return;
  }
  for (const auto& [place, kept] : tables_->updates) {
    const auto [device, base_version] = place;
    const bool is_behind = std::tuple(device, uint64_t{base_version}) >=
                           std::tuple(call.from_update.device, call.from_update.base_version);
    const bool is_open = kept.version == call.version;
    if (is_behind && is_open == (call.part == UpdatePart::kOpen) && reply->updates.size() < options_.update_count_max) {
      reply->updates.push_back({device, base_version, kept.bytes});
    }
  }
}

// Of each device, and of those that are forgotten none.
void FakeEngine::keep_last_updates(const PublishedVersion& next) {
  auto& updates = tables_->updates;
  for (auto one = updates.begin(); one != updates.end();) {
    const auto behind = std::next(one);
    const bool is_last = behind == updates.end() || behind->first.first != one->first.first;
    const bool is_forgotten = std::ranges::binary_search(next.forgotten, one->first.first);
    one = is_last && !is_forgotten ? behind : updates.erase(one);
  }
}

bool FakeEngine::is_leader(const Call& call) const {
  return call.term == tables_->lease.term && (call.node == tables_->lease.node || !options_.checks_holder);
}

void FakeEngine::seal(const Call& call, EngineReply* reply) {
  reply->lease = tables_->lease;
  const bool may_seal = tables_->is_sealed || tables_->state == EngineRunState::kActive;
  if (!is_leader(call) || call.version != tables_->open_version || !may_seal) {
    reply->outcome = EngineOutcome::kCut;
    return;
  }
  tables_->is_sealed = true;
  for (auto& [name, front] : tables_->fronts) {
    front.open_version = tables_->open_version + 1;
  }
}

void FakeEngine::publish(const Call& call, EngineReply* reply) {
  const PublishedVersion& next = call.next;
  reply->lease = tables_->lease;
  const auto open_count = static_cast<uint64_t>(std::ranges::count_if(
      tables_->updates, [this](const auto& one) { return one.second.version == tables_->open_version; }));
  if (!is_leader(call) || next.version != tables_->open_version + 1 || !tables_->is_sealed ||
      call.sum_count != tables_->sums[tables_->open_version].size() + open_count) {
    reply->outcome = EngineOutcome::kCut;
    return;
  }
  tables_->sums.erase(tables_->open_version);
  tables_->open_version = next.version;
  tables_->is_sealed = false;
  tables_->versions.push_back({next.version, next.record});
  keep_last_updates(next);
  for (auto& [name, front] : tables_->fronts) {
    front.on_time_count = front.late_count = 0;
  }
}

DeviceRow FakeEngine::row(uint32_t device) const {
  const auto known = tables_->devices.find(device);
  return known == tables_->devices.end() ? DeviceRow() : known->second;
}

const LeaseRow& FakeEngine::lease() const { return tables_->lease; }

bool FakeEngine::is_lease_free() const { return clock_ms() >= tables_->lease.until_ms; }

uint32_t FakeEngine::open_version() const { return tables_->open_version; }

}  // namespace gradstream
