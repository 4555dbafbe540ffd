#include "server/postgresql/engine_watch.h"

#include <string>
#include <utility>

#include "server/postgresql/engine_transfer.h"
#include "server/postgresql/pg_values.h"

namespace gradstream {
namespace {

// A row for each node; one without a node where none has joined.
constexpr char kWatchedRun[] =
    "SELECT r.open_version, r.is_sealed, r.leader, r.term, "
    "greatest(0, floor(extract(epoch FROM r.lease_until - clock_timestamp()) * 1000))::bigint, "
    "f.node IS NOT NULL, coalesce(f.node, ''), coalesce(f.on_time, 0)::bigint, coalesce(f.late, 0)::bigint, "
    "coalesce(n.release, ''), n.node IS NOT NULL, "
    "greatest(0, floor(coalesce(extract(epoch FROM clock_timestamp() - n.seen), 0) * 1000))::bigint, "
    "coalesce(f.epoch, 0)::bigint, coalesce(f.batch, 0)::bigint, coalesce(f.open_version, 0)::bigint "
    "FROM gradstream.run r LEFT JOIN gradstream.front f ON f.run = r.run "
    "LEFT JOIN gradstream.node n ON n.run = f.run AND n.node = f.node WHERE r.run = $1::bigint ORDER BY f.node";

void take_watched_row(PgTable& table, size_t row, EngineRunReport* out) {
  out->open_version = static_cast<uint32_t>(table.number(row, 0));
  out->is_sealed = table.flag(row, 1);
  out->leader = table.text(row, 2);
  out->term = table.number(row, 3);
  out->lease_ms = table.number(row, 4);
  if (!table.flag(row, 5)) {
    return;
  }
  out->on_time_count += table.number(row, 7);
  out->late_count += table.number(row, 8);
  EngineNodeReport node;
  node.node = table.text(row, 6);
  if (node.node == kImportNode) {
    return;
  }
  node.release = table.text(row, 9);
  node.seen_ms = table.flag(row, 10) ? table.number(row, 11) : UINT64_MAX;
  node.epoch = table.number(row, 12);
  node.batch = table.number(row, 13);
  node.open_version = static_cast<uint32_t>(table.number(row, 14));
  out->nodes.push_back(std::move(node));
}

}  // namespace

Objection read_watched_run(EngineSession& session, uint32_t run, EngineRunReport* out) {
  *out = {};
  PgParameters parameters;
  parameters.number(run);
  PgResult rows;
  if (Objection objection = session.ask(kWatchedRun, parameters, &rows)) {
    return objection;
  }
  PgTable table(rows.get());
  if (table.row_count() == 0) {
    return "the engine has no run " + std::to_string(run) + ". gradstream engine status shows those that it has.";
  }
  out->run = run;
  for (size_t row = 0; row < table.row_count(); ++row) {
    take_watched_row(table, row, out);
  }
  return table.is_sound() ? Objection()
                          : Objection(
                                "the engine's run and nodes do not read as this release writes them. Use the "
                                "release that made the schema.");
}

}  // namespace gradstream
