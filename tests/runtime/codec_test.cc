// Messages to bytes and back: packets of every released version decode for ever, and what a message can get wrong by
// itself is refused here.
//
// The golden packets were made by protoc's Python code from proto/gradstream.proto, not by our encoder.
#include "runtime/wire/codec.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/config.h"

namespace gradstream {
namespace {

using Bytes = std::vector<uint8_t>;

// Hexadecimal digits of a file; lines that begin with # are comments.
Bytes read_hex(const std::string& name) {
  std::ifstream file(std::string(GS_SOURCE_DIR "/tests/golden/packets/") + name + ".hex");
  EXPECT_TRUE(file.is_open()) << name;
  Bytes bytes;
  std::string line;
  while (std::getline(file, line)) {
    for (size_t i = 0; line[0] != '#' && i + 1 < line.size(); i += 2) {
      bytes.push_back(static_cast<uint8_t>(std::stoul(line.substr(i, 2), nullptr, 16)));
    }
  }
  return bytes;
}

template <typename Message>
Bytes encode(const Message& message) {
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_frame(message, frame);
  EXPECT_EQ(size.status(), Status::kOk);
  return size.ok() ? Bytes(frame + kFramePrefixSize, frame + size.value()) : Bytes();
}

template <typename Message>
Status decode_status(const Message& message) {
  Message out;
  return decode_message(encode(message), &out);
}

template <typename Field>
void fill_values(Field& values, size_t size, uint8_t start) {
  values.size = static_cast<pb_size_t>(size);
  for (size_t i = 0; i < size; ++i) {
    values.bytes[i] = static_cast<uint8_t>(start + i);
  }
}

// ---- What each golden packet of version 1 says ----

DeviceMessage make_hello() {
  DeviceMessage m = {};
  m.which_body = gs_DeviceMessage_hello_tag;
  gs_Hello& hello = m.body.hello;
  hello.protocol_version = 1;
  std::strcpy(hello.firmware_version, "0.1.0");
  hello.has_capabilities = true;
  hello.capabilities.manifolds = 14;
  hello.capabilities.solvers = 6;
  hello.capabilities.estimators = 14;
  hello.capabilities.encodings = 14;
  hello.capabilities.arena_size = 12288;
  hello.capabilities.problems_count = 2;
  std::strcpy(hello.capabilities.problems[0], "kpca");
  std::strcpy(hello.capabilities.problems[1], "brockett");
  hello.run = 3;
  hello.has_model = true;
  hello.version = 7;
  hello.digest = 0x0123456789abcdefULL;
  hello.pending_task_sequence = 12;
  hello.lost_task_sequence = 11;
  hello.reset_cause = gs_RESET_CAUSE_WATCHDOG;
  hello.sample_count = 200;
  return m;
}

DeviceMessage make_pull() {
  DeviceMessage m = {};
  m.which_body = gs_DeviceMessage_pull_tag;
  m.body.pull = {true, 7, 0x0123456789abcdefULL, 0};
  return m;
}

DeviceMessage make_pull_that_may_be_held() {
  DeviceMessage m = make_pull();
  m.body.pull.hold_max_ms = 60000;
  return m;
}

DeviceMessage make_update_scalars() {
  DeviceMessage m = {};
  m.which_body = gs_DeviceMessage_update_scalars_tag;
  gs_UpdateScalars& update = m.body.update_scalars;
  update.task_sequence = 12;
  update.base_version = 7;
  update.steps_done = 2;
  update.direction_count = 3;
  update.encoding = gs_ENCODING_F32;
  update.value_count = 6;
  fill_values(update.values, 24, 0x10);
  update.crc32c = 0xdeadbeef;
  update.loss_before = 1.5F;
  update.loss_after = -0.25F;
  update.step_time_us = 1250;
  return m;
}

DeviceMessage make_update_tangent() {
  DeviceMessage m = {};
  m.which_body = gs_DeviceMessage_update_tangent_tag;
  gs_UpdateTangent& update = m.body.update_tangent;
  update.task_sequence = 13;
  update.base_version = 8;
  update.steps_done = 5;
  update.encoding = gs_ENCODING_BF16;
  update.first_value = 32;
  update.value_count = 40;
  fill_values(update.values, 16, 0x20);
  update.crc32c = 0x01020304;
  update.loss_before = 2;
  update.loss_after = 1;
  update.step_time_us = 999;
  return m;
}

DeviceMessage make_task_refused() {
  DeviceMessage m = {};
  m.which_body = gs_DeviceMessage_task_refused_tag;
  m.body.task_refused = {14, gs_REASON_TASK_UNIMPLEMENTED, 0, 0, 0, 0, gs_FLOOR_NONE};
  return m;
}

DeviceMessage make_status_report() {
  DeviceMessage m = {};
  m.which_body = gs_DeviceMessage_status_report_tag;
  m.body.status_report = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  return m;
}

ServerMessage make_welcome() {
  ServerMessage m = {};
  m.which_body = gs_ServerMessage_welcome_tag;
  gs_Welcome& welcome = m.body.welcome;
  welcome.server_time_ms = 1795000000000ULL;
  welcome.run = 3;
  welcome.run_state = gs_RUN_STATE_ACTIVE;
  welcome.parameters_digest = 0xfedcba9876543210ULL;
  welcome.version = 9;
  welcome.manifold = gs_MANIFOLD_STIEFEL;
  welcome.rows = 64;
  welcome.cols = 4;
  welcome.stream = gs_STREAM_KIND_SCALAR;
  welcome.directions = gs_DIRECTIONS_SIGN;
  welcome.shared_directions = true;
  welcome.seed = 42;
  welcome.direction_count = 16;
  welcome.client_index = 5;
  welcome.group = 2;
  welcome.abandoned = true;
  return m;
}

ServerMessage make_task() {
  ServerMessage m = {};
  m.which_body = gs_ServerMessage_task_tag;
  gs_Task& task = m.body.task;
  task.task_sequence = 15;
  task.version = 9;
  task.digest = 0x1122334455667788ULL;
  task.solver = gs_SOLVER_PROJECTION;
  task.estimator = gs_ESTIMATOR_PROJECTION_ONE_SIDED;
  task.encoding = gs_ENCODING_F32;
  task.local_step_count = 5;
  task.steps_min = 2;
  task.step_size = 0.125F;
  task.smoothing = 0.0078125F;
  task.batch_mode = gs_BATCH_MODE_COMMON;
  task.batch_size = 32;
  task.use_correction = true;
  task.deadline_ms = 60000;
  std::strcpy(task.problem, "kpca");
  return m;
}

ServerMessage make_task_with_batches() {
  ServerMessage m = make_task();
  m.body.task.batch_sizes_count = 3;
  m.body.task.batch_sizes[0] = 8;
  m.body.task.batch_sizes[1] = 16;
  m.body.task.batch_sizes[2] = 300;
  return m;
}

ServerMessage make_task_of_svrg() {
  ServerMessage m = make_task();
  m.body.task.proximal = 0.5F;
  m.body.task.curvature_form = gs_BARZILAI_BORWEIN_FIRST;
  m.body.task.curvature = 2;
  m.body.task.draws_iterate = true;
  return m;
}

ServerMessage make_task_with_local_retraction() {
  ServerMessage m = make_task();
  m.body.task.local_retraction = gs_RETRACTION_EXPONENTIAL;
  return m;
}

ServerMessage make_log_chunk() {
  ServerMessage m = {};
  m.which_body = gs_ServerMessage_log_chunk_tag;
  gs_LogChunk& chunk = m.body.log_chunk;
  chunk.version = 8;
  chunk.step_scale = 0.5F;
  chunk.block_count = 1;
  chunk.base_version = 7;
  chunk.owner = 2;
  chunk.value_count = 2;
  chunk.encoding = gs_ENCODING_F32;
  fill_values(chunk.values, 8, 0x30);
  chunk.digest = 0x8877665544332211ULL;
  return m;
}

ServerMessage make_snapshot_chunk() {
  ServerMessage m = {};
  m.which_body = gs_ServerMessage_snapshot_chunk_tag;
  gs_SnapshotChunk& chunk = m.body.snapshot_chunk;
  chunk.version = 9;
  chunk.part = gs_MODEL_PART_MODEL;
  chunk.offset = 896;
  chunk.total = 1024;
  fill_values(chunk.values, 128, 0);
  chunk.digest = 0x1122334455667788ULL;
  return m;
}

ServerMessage make_snapshot_parts() {
  ServerMessage m = make_snapshot_chunk();
  m.body.snapshot_chunk.part = gs_MODEL_PART_MEAN_GRADIENT;
  m.body.snapshot_chunk.parts = 24;
  return m;
}

ServerMessage make_welcome_with_parts() {
  ServerMessage m = make_welcome();
  m.body.welcome.model_parts = 24;
  return m;
}

ServerMessage make_welcome_with_a_rank() {
  ServerMessage m = make_welcome();
  gs_Welcome& welcome = m.body.welcome;
  welcome.manifold = gs_MANIFOLD_PRODUCT;
  welcome.rows = 352;
  welcome.cols = 1;
  welcome.manifold_parts_count = 2;
  welcome.manifold_parts[0] = {gs_MANIFOLD_FIXED_RANK, 64, 16, gs_RETRACTION_PROJECTION, gs_TRANSPORT_PROJECTION, 4};
  welcome.manifold_parts[1] = {gs_MANIFOLD_EUCLIDEAN, 16, 1, {}, {}, 0};
  return m;
}

constexpr uint64_t kNetworkDigest = 0x8877665544332211;

DeviceMessage make_hello_with_network() {
  DeviceMessage m = make_hello();
  m.body.hello.capabilities.features = 1U << gs_FEATURE_NETWORK;
  m.body.hello.network_digest = kNetworkDigest;
  return m;
}

ServerMessage make_welcome_with_network() {
  ServerMessage m = {};
  m.which_body = gs_ServerMessage_welcome_tag;
  m.body.welcome.run = 3;
  m.body.welcome.run_state = gs_RUN_STATE_ACTIVE;
  m.body.welcome.rows = 15;
  m.body.welcome.cols = 1;
  m.body.welcome.network_digest = kNetworkDigest;
  return m;
}

DeviceMessage make_task_refused_for_a_network() {
  DeviceMessage m = make_task_refused();
  m.body.task_refused = {14, gs_REASON_WRONG_NETWORK, 0, 0, 0, 0, gs_FLOOR_NONE};
  return m;
}

DeviceMessage make_task_refused_for_a_sample() {
  DeviceMessage m = make_task_refused();
  m.body.task_refused = {14, gs_REASON_OUT_OF_RANGE, 18, 2, -1, 1, gs_FLOOR_NONE};
  return m;
}

ServerMessage make_ack_of_a_range() {
  ServerMessage m{};
  m.which_body = gs_ServerMessage_ack_tag;
  gs_Ack& ack = m.body.ack;
  ack.task_sequence = 15;
  ack.verdict = gs_VERDICT_REFUSED;
  ack.reason = gs_REASON_OUT_OF_RANGE;
  ack.has_retry = true;
  ack.retry = {800, 4000};
  ack.value = 682391;
  ack.limit = 128;
  ack.fold_scale_log2 = 9;
  ack.step_size = 4.5e-8F;
  return m;
}

ServerMessage make_ack() {
  ServerMessage m = {};
  m.which_body = gs_ServerMessage_ack_tag;
  gs_Ack& ack = m.body.ack;
  ack.task_sequence = 15;
  ack.verdict = gs_VERDICT_LATE;
  ack.duplicate = true;
  ack.version = 11;
  ack.staleness_weight = 0.5F;
  ack.has_retry = true;
  ack.retry = {200, 1000};
  return m;
}

ServerMessage make_wait() {
  ServerMessage m = {};
  m.which_body = gs_ServerMessage_wait_tag;
  m.body.wait = {gs_WAIT_CAUSE_STALLED, true, {500, 2500}};
  return m;
}

ServerMessage make_refuse() {
  ServerMessage m = {};
  m.which_body = gs_ServerMessage_refuse_tag;
  m.body.refuse = {gs_REASON_NEWER_SESSION, true, {1000, 8000}};
  return m;
}

ServerMessage make_drain() {
  ServerMessage m = {};
  m.which_body = gs_ServerMessage_drain_tag;
  m.body.drain = {true, {5000, 60000}};
  return m;
}

template <typename Message>
void expect_golden(const std::string& name, const Message& expected) {
  SCOPED_TRACE(name);
  const Bytes golden = read_hex(name);
  Message decoded;
  ASSERT_EQ(decode_message(golden, &decoded), Status::kOk);
  EXPECT_EQ(encode(decoded), encode(expected));  // the same fields
  EXPECT_EQ(encode(expected), golden);           // of the newest version: the same bytes
}

TEST(Codec, GoldenPacketsOfVersion1) {
  expect_golden("v1_hello", make_hello());
  expect_golden("v1_pull", make_pull());
  expect_golden("v1_update_scalars", make_update_scalars());
  expect_golden("v1_update_tangent", make_update_tangent());
  expect_golden("v1_task_refused", make_task_refused());
  expect_golden("v1_status_report", make_status_report());
  expect_golden("v1_welcome", make_welcome());
  expect_golden("v1_task", make_task());
  expect_golden("v1_task_batches", make_task_with_batches());
  expect_golden("v1_task_svrg", make_task_of_svrg());
  expect_golden("v1_task_local_retraction", make_task_with_local_retraction());
  expect_golden("v1_welcome_parts", make_welcome_with_parts());
  expect_golden("v1_welcome_part_rank", make_welcome_with_a_rank());
  expect_golden("v1_hello_network", make_hello_with_network());
  expect_golden("v1_welcome_network", make_welcome_with_network());
  expect_golden("v1_task_refused_network", make_task_refused_for_a_network());
  expect_golden("v1_snapshot_parts", make_snapshot_parts());
  expect_golden("v1_log_chunk", make_log_chunk());
  expect_golden("v1_snapshot_chunk", make_snapshot_chunk());
  expect_golden("v1_ack", make_ack());
  expect_golden("v1_ack_range", make_ack_of_a_range());
  expect_golden("v1_task_refused_sample", make_task_refused_for_a_sample());
  expect_golden("v1_wait", make_wait());
  expect_golden("v1_refuse", make_refuse());
  expect_golden("v1_drain", make_drain());
}

// ---- Pulls that are held, and Acks that stand for one ----

constexpr uint64_t kBaseDigest = 0x0123456789abcdefULL;

DeviceMessage make_update_scalars_with_a_base() {
  DeviceMessage m = make_update_scalars();
  m.body.update_scalars.base_digest = kBaseDigest;
  return m;
}

DeviceMessage make_update_tangent_with_a_base() {
  DeviceMessage m = make_update_tangent();
  m.body.update_tangent.base_digest = kBaseDigest;
  return m;
}

ServerMessage make_ack_that_holds() {
  ServerMessage m = make_ack();
  m.body.ack.hold = true;
  return m;
}

TEST(Codec, GoldenPacketsOfHeldPulls) {
  expect_golden("v1_pull_hold", make_pull_that_may_be_held());
  expect_golden("v1_update_scalars_base", make_update_scalars_with_a_base());
  expect_golden("v1_update_tangent_base", make_update_tangent_with_a_base());
  expect_golden("v1_ack_hold", make_ack_that_holds());
}

// ---- Stages before training, lines and evaluation ----

DeviceMessage make_update_scalars_with_a_line() {
  DeviceMessage m = make_update_scalars();
  m.body.update_scalars.has_evaluation = true;
  m.body.update_scalars.evaluation = {65535, 0.5F, 0.875F};
  m.body.update_scalars.has_line = true;
  m.body.update_scalars.line = {-0.125F, 3};
  return m;
}

DeviceMessage make_update_tangent_with_a_line() {
  DeviceMessage m = make_update_tangent();
  m.body.update_tangent.has_evaluation = true;
  m.body.update_tangent.evaluation = {3, 2, 0};
  m.body.update_tangent.has_line = true;
  m.body.update_tangent.line = {1, -2};
  return m;
}

DeviceMessage make_answer_of_words() {
  DeviceMessage m = {};
  m.which_body = gs_DeviceMessage_update_tangent_tag;
  gs_UpdateTangent& update = m.body.update_tangent;
  update.task_sequence = 2;
  update.base_version = 1;
  update.steps_done = 1;
  update.encoding = gs_Encoding_ENCODING_WORDS;
  update.value_count = 3;
  const int64_t words[] = {10, -1, int64_t{1} << 45};
  update.values.size = sizeof(words);
  store_long_words(3, words, update.values.bytes);
  update.crc32c = 0x01020304;
  return m;
}

DeviceMessage make_task_refused_for_sums() {
  DeviceMessage m = make_task_refused();
  m.body.task_refused.reason = gs_REASON_UNITS_REFUSED;
  return m;
}

DeviceMessage make_task_refused_for_a_floor() {
  DeviceMessage m = make_task_refused();
  m.body.task_refused = {14, gs_REASON_PRIVACY, 0, 1, 8, 65535, gs_FLOOR_BATCH_SIZE};
  return m;
}

ServerMessage make_welcome_with_units() {
  ServerMessage m = make_welcome_with_network();
  m.body.welcome.network_digest = 0;
  m.body.welcome.model_parts = 96;
  m.body.welcome.units = 7;
  m.body.welcome.lines = true;
  m.body.welcome.holdout = 6554;
  return m;
}

ServerMessage make_task_of_a_stage() {
  ServerMessage m = {};
  m.which_body = gs_ServerMessage_task_tag;
  gs_Task& task = m.body.task;
  task.task_sequence = 15;
  task.version = 4;
  task.digest = 0x1122334455667788ULL;
  task.solver = gs_SOLVER_PROJECTION;
  task.local_step_count = 5;
  task.step_size = 2.5F;
  std::strcpy(task.problem, "kpca");
  task.stage = gs_Stage_STAGE_TRIALS;
  task.evaluates = true;
  return m;
}

ServerMessage make_snapshot_of_units() {
  ServerMessage m = {};
  m.which_body = gs_ServerMessage_snapshot_chunk_tag;
  gs_SnapshotChunk& chunk = m.body.snapshot_chunk;
  chunk.version = 3;
  chunk.part = gs_ModelPart_MODEL_PART_UNITS;
  chunk.offset = 12;
  chunk.total = 24;
  fill_values(chunk.values, 12, 0x30);
  chunk.digest = 0x1122334455667788ULL;
  chunk.parts = 96;
  return m;
}

TEST(Codec, GoldenPacketsOfStages) {
  expect_golden("v1_update_scalars_line", make_update_scalars_with_a_line());
  expect_golden("v1_update_tangent_line", make_update_tangent_with_a_line());
  expect_golden("v1_update_tangent_words", make_answer_of_words());
  expect_golden("v1_task_refused_units", make_task_refused_for_sums());
  expect_golden("v1_task_refused_privacy", make_task_refused_for_a_floor());
  expect_golden("v1_welcome_units", make_welcome_with_units());
  expect_golden("v1_task_stage", make_task_of_a_stage());
  expect_golden("v1_snapshot_units", make_snapshot_of_units());
}

// 96 words fill a message, and a snapshot may name the mean among its parts.
TEST(Codec, WordsAndPartsOfStages) {
  EXPECT_EQ(values_per_message(Encoding::kWords), 96U);
  EXPECT_EQ(piece_value_count(Encoding::kWords, 896), 112U) << "the last piece may be larger";
  EXPECT_EQ(piece_value_count(Encoding::kWords, 12), 0U);
  ServerMessage m = make_snapshot_of_units();
  m.body.snapshot_chunk.parts = 96 + 2 + 4;
  EXPECT_EQ(decode_status(m), Status::kOk);
  m.body.snapshot_chunk.parts = 64;
  EXPECT_EQ(decode_status(m), Status::kDataCorrupt) << "a piece of no part of it";
}

TEST(Codec, AFieldOfALaterVersionIsSkipped) {
  Bytes packet = encode(make_pull());
  packet[1] = static_cast<uint8_t>(packet[1] + 3);
  packet.insert(packet.end(), {0xf8, 0x01, 0x07});  // field 31, varint 7
  DeviceMessage out;
  ASSERT_EQ(decode_message(packet, &out), Status::kOk);
  EXPECT_EQ(out.body.pull.version, 7U);
}

TEST(Codec, EncodeRefusesNoBody) {
  uint8_t frame[kFrameSizeMax];
  EXPECT_EQ(encode_frame(DeviceMessage{}, frame).status(), Status::kInvalidArgument);
  EXPECT_EQ(encode_frame(ServerMessage{}, frame).status(), Status::kInvalidArgument);
  DeviceMessage full = make_update_scalars();
  full.body.update_scalars.values.size = kPayloadSizeMax + 1;
  EXPECT_EQ(encode_frame(full, frame).status(), Status::kInvalidArgument);
}

TEST(Codec, TheLargestMessagesFitOneFrame) {
  DeviceMessage scalars = make_update_scalars();
  gs_UpdateScalars& update = scalars.body.update_scalars;
  update = {0xffffffff, 0xffffffff, 4,     1024, gs_ENCODING_F32,           4096 - 224, 4096,    {}, 0xffffffff, -1,
            -1,         0xffffffff, ~0ULL, true, {kSampleCountMax, -1, -1}, true,       {-1, -1}};
  fill_values(update.values, kPayloadSizeMax, 0);
  EXPECT_LE(encode(scalars).size(), kMessageSizeMax);
  EXPECT_EQ(decode_status(scalars), Status::kOk);
  ServerMessage log = make_log_chunk();
  gs_LogChunk& chunk = log.body.log_chunk;
  chunk = {0xffffffff,      -1, 0xfffffffe, 0xffffffff, 0xfffffffe, 0xffffffff, 4096 - 224, 4096,
           gs_ENCODING_F32, {}, ~0ULL,      true,       true};
  fill_values(chunk.values, kPayloadSizeMax, 0);
  EXPECT_LE(encode(log).size(), kMessageSizeMax);
  EXPECT_EQ(decode_status(log), Status::kOk);
}

TEST(Codec, GarbageIsCorrupt) {
  DeviceMessage device;
  ServerMessage server;
  EXPECT_EQ(decode_message(Bytes{}, &device), Status::kDataCorrupt);
  EXPECT_EQ(decode_message(Bytes{0}, &server), Status::kDataCorrupt);
  EXPECT_EQ(decode_message(Bytes{0xf8, 0x01, 0x07}, &server), Status::kDataCorrupt);  // no body
  EXPECT_EQ(decode_message(Bytes(kMessageSizeMax + 1, 0), &server), Status::kDataCorrupt);
}

// Every truncation and every flipped bit of every packet: decoded or refused, never a fault (sanitizers watch).
template <typename Message>
void abuse(const Message& message) {
  const Bytes packet = encode(message);
  Message out;
  for (size_t size = 0; size < packet.size(); ++size) {
    EXPECT_NE(decode_message(std::span(packet).first(size), &out), Status::kOk) << size;
  }
  for (size_t bit = 0; bit < 8 * packet.size(); ++bit) {
    Bytes flipped = packet;
    flipped[bit / 8] = static_cast<uint8_t>(flipped[bit / 8] ^ (1U << bit % 8));
    static_cast<void>(decode_message(flipped, &out));
  }
}

TEST(Codec, TruncatedAndFlippedPackets) {
  abuse(make_hello());
  abuse(make_pull());
  abuse(make_update_scalars());
  abuse(make_update_tangent());
  abuse(make_task_refused());
  abuse(make_task_refused_for_a_floor());
  abuse(make_status_report());
  abuse(make_welcome());
  abuse(make_task());
  abuse(make_log_chunk());
  abuse(make_snapshot_chunk());
  abuse(make_ack());
  abuse(make_wait());
  abuse(make_refuse());
  abuse(make_drain());
}

TEST(Codec, NoiseIsSurvived) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes(1 + random() % 120);
    for (uint8_t& byte : bytes) {
      byte = static_cast<uint8_t>(random());
    }
    DeviceMessage device;
    ServerMessage server;
    static_cast<void>(decode_message(bytes, &device));
    static_cast<void>(decode_message(bytes, &server));
  }
}

