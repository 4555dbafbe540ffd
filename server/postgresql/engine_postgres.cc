#include "server/postgresql/engine_postgres.h"

#include <algorithm>
#include <utility>

namespace gradstream {
namespace {

EngineReply unknown(EngineTicket ticket) {
  EngineReply reply;
  reply.ticket = ticket;
  return reply;
}

}  // namespace

uint32_t pause_of_node(uint32_t pause_ms, const std::string& node) {
  constexpr uint32_t kSteps = 256;
  uint32_t hash = 0;
  for (const char letter : node) {
    hash = 31 * hash + static_cast<unsigned char>(letter);
  }
  return pause_ms - pause_ms / 4 * (hash % kSteps) / kSteps;
}

PostgresEngine::PostgresEngine(asio::io_context& io, const PostgresOptions& options, std::function<void()> on_change)
    : options_(options),
      on_change_(std::move(on_change)),
      link_(io, options_, *this),
      deadline_timer_(io),
      pause_timer_(io) {
  link_.open();
}

PostgresEngine::~PostgresEngine() { life_.reset(); }

// ---- Calls ----

EngineTicket PostgresEngine::join() { return submit(EngineVerb::kJoin, parameters_of_join(options_)); }

EngineTicket PostgresEngine::load(const std::vector<uint32_t>& devices) {
  return submit(EngineVerb::kLoad, parameters_of_devices(options_, devices), devices);
}

EngineTicket PostgresEngine::commit(const EngineBatch& batch) {
  return submit(EngineVerb::kCommit, parameters_of_batch(options_, batch));
}

EngineTicket PostgresEngine::resolve(uint64_t epoch, uint64_t number) {
  PgParameters parameters = parameters_of_node(options_);
  parameters.number(epoch);
  parameters.number(number);
  return submit(EngineVerb::kResolve, std::move(parameters));
}

EngineTicket PostgresEngine::take_lease() {
  PgParameters parameters = parameters_of_node(options_);
  parameters.number(options_.lease_ms);
  return submit(EngineVerb::kTakeLease, std::move(parameters));
}

EngineTicket PostgresEngine::release_lease(uint64_t term) {
  PgParameters parameters = parameters_of_node(options_);
  parameters.number(term);
  return submit(EngineVerb::kReleaseLease, std::move(parameters));
}

EngineTicket PostgresEngine::read_progress(uint32_t version) {
  PgParameters parameters = parameters_of_run(options_);
  parameters.number(version);
  return submit(EngineVerb::kReadProgress, std::move(parameters));
}

EngineTicket PostgresEngine::read_sums(uint32_t version, const SumPlace& after) {
  return submit(EngineVerb::kReadSums, parameters_of_sums(options_, version, after));
}

EngineTicket PostgresEngine::read_updates(uint32_t version, UpdatePart part, const UpdatePlace& from) {
  return submit(EngineVerb::kReadUpdates, parameters_of_updates(options_, version, part, from));
}

EngineTicket PostgresEngine::seal(uint64_t term, uint32_t version) {
  PgParameters parameters = parameters_of_node(options_);
  parameters.number(term);
  parameters.number(version);
  return submit(EngineVerb::kSeal, std::move(parameters));
}

EngineTicket PostgresEngine::publish(uint64_t term, uint64_t sum_count, const PublishedVersion& next) {
  return submit(EngineVerb::kPublish, parameters_of_publish(options_, term, sum_count, next));
}

EngineTicket PostgresEngine::read_versions(uint32_t from, EngineRunState known) {
  PgParameters parameters = parameters_of_run(options_);
  parameters.number(from);
  parameters.number(kEngineVersionCountMax);
  parameters.number(static_cast<uint64_t>(known));
  return submit(EngineVerb::kReadVersions, std::move(parameters));
}

EngineTicket PostgresEngine::read_fleet(const FleetPlace& from) {
  return submit(EngineVerb::kReadFleet, parameters_of_fleet(from));
}

std::vector<EngineReply> PostgresEngine::take_replies() { return std::exchange(replies_, {}); }

EngineTicket PostgresEngine::submit(EngineVerb verb, PgParameters parameters, std::vector<uint32_t> devices) {
  const EngineTicket ticket = ++last_ticket_;
  if (waiting_.size() + under_way_.size() >= kEngineCallCountMax) {
    reply(unknown(ticket));
    return ticket;
  }
  const Time end = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.deadline_ms);
  waiting_.push_back({ticket, verb, std::move(parameters), std::move(devices), end});
  if (waiting_.size() + under_way_.size() == 1) {
    watch_deadline();
  }
  send_waiting();
  return ticket;
}

