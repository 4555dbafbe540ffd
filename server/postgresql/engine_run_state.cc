#include "server/postgresql/engine_run_state.h"

#include "server/postgresql/engine_admin.h"

namespace gradstream {
namespace {

constexpr char kReadRun[] =
    "SELECT r.run, r.open_version, r.state, p.source FROM gradstream.run r JOIN gradstream.plan p ON p.run = r.run";
constexpr char kChangeState[] =
    "UPDATE gradstream.run SET state = $3::bigint WHERE run = $1::bigint AND state = $2::bigint RETURNING run";

}  // namespace

Objection EngineRunRow::read(EngineRunNow* out, bool* is_there) {
  PgResult rows;
  if (Objection objection = session_.ask(kReadRun, {}, &rows)) {
    return objection;
  }
  PgTable table(rows.get());
  *is_there = table.row_count() == 1;
  if (!*is_there) {
    return {};
  }
  const uint64_t state = table.number(0, 2);
  *out = {static_cast<uint32_t>(table.number(0, 0)), static_cast<uint32_t>(table.number(0, 1)),
          static_cast<EngineRunState>(state), table.text(0, 3)};
  const bool is_known = state <= static_cast<uint64_t>(EngineRunState::kStopped);
  return table.is_sound() && is_known ? Objection() : Objection(kUnreadEngineRun);
}

// What was read may be the primary's alone. So a message goes behind it in the log, and waits for the standby.
Objection EngineRunRow::confirm() {
  const Objection objection = session_.execute("SELECT pg_logical_emit_message(true, 'gradstream', '')");
  return objection ? objection : check_last_commit(session_, durability_, "the run was read");
}

// Two changes at once: the second one waits for the first one's end, and then finds another state. Before COMMIT is
// sent, whatever fails takes all of it back.
RunStateWrite EngineRunRow::exchange(const EngineRunNow& now, EngineRunState to, Objection* why) {
  PgResult rows;
  PgParameters values;
  values.number(now.run);
  values.number(static_cast<uint64_t>(now.state));
  values.number(static_cast<uint64_t>(to));
  *why = session_.execute("BEGIN");
  *why = *why ? *why : session_.ask(kChangeState, values, &rows);
  const bool is_beaten = !*why && PgTable(rows.get()).row_count() == 0;
  if (*why || is_beaten) {
    static_cast<void>(session_.is_away() ? Objection() : session_.execute("ROLLBACK"));
    return *why ? RunStateWrite::kRefused : RunStateWrite::kBeaten;
  }
  *why = session_.execute("COMMIT");
  if (*why) {
    return session_.is_away() ? RunStateWrite::kDoubted : RunStateWrite::kRefused;
  }
  *why = check_last_commit(session_, durability_, "the run was changed");
  return *why ? RunStateWrite::kDoubted : RunStateWrite::kDone;
}

}  // namespace gradstream