// ---- One wrong field at a time ----

template <typename Message, typename Change>
Status status_after(Message message, Change change) {
  change(message.body);
  return decode_status(message);
}

#define EXPECT_REFUSED(make, status, change) \
  EXPECT_EQ(status_after(make(), [](auto& body) { change; }), Status::status) << #change

TEST(Codec, UnknownEnumsAreRefused) {
  // Packets of a later version: built as bytes, since our own type holds no such value.
  const auto refused = [](const Bytes& packet, auto message) {
    return decode_message(packet, &message) == Status::kDataCorrupt;
  };
  EXPECT_TRUE(refused(Bytes{0x2a, 0x02, 0x10, 0x7f}, DeviceMessage{}));  // TaskRefused.reason = 127
  EXPECT_TRUE(refused(Bytes{0x2a, 0x06, 0x10, 0xff, 0xff, 0xff, 0xff, 0x0f}, DeviceMessage{}));  // = 2^32 - 1
  // TaskRefused.reason: numbers that are left free have no meaning, and the one behind them has.
  for (uint8_t reason = 1; reason < 40; ++reason) {
    const bool is_known = reason_name(static_cast<gs_Reason>(reason)) != std::string("unknown");
    EXPECT_EQ(refused(Bytes{0x2a, 0x02, 0x10, reason}, DeviceMessage{}), !is_known) << int{reason};
  }
  EXPECT_STREQ(reason_name(gs_REASON_WRONG_NETWORK), "wrong_network");
  EXPECT_STREQ(reason_name(gs_REASON_PRIVACY), "privacy");
  EXPECT_STREQ(floor_name(gs_FLOOR_SCALARS_PER_SAMPLE), "scalars_per_sample");
  EXPECT_STREQ(floor_name(static_cast<gs_Floor>(_gs_Floor_MAX + 1)), "unknown");
  EXPECT_TRUE(refused(Bytes{0x0a, 0x02, 0x50, 0x06}, DeviceMessage{}));               // Hello.reset_cause = 6
  EXPECT_TRUE(refused(Bytes{0x32, 0x02, 0x08, 0x08}, ServerMessage{}));               // Wait.cause = 8
  EXPECT_TRUE(refused(Bytes{0x3a, 0x02, 0x08, 0x7f}, ServerMessage{}));               // Refuse.reason = 127
  EXPECT_TRUE(refused(Bytes{0x2a, 0x04, 0x08, 0x01, 0x10, 0x07}, ServerMessage{}));   // Ack.verdict = 7
  EXPECT_TRUE(refused(Bytes{0x2a, 0x02, 0x08, 0x01}, ServerMessage{}));               // Ack without a verdict
  EXPECT_FALSE(refused(Bytes{0x2a, 0x04, 0x08, 0x01, 0x10, 0x06}, ServerMessage{}));  // the last one that is known
  for (const uint8_t field : {3, 6, 9, 10}) {  // Welcome: run_state, manifold, stream, directions
    const auto key = static_cast<uint8_t>(field << 3);
    EXPECT_TRUE(refused(Bytes{0x0a, 0x06, 0x38, 0x01, 0x40, 0x01, key, 0x7f}, ServerMessage{}));
    EXPECT_FALSE(refused(Bytes{0x0a, 0x06, 0x38, 0x01, 0x40, 0x01, key, 1}, ServerMessage{}));
  }
}

