-- A database of format 1, of the first release (commit 3546d1e): what its server and two of its clients made of a run by
-- gradient_stream, finished, and of one by projection, killed in its fourth round while device b had a task and device
-- a's answer was in. The keys are replaced. Never written anew: its point is that no later program has touched it.
PRAGMA journal_mode=WAL;
PRAGMA application_id=0x47536462;
BEGIN;
CREATE TABLE devices (device_index INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key BLOB NOT NULL, revoked INTEGER NOT NULL, created_ms INTEGER NOT NULL) STRICT;
INSERT INTO "devices" VALUES(0,'a',X'0101010101010101010101010101010101010101010101010101010101010101',0,1795470485346);
INSERT INTO "devices" VALUES(1,'b',X'0202020202020202020202020202020202020202020202020202020202020202',0,1795470485371);
INSERT INTO "devices" VALUES(2,'gone',X'0303030303030303030303030303030303030303030303030303030303030303',1,1795470485400);
CREATE TABLE journal (run INTEGER NOT NULL REFERENCES runs(id), sequence INTEGER NOT NULL, kind INTEGER NOT NULL, device INTEGER NOT NULL, task_sequence INTEGER NOT NULL, version INTEGER NOT NULL, base_version INTEGER NOT NULL, steps_done INTEGER NOT NULL, weight INTEGER NOT NULL, verdict INTEGER NOT NULL, reason INTEGER NOT NULL, detail INTEGER NOT NULL, step_scale REAL NOT NULL, loss_before REAL NOT NULL, loss_after REAL NOT NULL, digest INTEGER NOT NULL, time_ms INTEGER NOT NULL, payload BLOB NOT NULL, crc32c INTEGER NOT NULL, PRIMARY KEY (run, sequence)) STRICT, WITHOUT ROWID;
INSERT INTO "journal" VALUES(1,1,4,0,0,0,0,0,0,0,0,0,0.0,0.0,0.0,-660104745810070328,1795470485456,X'F054853EF8EA033F8161BA3EB97FDA3CBBD085BEB49397BCB2D09D3E36AB1B3F',2317766535);
INSERT INTO "journal" VALUES(1,2,1,1,1,0,0,0,0,0,0,0,0.0,0.0,0.0,0,1795470485471,X'',3887900098);
INSERT INTO "journal" VALUES(1,3,1,0,1,0,0,0,0,0,0,0,0.0,0.0,0.0,0,1795470485472,X'',2514688675);
INSERT INTO "journal" VALUES(1,4,2,1,1,1,0,2,4,1,0,0,0.0,-1.29984649658203125003e+02,-2.0415791320800781251e+02,0,1795470485474,X'0080613D0000CDBC00C0423D00C0423E0070A13E0000763E00D0073E00C0193D',3197445316);
INSERT INTO "journal" VALUES(1,5,2,0,1,1,0,2,4,1,0,0,0.0,-1.29984649658203125003e+02,-2.0415791320800781251e+02,0,1795470485474,X'0080613D0000CDBC00C0423D00C0423E0070A13E0000763E00D0073E00C0193D',3677891493);
INSERT INTO "journal" VALUES(1,6,4,0,0,1,0,0,0,0,0,1,2.0,0.0,0.0,-2831835826369203129,1795470485474,X'0D42923E3B45E33E79CEBE3E112D493E41DD483DD0B94D3E5469CC3E64A6153F',736328245);
INSERT INTO "journal" VALUES(1,7,1,1,2,1,0,0,0,0,0,0,0.0,0.0,0.0,0,1795470485480,X'',1381336174);
INSERT INTO "journal" VALUES(1,8,1,0,2,1,0,0,0,0,0,0,0.0,0.0,0.0,0,1795470485481,X'',1778521317);
INSERT INTO "journal" VALUES(1,9,2,1,2,2,1,2,4,1,0,0,0.0,-2.62693817138671874993e+02,-7.18062667846679687517e+01,0,1795470485483,X'00C0F6BD00A09E3E00000D3D009C13BF00CC8ABF00D82BBF00C0F6BD00B0CA3E',2212025257);
INSERT INTO "journal" VALUES(1,10,2,0,2,2,1,2,4,1,0,0,0.0,-2.62693817138671874993e+02,-7.18062667846679687517e+01,0,1795470485483,X'00C0F6BD00A09E3E00000D3D009C13BF00CC8ABF00D82BBF00C0F6BD00B0CA3E',3490628250);
INSERT INTO "journal" VALUES(1,11,4,0,0,2,0,0,0,0,0,1,2.0,0.0,0.0,7882340195311368277,1795470485483,X'CA8DBC3D7F96D63EE7F6673E36F757BE6C3013BFE9A285BEE8011F3EF9920B3F',972781769);
INSERT INTO "journal" VALUES(1,12,5,0,0,2,0,0,0,0,0,3,0.0,0.0,0.0,0,1795470485483,X'',2360452832);
INSERT INTO "journal" VALUES(2,1,4,0,0,0,0,0,0,0,0,0,0.0,0.0,0.0,-6375182625032741065,1795470485538,X'AFF0193E773BCC3EAA4B4D3E7A22D13CE16213BE821692BC792E363E7602F13EC28907BFD6ADF8BD6E5C2DBECB80F4BE3CDBF03D8BC5CF3E8AEB3FBF911CEB3E',3825899324);
INSERT INTO "journal" VALUES(2,2,1,0,1,0,0,0,0,0,0,0,0.0,0.0,0.0,0,1795470485559,X'',2714679436);
INSERT INTO "journal" VALUES(2,3,1,1,1,0,0,0,0,0,0,0,0.0,0.0,0.0,0,1795470485559,X'',3800394270);
INSERT INTO "journal" VALUES(2,4,2,0,1,1,0,2,4,1,0,0,0.0,-104.441650390625,-7.02413177490234375e+01,0,1795470485561,X'1856204250A313C2D8E5204200E62A42',2187880511);
INSERT INTO "journal" VALUES(2,5,2,1,1,1,0,2,4,1,0,0,0.0,-104.441650390625,-7.02413177490234375e+01,0,1795470486162,X'1856204250A313C2D8E5204200E62A42',1099024536);
INSERT INTO "journal" VALUES(2,6,4,0,0,1,0,0,0,0,0,1,2.00000002980232238769e-01,0.0,0.0,6990803634832576928,1795470486162,X'01000000000000000000000004000000011856A04150A393C1D8E5A04100E6AA41',1660197871);
INSERT INTO "journal" VALUES(2,7,1,0,2,1,0,0,0,0,0,0,0.0,0.0,0.0,0,1795470486165,X'',477601834);
INSERT INTO "journal" VALUES(2,8,1,1,2,1,0,0,0,0,0,0,0.0,0.0,0.0,0,1795470486170,X'',3581824088);
INSERT INTO "journal" VALUES(2,9,2,0,2,2,1,2,4,1,0,0,0.0,-1.55016998291015624996e+02,-1.1484928131103515625e+01,0,1795470486170,X'D85ACCC2B8F1F5C20081263EAAC6ACC1',861485686);
INSERT INTO "journal" VALUES(2,10,2,1,2,2,1,2,4,1,0,0,0.0,-1.55016998291015624996e+02,-1.1484928131103515625e+01,0,1795470486775,X'D85ACCC2B8F1F5C20081263EAAC6ACC1',1799044213);
INSERT INTO "journal" VALUES(2,11,4,0,0,2,0,0,0,0,0,1,2.00000002980232238769e-01,0.0,0.0,-8416213691481292285,1795470486775,X'0100000001000000000000000400000001D85A4CC2B8F175C20081A63DAAC62CC1',62215810);
INSERT INTO "journal" VALUES(2,12,1,0,3,2,0,0,0,0,0,0,0.0,0.0,0.0,0,1795470486779,X'',2018277267);
INSERT INTO "journal" VALUES(2,13,1,1,3,2,0,0,0,0,0,0,0.0,0.0,0.0,0,1795470486782,X'',1395022411);
INSERT INTO "journal" VALUES(2,14,2,0,3,3,2,2,4,1,0,0,0.0,-1.49256772994995117191e+01,-8.01567230224609375034e+01,0,1795470486782,X'F623FEC1C024AC41A0717241708C5AC2',2363651471);
INSERT INTO "journal" VALUES(2,15,2,1,3,3,2,2,4,1,0,0,0.0,-1.49256772994995117191e+01,-8.01567230224609375034e+01,0,1795470487387,X'F623FEC1C024AC41A0717241708C5AC2',1768917090);
INSERT INTO "journal" VALUES(2,16,4,0,0,3,0,0,0,0,0,1,2.00000002980232238769e-01,0.0,0.0,6546953870153521302,1795470487387,X'0100000002000000000000000400000001F6237EC1C0242C41A071F240708CDAC1',2360643215);
INSERT INTO "journal" VALUES(2,17,1,0,4,3,0,0,0,0,0,0,0.0,0.0,0.0,0,1795470487395,X'',698784236);
INSERT INTO "journal" VALUES(2,18,1,1,4,3,0,0,0,0,0,0,0.0,0.0,0.0,0,1795470487398,X'',3521718640);
INSERT INTO "journal" VALUES(2,19,2,0,4,4,3,2,4,1,0,0,0.0,-1.20652862548828125003e+02,-3.27544174194335937491e+01,0,1795470487399,X'4CC98A42002BDE40046F3442E26EAEC2',3748711455);
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO "meta" VALUES('schema_version',1);
CREATE TABLE runs (id INTEGER PRIMARY KEY, name TEXT NOT NULL, parameters TEXT NOT NULL, source TEXT NOT NULL, digest INTEGER NOT NULL, state INTEGER NOT NULL, created_ms INTEGER NOT NULL) STRICT;
INSERT INTO "runs" VALUES(1,'int8','name = int8
seed = 1
manifold = sphere
rows = 8
cols = 1
problem = kpca
solver = gradient_stream
estimator = analytic_gradient
directions = sphere
direction_count = 2
group_count = 1
local_step_count = 2
smoothing = 0.01
batch_mode = common
batch_size = 32
use_correction = false
step_size = 0.1
step_decay = 0
server_step = 1
upload_encoding = int8
record_encoding = f32
log_size_max = 0
fold_scale_log2 = 24
fold_weight = sample_count
fold_weight_max = 65535
round_count = 2
device_count = 2
update_goal = 0
report_deadline_ms = 60000
update_min = 0
extension_count_max = 3
late = drop
staleness_table = inverse_sqrt
staleness_exponent = 0.5
staleness_hinge = 4
staleness_max = 8
steps_min = 0
task_deadline_ms = 0
retry_min_ms = 1
retry_max_ms = 5
','[run]
name = "int8"
seed = 1
manifold = "sphere"
rows = 8
cols = 1
problem = "kpca"
solver = "gradient_stream"
estimator = "analytic_gradient"
directions = "sphere"
direction_count = 2
group_count = 1
local_step_count = 2
smoothing = 0.01
batch_mode = "common"
batch_size = 32
use_correction = false
step_size = 0.1
step_decay = 0
server_step = 1
upload_encoding = "int8"
record_encoding = "f32"
log_size_max = 0
fold_scale_log2 = 24
fold_weight = "sample_count"
fold_weight_max = 65535
round_count = 2
device_count = 2
update_goal = 0
report_deadline_ms = 60000
update_min = 0
extension_count_max = 3
late = "drop"
staleness_table = "inverse_sqrt"
staleness_exponent = 0.5
staleness_hinge = 4
staleness_max = 8
steps_min = 0
task_deadline_ms = 0
retry_min_ms = 1
retry_max_ms = 5
',6746681872110688627,3,1795470485447);
INSERT INTO "runs" VALUES(2,'streams','name = streams
seed = 1
manifold = stiefel
rows = 8
cols = 2
problem = kpca
solver = projection
estimator = projection_one_sided
directions = sign
direction_count = 2
group_count = 1
local_step_count = 2
smoothing = 0.01
batch_mode = common
batch_size = 32
use_correction = true
step_size = 0.1
step_decay = 0
server_step = 1
upload_encoding = f32
record_encoding = f32
log_size_max = 0
fold_scale_log2 = 24
fold_weight = sample_count
fold_weight_max = 65535
round_count = 6
device_count = 2
update_goal = 0
report_deadline_ms = 60000
update_min = 0
extension_count_max = 3
late = drop
staleness_table = inverse_sqrt
staleness_exponent = 0.5
staleness_hinge = 4
staleness_max = 8
steps_min = 0
task_deadline_ms = 0
retry_min_ms = 1
retry_max_ms = 5
','[run]
name = "streams"
seed = 1
manifold = "stiefel"
rows = 8
cols = 2
problem = "kpca"
solver = "projection"
estimator = "projection_one_sided"
directions = "sign"
direction_count = 2
group_count = 1
local_step_count = 2
smoothing = 0.01
batch_mode = "common"
batch_size = 32
use_correction = true
step_size = 0.1
step_decay = 0
server_step = 1
upload_encoding = "f32"
record_encoding = "f32"
log_size_max = 0
fold_scale_log2 = 24
fold_weight = "sample_count"
fold_weight_max = 65535
round_count = 6
device_count = 2
update_goal = 0
report_deadline_ms = 60000
update_min = 0
extension_count_max = 3
late = "drop"
staleness_table = "inverse_sqrt"
staleness_exponent = 0.5
staleness_hinge = 4
staleness_max = 8
steps_min = 0
task_deadline_ms = 0
retry_min_ms = 1
retry_max_ms = 5
',-2226321601697329648,1,1795470485509);
COMMIT;
