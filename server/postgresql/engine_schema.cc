#include "server/postgresql/engine_schema.h"

#include "server/engine/engine.h"
#include "server/postgresql/engine_checks.h"
#include "server/postgresql/engine_session.h"

namespace gradstream {
namespace {

// What the functions return as the outcome of a call.
static_assert(static_cast<int>(EngineOutcome::kCommitted) == 0);
static_assert(static_cast<int>(EngineOutcome::kCut) == 1);
static_assert(static_cast<int>(EngineOutcome::kConflict) == 2);
// What stands in run.state.
static_assert(static_cast<int>(EngineRunState::kActive) == 0);
static_assert(static_cast<int>(EngineRunState::kPaused) == 1);
static_assert(static_cast<int>(EngineRunState::kStopped) == 2);
static_assert(kEngineSchemaVersion == 2, "the text below says which version it makes");

// Rows that change with each batch leave room for their next versions in the same page, so that no index changes.
constexpr char kTables[] = R"sql(
CREATE SCHEMA gradstream;
CREATE TABLE gradstream.cluster(
  is_it boolean PRIMARY KEY DEFAULT true CHECK (is_it),
  schema_version bigint NOT NULL,
  incarnation text NOT NULL,
  fleet_change bigint NOT NULL DEFAULT 0);
INSERT INTO gradstream.cluster(schema_version, incarnation) VALUES (2, gen_random_uuid()::text);
CREATE TABLE gradstream.run(
  run bigint PRIMARY KEY,
  open_version bigint NOT NULL DEFAULT 0,
  is_sealed boolean NOT NULL DEFAULT false,
  leader text NOT NULL DEFAULT '',
  term bigint NOT NULL DEFAULT 0,
  lease_until timestamptz NOT NULL DEFAULT 'epoch',
  state bigint NOT NULL DEFAULT 0) WITH (fillfactor = 10);
CREATE TABLE gradstream.run_device(
  run bigint, device bigint,
  task_sequence bigint NOT NULL,
  is_open boolean NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (run, device)) WITH (fillfactor = 70);
CREATE TABLE gradstream.front(
  run bigint, node text,
  epoch bigint NOT NULL,
  open_version bigint NOT NULL,
  batch bigint NOT NULL,
  previous_batch bigint NOT NULL,
  on_time bigint NOT NULL,
  late bigint NOT NULL,
  PRIMARY KEY (run, node)) WITH (fillfactor = 10);
CREATE TABLE gradstream.partial(
  run bigint, version bigint, node text, epoch bigint, batch bigint,
  content bytea NOT NULL,
  PRIMARY KEY (run, version, node, epoch, batch));
ALTER TABLE gradstream.partial ALTER content SET STORAGE EXTERNAL;
CREATE TABLE gradstream.version(
  run bigint, version bigint,
  term bigint NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (run, version));
CREATE TABLE gradstream.plan(
  run bigint PRIMARY KEY,
  name text NOT NULL, parameters text NOT NULL, source text NOT NULL,
  digest bytea NOT NULL, nonce bytea NOT NULL,
  created_ms bigint NOT NULL);
CREATE TABLE gradstream.device(
  device bigint PRIMARY KEY, name text NOT NULL UNIQUE, content bytea NOT NULL,
  change bigint NOT NULL DEFAULT 0);
CREATE TABLE gradstream.claim(
  claim bigint PRIMARY KEY, name text NOT NULL UNIQUE, content bytea NOT NULL,
  change bigint NOT NULL DEFAULT 0);
CREATE TYPE gradstream.front_reply AS (outcome integer, epoch bigint, open_version bigint, batch bigint,
  previous_batch bigint, on_time bigint, late bigint);
CREATE TYPE gradstream.lease_reply AS (outcome integer, leader text, term bigint, until_ms bigint);
)sql";

// A change of the fleet takes the next number of the cluster, and gives it to the rows that it writes. It keeps the
// cluster's row until it is committed. So numbers are committed in their order, and who has read up to one has all
// below it.
constexpr char kFleetChanges[] = R"sql(
CREATE INDEX device_change ON gradstream.device(change, device);
CREATE INDEX claim_change ON gradstream.claim(change, claim);
)sql";