TEST(Codec, CountsOfAnUpdateMustAgree) {
  EXPECT_EQ(decode_status(make_update_scalars()), Status::kOk);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.task_sequence = 0);
  EXPECT_REFUSED(make_update_tangent, kDataCorrupt, body.update_tangent.task_sequence = 0);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.steps_done = 0);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.steps_done = 3);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.direction_count = 0);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.value_count = 7);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.values.size = 23);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.values.size = 28);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.values.size = 20);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.values.size = 0);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.first_value = 1);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.first_value = 32);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.encoding = gs_ENCODING_NONE);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, body.update_scalars.encoding = gs_ENCODING_F64);
  EXPECT_REFUSED(make_update_scalars, kDataCorrupt, {
    body.update_scalars.steps_done = 1U << 20;
    body.update_scalars.direction_count = 1U << 12;  // product 0 in 32 bits
    body.update_scalars.value_count = 0;
  });
  EXPECT_REFUSED(make_update_tangent, kDataCorrupt, body.update_tangent.steps_done = kLocalStepCountMax + 1);
  EXPECT_REFUSED(make_update_tangent, kDataCorrupt, body.update_tangent.first_value = 64);
  EXPECT_REFUSED(make_update_tangent, kDataCorrupt, body.update_tangent.value_count = 0xffffffff);
}