void PostgresEngine::send_waiting() {
  while (!waiting_.empty() && link_.is_ready()) {
    under_way_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    const Call& call = under_way_.back();
    if (!link_.send(engine_statements()[static_cast<size_t>(call.verb)], call.parameters)) {
      return;
    }
  }
}

void PostgresEngine::reply(EngineReply reply) {
  replies_.push_back(std::move(reply));
  tell();
}

// Later: whoever has just made a call does not know its ticket yet.
void PostgresEngine::tell() {
  if (!on_change_ || std::exchange(is_told_soon_, true)) {
    return;
  }
  asio::post(pause_timer_.get_executor(), [this, life = std::weak_ptr<bool>(life_)] {
    if (!life.expired()) {
      is_told_soon_ = false;
      on_change_();
    }
  });
}

void PostgresEngine::give_up(std::deque<Call>* calls) {
  for (const Call& call : std::exchange(*calls, {})) {
    reply(unknown(call.ticket));
  }
}

// ---- The link ----

void PostgresEngine::on_link_ready() {
  ++connection_count_;
  settled_at_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(kEngineSettledMs);
  send_waiting();
  tell();
}

void PostgresEngine::on_link_answer(const PgAnswer& answer) {
  const Call call = std::move(under_way_.front());
  under_way_.pop_front();
  EngineReply made;
  const bool is_readable = read_engine_reply(call.verb, answer, call.devices, &made);
  made.ticket = call.ticket;
  const bool is_error = answer.table == nullptr;
  if (is_error) {
    trouble_ = "the engine has undone a call: " + answer.words + " (SQLSTATE " + answer.sql_state + ")";
  } else if (answer.is_doubtful) {
    trouble_ = "the engine's wait for its standby may have been cut: whether a call is durable is asked again";
  } else if (std::chrono::steady_clock::now() >= settled_at_) {
    pause_ms_ = kEnginePauseFirstMs;
  }
  reply(std::move(made));
  if (is_error && !is_passing_error(answer.sql_state)) {
    link_.lose(sentence_of_error(answer.sql_state, answer.words));
    return;
  }
  if (!is_readable) {
    link_.lose("the engine's rows are of a newer release, or damaged. Install the newest release on this node.");
  }
}

void PostgresEngine::on_link_lost(const std::string& why) {
  trouble_ = why;
  tell();
  give_up(&under_way_);
  connect_later();
}

void PostgresEngine::connect_later() {
  pause_timer_.expires_after(std::chrono::milliseconds(pause_of_node(pause_ms_, options_.node)));
  pause_ms_ = std::min(2 * pause_ms_, kEnginePauseLastMs);
  pause_timer_.async_wait([this, life = std::weak_ptr<bool>(life_)](ErrorCode error) {
    if (!error && !life.expired()) {
      link_.open();
    }
  });
}

// ---- Deadlines: of the oldest call, since all have the same one ----

void PostgresEngine::watch_deadline() {
  if (waiting_.empty() && under_way_.empty()) {
    return;
  }
  deadline_timer_.expires_at(under_way_.empty() ? waiting_.front().end : under_way_.front().end);
  deadline_timer_.async_wait([this, life = std::weak_ptr<bool>(life_)](ErrorCode error) {
    if (!error && !life.expired()) {
      on_deadline();
    }
  });
}

// The timer may stand at the end of a call that is answered: it is not moved with every answer.
void PostgresEngine::on_deadline() {
  const Time now = std::chrono::steady_clock::now();
  if (!under_way_.empty() && under_way_.front().end <= now) {
    link_.lose("the engine did not answer in " + std::to_string(options_.deadline_ms) + " ms");
  }
  std::deque<Call> late;
  while (!waiting_.empty() && waiting_.front().end <= now) {
    late.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  give_up(&late);
  watch_deadline();
}

}  // namespace gradstream