// The updates of a run whose rule has a memory: of the open version those that batches have brought, and of the
// versions before it the last one of each device.
constexpr char kKeptUpdates[] = R"sql(
CREATE TABLE gradstream.kept_update(
  run bigint, device bigint, base_version bigint,
  version bigint NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (run, device, base_version));
ALTER TABLE gradstream.kept_update ALTER content SET STORAGE EXTERNAL;
)sql";

// What an operator is told of a node. It is no part of what nodes decide by.
constexpr char kNode[] = R"sql(
CREATE TABLE gradstream.node(
  run bigint, node text,
  release text NOT NULL,
  since timestamptz NOT NULL,
  seen timestamptz NOT NULL,
  PRIMARY KEY (run, node)) WITH (fillfactor = 10);
)sql";

// The run's row is locked before the front's, as publish_version() does. So a new front finds the open version. The
// version cannot move before the front's row is there.
constexpr char kJoin[] = R"sql(
CREATE FUNCTION gradstream.join_run(the_run bigint, the_node text, the_release text) RETURNS gradstream.front_reply
LANGUAGE plpgsql AS $$
DECLARE
  now_open bigint;
  f gradstream.front;
BEGIN
  SELECT r.open_version + r.is_sealed::int INTO now_open FROM gradstream.run r WHERE r.run = the_run FOR SHARE;
  INSERT INTO gradstream.front AS old VALUES (the_run, the_node, 1, now_open, 0, 0, 0, 0)
  ON CONFLICT (run, node) DO UPDATE SET
    epoch = old.epoch + 1, previous_batch = old.batch, batch = 0, open_version = now_open,
    on_time = CASE WHEN old.open_version = now_open THEN old.on_time ELSE 0 END,
    late = CASE WHEN old.open_version = now_open THEN old.late ELSE 0 END
  RETURNING * INTO f;
  INSERT INTO gradstream.node VALUES (the_run, the_node, the_release, clock_timestamp(), clock_timestamp())
  ON CONFLICT (run, node) DO UPDATE SET release = excluded.release, since = excluded.since, seen = excluded.seen;
  RETURN (0, f.epoch, f.open_version, f.batch, f.previous_batch, f.on_time, f.late)::gradstream.front_reply;
END $$;
)sql";

// The front's row comes first: it is the fence that publish_version() moves. Rows of devices are locked in their order,
// so that two batches with the same devices cannot wait for each other. A device without a row gets one. Where another
// batch gives it one at the same time, the block takes back what it has written.
constexpr char kCommit[] = R"sql(
CREATE FUNCTION gradstream.commit_batch(the_run bigint, the_node text, the_epoch bigint, the_version bigint,
  the_number bigint, devices bigint[], sequences bigint[], opens boolean[], next_sequences bigint[],
  next_opens boolean[], contents bytea[], more_on_time bigint, more_late bigint, the_sum bytea,
  update_devices bigint[], update_bases bigint[], update_contents bytea[])
RETURNS gradstream.front_reply LANGUAGE plpgsql AS $$
DECLARE
  f gradstream.front;
  known bigint;
  fitting bigint;
  added bigint;