// A session goes on over a loss that is no number: the Ack names it.
TEST(Codec, AnUpdatesLossMayBeAnything) {
  for (const float loss : {NAN, INFINITY, -INFINITY}) {
    DeviceMessage scalars = make_update_scalars();
    scalars.body.update_scalars.loss_before = loss;
    EXPECT_EQ(decode_status(scalars), Status::kOk);
    DeviceMessage tangent = make_update_tangent();
    tangent.body.update_tangent.loss_after = loss;
    EXPECT_EQ(decode_status(tangent), Status::kOk);
  }
}

TEST(Codec, ServerMessagesOutOfBounds) {
  EXPECT_REFUSED(make_welcome, kDataCorrupt, body.welcome.rows = 0);
  EXPECT_REFUSED(make_welcome, kDataCorrupt, body.welcome.cols = kDimensionMax + 1);
  EXPECT_REFUSED(make_welcome_with_a_rank, kDataCorrupt, body.welcome.rows = kProductSizeMax + 1);
  EXPECT_REFUSED(make_welcome, kDataCorrupt, body.welcome.rows = kDimensionMax + 1);
  EXPECT_REFUSED(make_welcome_with_a_rank, kDataCorrupt, body.welcome.manifold_parts[0].rank = kFixedRankMax + 1);
  EXPECT_REFUSED(make_welcome, kDataCorrupt, body.welcome.direction_count = kDirectionCountMax + 1);
  EXPECT_REFUSED(make_task, kDataCorrupt, body.task.task_sequence = 0);
  EXPECT_REFUSED(make_task, kNotFinite, body.task.step_size = NAN);
  EXPECT_REFUSED(make_task, kNotFinite, body.task.smoothing = -INFINITY);
  EXPECT_REFUSED(make_log_chunk, kDataCorrupt, body.log_chunk.block_index = 1);
  EXPECT_REFUSED(make_log_chunk, kDataCorrupt, body.log_chunk.block_count = 0);
  EXPECT_REFUSED(make_log_chunk, kDataCorrupt, body.log_chunk.base_version = 8);
  EXPECT_REFUSED(make_log_chunk, kDataCorrupt, body.log_chunk.value_count = kScalarCountMax + 1);
  EXPECT_REFUSED(make_log_chunk, kNotFinite, body.log_chunk.step_scale = NAN);
  EXPECT_REFUSED(make_snapshot_chunk, kDataCorrupt, body.snapshot_chunk.part = gs_MODEL_PART_NONE);
  EXPECT_REFUSED(make_snapshot_chunk, kDataCorrupt, body.snapshot_chunk.offset = 900);
  EXPECT_REFUSED(make_snapshot_chunk, kDataCorrupt, body.snapshot_chunk.offset = 0xfffffffc);
  EXPECT_REFUSED(make_snapshot_chunk, kDataCorrupt, body.snapshot_chunk.values.size = 126);
  EXPECT_REFUSED(make_snapshot_chunk, kDataCorrupt, body.snapshot_chunk.values.size = 0);
  EXPECT_REFUSED(make_ack, kDataCorrupt, body.ack.task_sequence = 0);
  EXPECT_REFUSED(make_ack, kNotFinite, body.ack.staleness_weight = NAN);
  EXPECT_REFUSED(make_ack, kNotFinite, body.ack.value = INFINITY);
  EXPECT_REFUSED(make_ack, kNotFinite, body.ack.limit = NAN);
  EXPECT_REFUSED(make_ack, kNotFinite, body.ack.step_size = NAN);
  EXPECT_REFUSED(make_task_refused, kDataCorrupt, body.task_refused.floor = static_cast<gs_Floor>(_gs_Floor_MAX + 1));
  EXPECT_REFUSED(make_task_refused, kNotFinite, body.task_refused.value = NAN);
  EXPECT_REFUSED(make_task_refused, kNotFinite, body.task_refused.least = NAN);
  EXPECT_REFUSED(make_task_refused, kNotFinite, body.task_refused.most = INFINITY);
  EXPECT_REFUSED(make_ack, kDataCorrupt, body.ack.retry.min_ms = 1001);
  EXPECT_REFUSED(make_hello, kDataCorrupt, body.hello.sample_count = kSampleCountMax + 1);
}

