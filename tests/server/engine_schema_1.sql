-- What gradstream engine init made of an empty database in version 1 of the schema: for the test of migrate.
CREATE SCHEMA gradstream;
CREATE TABLE gradstream.cluster(
  is_it boolean PRIMARY KEY DEFAULT true CHECK (is_it),
  schema_version bigint NOT NULL,
  incarnation text NOT NULL);
INSERT INTO gradstream.cluster(schema_version, incarnation) VALUES (1, gen_random_uuid()::text);
CREATE TABLE gradstream.run(
  run bigint PRIMARY KEY,
  open_version bigint NOT NULL DEFAULT 0,
  is_sealed boolean NOT NULL DEFAULT false,
  leader text NOT NULL DEFAULT '',
  term bigint NOT NULL DEFAULT 0,
  lease_until timestamptz NOT NULL DEFAULT 'epoch') WITH (fillfactor = 10);
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
  device bigint PRIMARY KEY, name text NOT NULL UNIQUE, content bytea NOT NULL);
CREATE TABLE gradstream.claim(
  claim bigint PRIMARY KEY, name text NOT NULL UNIQUE, content bytea NOT NULL);
CREATE TYPE gradstream.front_reply AS (outcome integer, epoch bigint, open_version bigint, batch bigint,
  previous_batch bigint, on_time bigint, late bigint);
CREATE TYPE gradstream.lease_reply AS (outcome integer, leader text, term bigint, until_ms bigint);
CREATE FUNCTION gradstream.join_run(the_run bigint, the_node text) RETURNS gradstream.front_reply
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
  RETURN (0, f.epoch, f.open_version, f.batch, f.previous_batch, f.on_time, f.late)::gradstream.front_reply;
END $$;
CREATE FUNCTION gradstream.commit_batch(the_run bigint, the_node text, the_epoch bigint, the_version bigint,
  the_number bigint, devices bigint[], sequences bigint[], opens boolean[], next_sequences bigint[],
  next_opens boolean[], contents bytea[], more_on_time bigint, more_late bigint, the_sum bytea)
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
  RETURN (0, f.epoch, f.open_version, f.batch, f.previous_batch, f.on_time, f.late)::gradstream.front_reply;
END $$;
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
  END IF;
  RETURN (outcome, r.leader, r.term, floor(extract(epoch FROM r.lease_until) * 1000))::gradstream.lease_reply;
END $$;
CREATE FUNCTION gradstream.seal_version(the_run bigint, the_node text, the_term bigint, the_version bigint)
RETURNS gradstream.lease_reply LANGUAGE plpgsql AS $$
DECLARE
  r gradstream.run;
  outcome integer := 1;
BEGIN
  SELECT * INTO r FROM gradstream.run o WHERE o.run = the_run FOR UPDATE;
  IF r.leader = the_node AND r.term = the_term AND r.open_version = the_version THEN
    outcome := 0;
    PERFORM 1 FROM gradstream.front o WHERE o.run = the_run ORDER BY o.node FOR UPDATE;
    UPDATE gradstream.run o SET is_sealed = true WHERE o.run = the_run;
    UPDATE gradstream.front o SET open_version = the_version + 1 WHERE o.run = the_run;
  END IF;
  RETURN (outcome, r.leader, r.term, floor(extract(epoch FROM r.lease_until) * 1000))::gradstream.lease_reply;
END $$;
CREATE FUNCTION gradstream.publish_version(the_run bigint, the_node text, the_term bigint, sum_count bigint,
  the_version bigint, the_record bytea) RETURNS gradstream.lease_reply
LANGUAGE plpgsql AS $$
DECLARE
  r gradstream.run;
  outcome integer := 1;
BEGIN
  SELECT * INTO r FROM gradstream.run o WHERE o.run = the_run FOR UPDATE;
  IF r.leader = the_node AND r.term = the_term AND r.open_version + 1 = the_version AND r.is_sealed THEN
    PERFORM 1 FROM gradstream.front o WHERE o.run = the_run ORDER BY o.node FOR UPDATE;
    IF (SELECT count(*) FROM gradstream.partial p WHERE p.run = the_run AND p.version = r.open_version) = sum_count THEN
      outcome := 0;
      UPDATE gradstream.run o SET open_version = the_version, is_sealed = false WHERE o.run = the_run;
      UPDATE gradstream.front o SET on_time = 0, late = 0 WHERE o.run = the_run;
      INSERT INTO gradstream.version VALUES (the_run, the_version, the_term, the_record);
      DELETE FROM gradstream.partial p WHERE p.run = the_run AND p.version = the_version - 1;
    END IF;
  END IF;
  RETURN (outcome, r.leader, r.term, floor(extract(epoch FROM r.lease_until) * 1000))::gradstream.lease_reply;
END $$;
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