BEGIN
  SELECT * INTO f FROM gradstream.front o WHERE o.run = the_run AND o.node = the_node FOR UPDATE;
  IF NOT FOUND OR f.epoch <> the_epoch OR f.open_version <> the_version OR f.batch + 1 <> the_number THEN
    RETURN (1, f.epoch, f.open_version, f.batch, f.previous_batch, f.on_time, f.late)::gradstream.front_reply;
  END IF;
  SELECT count(*), count(*) FILTER (WHERE l.task_sequence = c.sequence AND l.is_open = c.is_open) INTO known, fitting
  FROM (SELECT d.device, d.task_sequence, d.is_open FROM gradstream.run_device d
        WHERE d.run = the_run AND d.device = ANY (devices) ORDER BY d.device FOR UPDATE) l
  JOIN unnest(devices, sequences, opens) c(device, sequence, is_open) ON c.device = l.device;
  IF fitting <> known THEN
    RETURN (2, f.epoch, f.open_version, f.batch, f.previous_batch, f.on_time, f.late)::gradstream.front_reply;
  END IF;
  IF known < cardinality(devices) THEN
    BEGIN
      INSERT INTO gradstream.run_device
      SELECT the_run, c.device, c.next_sequence, c.next_open, c.content
      FROM unnest(devices, sequences, opens, next_sequences, next_opens, contents)
        c(device, sequence, is_open, next_sequence, next_open, content)
      WHERE c.sequence = 0 AND NOT c.is_open
        AND NOT EXISTS (SELECT FROM gradstream.run_device k WHERE k.run = the_run AND k.device = c.device)
      ORDER BY c.device ON CONFLICT DO NOTHING;
      GET DIAGNOSTICS added = ROW_COUNT;
      IF known + added <> cardinality(devices) THEN
        RAISE EXCEPTION USING ERRCODE = 'GS001';
      END IF;
    EXCEPTION WHEN SQLSTATE 'GS001' THEN
      RETURN (2, f.epoch, f.open_version, f.batch, f.previous_batch, f.on_time, f.late)::gradstream.front_reply;
    END;
  END IF;
  IF known > 0 THEN
    UPDATE gradstream.run_device d SET task_sequence = c.sequence, is_open = c.is_open, content = c.content
    FROM unnest(devices, next_sequences, next_opens, contents) c(device, sequence, is_open, content)
    WHERE d.run = the_run AND d.device = c.device;
  END IF;
  UPDATE gradstream.front o SET batch = the_number, on_time = o.on_time + more_on_time, late = o.late + more_late
  WHERE o.run = the_run AND o.node = the_node RETURNING * INTO f;
  IF the_sum IS NOT NULL THEN
    INSERT INTO gradstream.partial VALUES (the_run, the_version, the_node, the_epoch, the_number, the_sum);
  END IF;
  IF cardinality(update_devices) > 0 THEN
    INSERT INTO gradstream.kept_update SELECT the_run, u.device, u.base_version, the_version, u.content
    FROM unnest(update_devices, update_bases, update_contents) u(device, base_version, content);
  END IF;
  RETURN (0, f.epoch, f.open_version, f.batch, f.previous_batch, f.on_time, f.late)::gradstream.front_reply;
END $$;
)sql";

// A batch that is still running holds the front's row, and this waits for its end. A batch that comes to the row later
// finds another epoch. The row is written whatever the answer is, so that the answer waits for the standby. Reason: the
// batch that it tells of may be committed on the primary alone.
constexpr char kResolve[] = R"sql(
CREATE FUNCTION gradstream.resolve_batch(the_run bigint, the_node text, the_epoch bigint, the_number bigint)
RETURNS gradstream.front_reply LANGUAGE plpgsql AS $$
DECLARE
  now_open bigint;
  f gradstream.front;
BEGIN
  SELECT * INTO f FROM gradstream.front o WHERE o.run = the_run AND o.node = the_node FOR UPDATE;
  IF f.epoch = the_epoch THEN
    SELECT r.open_version + r.is_sealed::int INTO now_open FROM gradstream.run r WHERE r.run = the_run;
    UPDATE gradstream.front o SET epoch = o.epoch + 1, previous_batch = o.batch, batch = 0, open_version = now_open,
      on_time = CASE WHEN o.open_version = now_open THEN o.on_time ELSE 0 END,
      late = CASE WHEN o.open_version = now_open THEN o.late ELSE 0 END
    WHERE o.run = the_run AND o.node = the_node RETURNING * INTO f;
  ELSE
    UPDATE gradstream.front o SET epoch = o.epoch WHERE o.run = the_run AND o.node = the_node;
  END IF;
  RETURN (CASE WHEN f.epoch IS DISTINCT FROM the_epoch + 1 THEN 2 WHEN f.previous_batch >= the_number THEN 0 ELSE 1 END,
    f.epoch, f.open_version, f.batch, f.previous_batch, f.on_time, f.late)::gradstream.front_reply;