TEST(Codec, PieceValueCountInvertsEncodedSize) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kBf16, Encoding::kInt8}) {
    size_t valid = 0;
    for (uint32_t count = 1; encoded_size(encoding, count) <= kPayloadSizeMax; ++count) {
      EXPECT_EQ(piece_value_count(encoding, encoded_size(encoding, count)), count);
      ++valid;
    }
    size_t accepted = 0;
    for (size_t size = 0; size <= kPayloadSizeMax + 100; ++size) {
      accepted += piece_value_count(encoding, size) != 0 ? 1 : 0;
    }
    EXPECT_EQ(accepted, valid);
  }
  EXPECT_EQ(piece_value_count(Encoding::kNone, 4), 0U);
  EXPECT_EQ(piece_value_count(Encoding::kF64, 8), 0U);
}

// A snapshot is of parts that are known, and each piece is of one of them.
TEST(Codec, PartsAreKnownAndThoseOfTheSnapshot) {
  ServerMessage m = make_snapshot_parts();
  ServerMessage decoded;
  EXPECT_EQ(decode_message(encode(m), &decoded), Status::kOk);
  m.body.snapshot_chunk.parts = 16;
  EXPECT_EQ(decode_message(encode(m), &decoded), Status::kDataCorrupt);
  m.body.snapshot_chunk.parts = 8 + 128;
  EXPECT_EQ(decode_message(encode(m), &decoded), Status::kDataCorrupt);
  m = make_welcome_with_parts();
  m.body.welcome.model_parts = 128;
  EXPECT_EQ(decode_message(encode(m), &decoded), Status::kDataCorrupt);
}

}  // namespace
}  // namespace gradstream