END $$;
)sql";

// Each node calls it all the time, and so it says with it that it runs. It does so once a second, in a row of its own:
// a front's row is the fence of its batches. That alone waits for no standby.
constexpr char kTakeLease[] = R"sql(
CREATE FUNCTION gradstream.take_lease(the_run bigint, the_node text, lease_ms bigint) RETURNS gradstream.lease_reply
LANGUAGE plpgsql AS $$
DECLARE
  r gradstream.run;
  outcome integer := 0;
BEGIN
  UPDATE gradstream.run o SET leader = the_node, term = CASE WHEN o.leader = the_node THEN o.term ELSE o.term + 1 END,
    lease_until = clock_timestamp() + lease_ms * interval '1 ms'
  WHERE o.run = the_run AND (o.leader = the_node OR o.lease_until <= clock_timestamp()) RETURNING * INTO r;
  IF NOT FOUND THEN
    outcome := 1;
    SELECT * INTO r FROM gradstream.run o WHERE o.run = the_run;
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  UPDATE gradstream.node o SET seen = clock_timestamp()
  WHERE o.run = the_run AND o.node = the_node AND abs(extract(epoch FROM clock_timestamp() - o.seen)) >= 1;
  RETURN (outcome, r.leader, r.term, floor(extract(epoch FROM r.lease_until) * 1000))::gradstream.lease_reply;
END $$;
)sql";

// Whoever takes it next does so in another term, also the same node: what this one still has under way is cut.
constexpr char kReleaseLease[] = R"sql(
CREATE FUNCTION gradstream.release_lease(the_run bigint, the_node text, the_term bigint)
RETURNS gradstream.lease_reply LANGUAGE plpgsql AS $$
DECLARE
  r gradstream.run;
  outcome integer := 0;
BEGIN
  UPDATE gradstream.run o SET leader = '', lease_until = least(o.lease_until, clock_timestamp())
  WHERE o.run = the_run AND o.leader = the_node AND o.term = the_term RETURNING * INTO r;
  IF NOT FOUND THEN
    outcome := 1;
    SELECT * INTO r FROM gradstream.run o WHERE o.run = the_run;
  END IF;
  RETURN (outcome, r.leader, r.term, floor(extract(epoch FROM r.lease_until) * 1000))::gradstream.lease_reply;
END $$;
)sql";

// seal_version() locks the rows of all fronts: a batch under way ends first, or comes later and finds the cut. So the
// sums and updates that publish_version() counts are a fixed set. Whoever changes the run's state writes the row that
// is locked here, and so the version is sealed before that or not at all.
constexpr char kSeal[] = R"sql(
CREATE FUNCTION gradstream.seal_version(the_run bigint, the_node text, the_term bigint, the_version bigint)
RETURNS gradstream.lease_reply LANGUAGE plpgsql AS $$
DECLARE
  r gradstream.run;
  outcome integer := 1;
BEGIN
  SELECT * INTO r FROM gradstream.run o WHERE o.run = the_run FOR UPDATE;
  IF r.leader = the_node AND r.term = the_term AND r.open_version = the_version
    AND (r.is_sealed OR r.state = 0) THEN
    outcome := 0;
    PERFORM 1 FROM gradstream.front o WHERE o.run = the_run ORDER BY o.node FOR UPDATE;
    UPDATE gradstream.run o SET is_sealed = true WHERE o.run = the_run;
    UPDATE gradstream.front o SET open_version = the_version + 1 WHERE o.run = the_run;
  END IF;
  RETURN (outcome, r.leader, r.term, floor(extract(epoch FROM r.lease_until) * 1000))::gradstream.lease_reply;
END $$;
)sql";

constexpr char kPublish[] = R"sql(
CREATE FUNCTION gradstream.publish_version(the_run bigint, the_node text, the_term bigint, sum_count bigint,
  the_version bigint, the_record bytea, forgotten bigint[]) RETURNS gradstream.lease_reply
LANGUAGE plpgsql AS $$
DECLARE
  r gradstream.run;
  outcome integer := 1;
BEGIN
  SELECT * INTO r FROM gradstream.run o WHERE o.run = the_run FOR UPDATE;
  IF r.leader = the_node AND r.term = the_term AND r.open_version + 1 = the_version AND r.is_sealed THEN
    PERFORM 1 FROM gradstream.front o WHERE o.run = the_run ORDER BY o.node FOR UPDATE;
    IF (SELECT count(*) FROM gradstream.partial p WHERE p.run = the_run AND p.version = r.open_version)
      + (SELECT count(*) FROM gradstream.kept_update u WHERE u.run = the_run AND u.version = r.open_version)
      = sum_count THEN
      outcome := 0;
      UPDATE gradstream.run o SET open_version = the_version, is_sealed = false WHERE o.run = the_run;
      UPDATE gradstream.front o SET on_time = 0, late = 0 WHERE o.run = the_run;
      INSERT INTO gradstream.version VALUES (the_run, the_version, the_term, the_record);
      DELETE FROM gradstream.partial p WHERE p.run = the_run AND p.version = the_version - 1;
      DELETE FROM gradstream.kept_update u WHERE u.run = the_run AND (u.device = ANY (forgotten) OR EXISTS (
        SELECT FROM gradstream.kept_update n
        WHERE n.run = the_run AND n.device = u.device AND n.base_version > u.base_version));
    END IF;
  END IF;
  RETURN (outcome, r.leader, r.term, floor(extract(epoch FROM r.lease_until) * 1000))::gradstream.lease_reply;
END $$;
)sql";

// A read alone would not wait for the standby. A row may be visible whose transaction the standby lacks: its commit was
// cut in its wait, or the primary was started again. A device must get no Ack from that, and no node may follow such a
// version. So the reader writes a message to the log: its own commit then waits, and the log is durable in its order.
// Nodes ask for new versions all the time: where there is none, nothing is told, and nothing has to wait.
constexpr char kReads[] = R"sql(
CREATE FUNCTION gradstream.load_devices(the_run bigint, devices bigint[])
RETURNS TABLE (found_device bigint, found_content bytea) LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT d.device, d.content FROM gradstream.run_device d
    WHERE d.run = the_run AND d.device = ANY (devices);
  PERFORM pg_logical_emit_message(true, 'gradstream', '');
END $$;
CREATE FUNCTION gradstream.read_versions(the_run bigint, from_version bigint, most bigint)
RETURNS TABLE (found_version bigint, found_content bytea) LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT v.version, v.content FROM gradstream.version v
    WHERE v.run = the_run AND v.version >= from_version ORDER BY v.version LIMIT most;
  IF FOUND THEN
    PERFORM pg_logical_emit_message(true, 'gradstream', '');
  END IF;
END $$;
)sql";

// The same. A node asks for it all the time too, and says what it knows of it: only something else has to wait.
constexpr char kReadState[] = R"sql(
CREATE FUNCTION gradstream.read_state(the_run bigint, known_state bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  now_state bigint;
BEGIN
  SELECT r.state INTO now_state FROM gradstream.run r WHERE r.run = the_run;
  IF now_state <> known_state THEN
    PERFORM pg_logical_emit_message(true, 'gradstream', '');
  END IF;
  RETURN now_state;
END $$;
)sql";

// As the reads above. A device that was refused by a change, and let in again since a fail-over has lost that change,
// would be another fleet for each node.
constexpr char kReadFleet[] = R"sql(
CREATE FUNCTION gradstream.read_fleet(device_change bigint, device_number bigint, claim_change bigint,
  claim_number bigint, most bigint, most_bytes bigint)
RETURNS TABLE (found_kind integer, found_number bigint, found_name text, found_content bytea, found_change bigint)
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT part.kind, part.number, part.name, part.content, part.change FROM (
    SELECT u.*, row_number() OVER places AS place, sum(octet_length(u.content)) OVER places AS bytes FROM (
      (SELECT 1 AS kind, d.device AS number, d.name, d.content, d.change FROM gradstream.device d
       WHERE (d.change, d.device) >= (device_change, device_number) ORDER BY d.change, d.device LIMIT most)
      UNION ALL
      (SELECT 2, c.claim, c.name, c.content, c.change FROM gradstream.claim c
       WHERE (c.change, c.claim) >= (claim_change, claim_number) ORDER BY c.change, c.claim LIMIT most)) u
    WINDOW places AS (ORDER BY u.change, u.kind, u.number) ORDER BY u.change, u.kind, u.number LIMIT most) part
  WHERE part.place = 1 OR part.bytes <= most_bytes ORDER BY part.change, part.kind, part.number;
  IF FOUND THEN
    PERFORM pg_logical_emit_message(true, 'gradstream', '');
  END IF;
END $$;
)sql";

// What version 2 has beyond version 1. What is added stands at the end of its table, so that both ways lead to the same
// tables.
constexpr char kColumnsOf2[] = R"sql(
ALTER TABLE gradstream.cluster ADD fleet_change bigint NOT NULL DEFAULT 0;
ALTER TABLE gradstream.device ADD change bigint NOT NULL DEFAULT 0;
ALTER TABLE gradstream.claim ADD change bigint NOT NULL DEFAULT 0;
ALTER TABLE gradstream.run ADD state bigint NOT NULL DEFAULT 0;
DROP FUNCTION gradstream.join_run(bigint, text);
DROP FUNCTION gradstream.take_lease(bigint, text, bigint);
DROP FUNCTION gradstream.commit_batch(bigint, text, bigint, bigint, bigint, bigint[], bigint[], boolean[], bigint[],
  boolean[], bytea[], bigint, bigint, bytea);
DROP FUNCTION gradstream.seal_version(bigint, text, bigint, bigint);
DROP FUNCTION gradstream.publish_version(bigint, text, bigint, bigint, bigint, bytea);
UPDATE gradstream.cluster SET schema_version = 2;
)sql";

}  // namespace

const char* engine_schema_text() {
  static const std::string text = std::string(kTables) + kFleetChanges + kKeptUpdates + kNode + kJoin + kCommit +
                                  kResolve + kTakeLease + kReleaseLease + kSeal + kPublish + kReads + kReadState +
                                  kReadFleet;
  return text.c_str();
}

std::string engine_migration_text(uint64_t from) {
  return from == 1 ? std::string(kColumnsOf2) + kFleetChanges + kKeptUpdates + kNode + kJoin + kCommit + kTakeLease +
                         kReleaseLease + kSeal + kPublish + kReadState + kReadFleet
                   : std::string();
}

Objection init_engine(const std::string& server, uint32_t deadline_ms) {
  EngineSession session(deadline_ms);
  std::string schema, version;
  Objection objection = session.open(server);
  objection = objection ? objection : session.execute("SELECT to_regclass('gradstream.cluster')", &schema);
  if (objection || schema.empty()) {
    return objection ? objection : session.execute(engine_schema_text());
  }
  objection = session.execute("SELECT schema_version FROM gradstream.cluster", &version);
  if (!objection && version != std::to_string(kEngineSchemaVersion)) {
    return "the engine's schema is of version " + version + ", and this release makes " +
           std::to_string(kEngineSchemaVersion) + ". Use the release that made it, or another database.";
  }
  return objection;
}

Objection add_engine_run(const std::string& server, uint32_t run, uint32_t deadline_ms) {
  EngineSession session(deadline_ms);
  const Objection objection = session.open(server);
  return objection ? objection
                   : session.execute("INSERT INTO gradstream.run(run) VALUES (" + std::to_string(run) +
                                     ") ON CONFLICT DO NOTHING");
}

}  // namespace gradstream
