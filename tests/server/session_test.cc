// A session's deadlines, bounds and refusals, each with its name in the log and its counter.
#include "server/link/session.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/server_peer.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

// Short enough for a test, long enough for a busy machine.
constexpr uint32_t kShortMs = 60;
constexpr uint32_t kLongMs = 20000;

ListenerLimits patient() {
  ListenerLimits limits;
  for (uint32_t* const limit :
       {&limits.session.handshake_deadline_ms, &limits.session.answer_deadline_ms, &limits.session.frame_deadline_ms,
        &limits.session.write_deadline_ms, &limits.session.close_deadline_ms, &limits.session.session_idle_max_ms}) {
    *limit = kLongMs;
  }
  return limits;
}

ServerMessage task_message(uint32_t deadline_ms) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_task_tag;
  message.body.task.task_sequence = 1;
  message.body.task.deadline_ms = deadline_ms;
  return message;
}

ServerMessage chunk_message() {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_snapshot_chunk_tag;
  message.body.snapshot_chunk.total = 1U << 20;
  message.body.snapshot_chunk.part = gs_ModelPart_MODEL_PART_MODEL;
  message.body.snapshot_chunk.values.size = kPayloadSizeMax;
  return message;
}

// An established session on a server with these limits.
struct Established {
  explicit Established(const ListenerLimits& limits, int receive_buffer_size = 0)
      : server(limits),
        peer(server.listener.port(), ListenerHarness::device(1), TlsKeyExchange::kPskEphemeral, receive_buffer_size) {
    ready = server.until([&] { return peer.established() && !server.established.empty(); });
  }
  Session* session() { return server.listener.find(server.established[0]); }
  bool until_refused(gs_Reason reason) {
    return server.until([&] { return peer.refusal() == reason; });
  }

  ListenerHarness server;
  TlsPeer peer;
  bool ready = false;
};

TEST(Session, AStallInTheHandshakeEnds) {
  ListenerLimits limits = patient();
  limits.session.handshake_deadline_ms = kShortMs;
  for (const std::string& beginning : {std::string(), std::string("\x16\x03\x01\x00\xf0\x01\x00", 7)}) {
    ListenerHarness server(limits);
    RawPeer peer(server.listener.port());
    peer.send(beginning);
    ASSERT_TRUE(server.until([&] { return peer.closed_by_server(); }));
    EXPECT_EQ(server.counters.deadlines.handshake, 1U);
    EXPECT_THAT(server.log.find("deadline"), HasSubstr("limit=handshake_deadline_ms state=tls"));
    EXPECT_THAT(server.log.find("deadline"), HasSubstr("remedy="));
    EXPECT_EQ(server.listener.handshake_count(), 0U);
  }
}

TEST(Session, NoHelloEnds) {
  ListenerLimits limits = patient();
  limits.session.answer_deadline_ms = kShortMs;
  Established e(limits);
  ASSERT_TRUE(e.ready);
  EXPECT_TRUE(e.until_refused(gs_Reason_REASON_DEADLINE));
  EXPECT_EQ(e.server.counters.deadlines.hello, 1U);
  EXPECT_THAT(e.server.log.find("deadline"), HasSubstr("state=hello"));
}

TEST(Session, AFrameThatStallsEnds) {
  ListenerLimits limits = patient();
  limits.session.frame_deadline_ms = kShortMs;
  Established e(limits);
  ASSERT_TRUE(e.ready);
  uint8_t half[20] = {};
  write_frame_prefix(100, half);
  ASSERT_TRUE(e.peer.send_bytes(half));
  EXPECT_TRUE(e.until_refused(gs_Reason_REASON_DEADLINE));
  EXPECT_EQ(e.server.counters.deadlines.frame, 1U);
  EXPECT_THAT(e.server.log.find("deadline"), HasSubstr("limit=frame_deadline_ms"));
}

TEST(Session, ATlsRecordThatStallsEnds) {
  ListenerLimits limits = patient();
  limits.session.frame_deadline_ms = kShortMs;
  Established e(limits);
  ASSERT_TRUE(e.ready);
  e.peer.raw().send(std::string("\x17\x03\x03\x00\x64half", 9));
  EXPECT_TRUE(e.until_refused(gs_Reason_REASON_DEADLINE));
  EXPECT_EQ(e.server.counters.deadlines.frame, 1U);
}

TEST(Session, ARecordBeyondTheLimitIsNamed) {
  Established e(patient());
  ASSERT_TRUE(e.ready);
  e.peer.raw().send(std::string("\x17\x03\x03\x40\x00", 5) + std::string(2000, 'x'));
  EXPECT_TRUE(e.server.until([&] { return e.server.counters.traffic.large_records == 1; }));
  EXPECT_THAT(e.server.log.find("tls_record_too_large"), HasSubstr("record_size_limit"));
}

TEST(Session, MalformedBytesAreRefused) {
  uint8_t oversize[4];
  write_frame_prefix(kMessageSizeMax, oversize);
  oversize[2] = 0xff;
  oversize[3] = 0x7f;
  uint8_t undecodable[10];
  write_frame_prefix(6, undecodable);
  std::memset(undecodable + 4, 0xff, 6);
  const uint8_t text[] = {'h', 'e', 'l', 'l', 'o'};
  for (const std::span<const uint8_t> bytes :
       {std::span<const uint8_t>(oversize), std::span<const uint8_t>(undecodable), std::span<const uint8_t>(text)}) {
    Established e(patient());
    ASSERT_TRUE(e.ready);
    ASSERT_TRUE(e.peer.send_bytes(bytes));
    EXPECT_TRUE(e.until_refused(gs_Reason_REASON_MALFORMED));
    EXPECT_EQ(e.server.counters.traffic.malformed_frames, 1U);
    EXPECT_THAT(e.server.log.find("malformed_frame"), HasSubstr("device=device-1"));
    EXPECT_TRUE(e.server.messages.empty());
  }
}

TEST(Session, ATruncatedFrameAndACloseIsAnOrdinaryEnd) {
  Established e(patient());
  ASSERT_TRUE(e.ready);
  uint8_t half[20] = {};
  write_frame_prefix(100, half);
  ASSERT_TRUE(e.peer.send_bytes(half));
  e.peer.raw().close();
  EXPECT_TRUE(e.server.until([&] { return e.server.listener.connection_count() == 0; }));
  EXPECT_EQ(e.server.counters.traffic.malformed_frames, 0U);
  EXPECT_EQ(e.server.ended.size(), 1U);
}

TEST(Session, FramesInAnyPiecesArrive) {
  Established e(patient());
  ASSERT_TRUE(e.ready);
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_frame(hello_message(), frame);
  ASSERT_TRUE(size.ok());
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < size.value(); ++i) {
      ASSERT_TRUE(e.peer.send_bytes({frame + i, 1}));
    }
  }
  EXPECT_TRUE(e.server.until([&] { return e.server.messages.size() == 3; }));
}

TEST(Session, QueuedMessagesLeaveWithTheFlush) {
  Established e(patient());
  ASSERT_TRUE(e.ready);
  const uint64_t bytes_before = e.server.counters.traffic.wire_bytes_sent;
  e.session()->queue(task_message(0));
  e.session()->queue(task_message(1));
  e.server.io.poll();
  EXPECT_EQ(e.server.counters.traffic.frames_sent, 0U);
  EXPECT_EQ(e.server.counters.traffic.wire_bytes_sent, bytes_before);
  e.session()->flush();
  EXPECT_EQ(e.server.counters.traffic.frames_sent, 2U);
  EXPECT_EQ(e.session()->queued_size(), 0U);
  EXPECT_TRUE(e.server.until([&] { return e.peer.next().has_value(); }));
  EXPECT_TRUE(e.server.until([&] { return e.peer.next().has_value(); }));
}

TEST(Session, MessagesThatLeaveTogetherShareRecords) {
  Established e(patient());
  ASSERT_TRUE(e.ready);
  const auto wire_bytes_of = [&](int count) {
    const uint64_t before = e.server.counters.traffic.wire_bytes_sent;
    for (int i = 0; i < count; ++i) {
      e.session()->queue(task_message(1));
    }
    e.session()->flush();
    return e.server.counters.traffic.wire_bytes_sent - before;
  };
  const uint64_t alone = wire_bytes_of(1);
  constexpr uint64_t kRecordCost = 5 + 1 + 16;  // header, content type, tag: at least
  EXPECT_LE(wire_bytes_of(3) + 2 * kRecordCost, 3 * alone);
  // More than the peer's largest record takes.
  ServerMessage chunk = chunk_message();
  for (uint32_t i = 0; i < 3; ++i) {
    chunk.body.snapshot_chunk.offset = i * kPayloadSizeMax;
    e.session()->queue(chunk);
    e.session()->queue(task_message(i + 2));
  }
  e.session()->flush();
  std::vector<ServerMessage> came;
  ASSERT_TRUE(e.server.until([&] {
    while (const auto message = e.peer.next()) {
      came.push_back(*message);
    }
    return came.size() == 10;
  }));
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(came[4 + 2 * i].body.snapshot_chunk.offset, i * kPayloadSizeMax);
    EXPECT_EQ(came[5 + 2 * i].body.task.deadline_ms, i + 2);
  }
}

TEST(Session, AMessageWithMoreToComeLeavesWithTheNextOne) {
  Established e(patient());
  ASSERT_TRUE(e.ready);
  const SessionId id = e.server.established[0];
  Listener& listener = e.server.listener;
  listener.send(id, chunk_message());
  listener.send(id, chunk_message(), true);
  listener.flush();
  EXPECT_EQ(e.server.counters.traffic.frames_sent, 1U);
  ASSERT_TRUE(e.peer.send(hello_message()));
  ASSERT_TRUE(e.server.until([&] { return e.server.messages.size() == 1; }));
  EXPECT_EQ(e.server.counters.traffic.frames_sent, 1U) << "what the peer says meanwhile does not free it";
  listener.send(id, task_message(0));
  listener.flush();
  EXPECT_EQ(e.server.counters.traffic.frames_sent, 3U);
  EXPECT_EQ(e.session()->queued_size(), 0U);
}

TEST(Session, ACloseFreesAMessageWithMoreToCome) {
  Established e(patient());
  ASSERT_TRUE(e.ready);
  e.server.listener.send(e.server.established[0], chunk_message(), true);
  e.server.listener.close(e.server.established[0], gs_Reason_REASON_NONE);
  e.server.listener.flush();
  EXPECT_TRUE(e.server.until([&] { return e.peer.next().has_value(); }));
  EXPECT_TRUE(e.server.until([&] { return e.peer.gone(); }));
}

TEST(Session, APeerThatReadsNothingIsClosedAtTheQueuesCap) {
  ListenerLimits limits = patient();
  limits.session.queue_size_max = 100000;
  limits.session.close_deadline_ms = kShortMs;
  limits.send_buffer_size = 4096;
  Established e(limits, 4096);
  ASSERT_TRUE(e.ready);
  e.peer.set_reading(false);
  for (int i = 0; i < 1000 && e.session() != nullptr; ++i) {
    e.session()->send(chunk_message());
    e.server.io.poll();
    if (e.session() != nullptr) {
      EXPECT_LE(e.session()->queued_size(), limits.session.queue_size_max);
    }
  }
  EXPECT_EQ(e.server.counters.traffic.sessions_overloaded, 1U);
  EXPECT_THAT(e.server.log.find("session_overloaded"), HasSubstr("queue_size_max"));
  EXPECT_TRUE(e.server.until([&] { return e.server.listener.connection_count() == 0; }));
  EXPECT_EQ(e.server.counters.deadlines.close, 1U);
  EXPECT_THAT(e.server.log.find("deadline"), HasSubstr("limit=close_deadline_ms state=close"));
}

TEST(Session, APeerThatReadsNothingMissesTheWriteDeadline) {
  ListenerLimits limits = patient();
  limits.session.write_deadline_ms = kShortMs;
  limits.send_buffer_size = 4096;
  Established e(limits, 4096);
  ASSERT_TRUE(e.ready);
  e.peer.set_reading(false);
  for (int i = 0; i < 200; ++i) {
    e.session()->send(chunk_message());
  }
  EXPECT_TRUE(e.server.until([&] { return e.server.listener.connection_count() == 0; }));
  EXPECT_EQ(e.server.counters.deadlines.write, 1U);
  EXPECT_THAT(e.server.log.find("deadline"), HasSubstr("limit=write_deadline_ms"));
}

TEST(Session, AfterATaskTheLimitIsTheTasks) {
  ListenerLimits limits = patient();
  limits.session.answer_deadline_ms = kShortMs;
  Established e(limits);
  ASSERT_TRUE(e.ready);
  e.server.answer = [&](SessionId) { e.session()->send(task_message(200)); };
  const auto begin = std::chrono::steady_clock::now();  // before the answer, which begins the time
  ASSERT_TRUE(e.peer.send(hello_message()));
  ASSERT_TRUE(e.server.until([&] { return e.server.messages.size() == 1; }));
  EXPECT_TRUE(e.until_refused(gs_Reason_REASON_DEADLINE));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(200));
  EXPECT_EQ(e.server.counters.deadlines.idle, 1U);
}

TEST(Session, AfterATaskWithoutADeadlineTheSessionMayBeIdle) {
  ListenerLimits limits = patient();
  limits.session.answer_deadline_ms = kShortMs;
  limits.session.session_idle_max_ms = 4 * kShortMs;
  Established e(limits);
  ASSERT_TRUE(e.ready);
  e.server.answer = [&](SessionId) { e.session()->send(task_message(0)); };
  const auto begin = std::chrono::steady_clock::now();  // before the answer, which begins the time
  ASSERT_TRUE(e.peer.send(hello_message()));
  ASSERT_TRUE(e.server.until([&] { return e.server.messages.size() == 1; }));
  EXPECT_TRUE(e.until_refused(gs_Reason_REASON_DEADLINE));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3 * kShortMs));
}

// The Ack may stand for the next Pull, which the server may hold.
TEST(Session, AfterAnAckThatHoldsTheSessionMayBeIdle) {
  ListenerLimits limits = patient();
  limits.session.answer_deadline_ms = kShortMs;
  limits.session.session_idle_max_ms = 4 * kShortMs;
  Established e(limits);
  ASSERT_TRUE(e.ready);
  e.server.answer = [&](SessionId) {
    ServerMessage ack = {};
    ack.which_body = gs_ServerMessage_ack_tag;
    ack.body.ack.task_sequence = 1;
    ack.body.ack.verdict = gs_Verdict_VERDICT_FOLDED;
    ack.body.ack.hold = true;
    EXPECT_FALSE(is_rest(ack));
    e.session()->send(ack);
  };
  const auto begin = std::chrono::steady_clock::now();  // before the answer, which begins the time
  ASSERT_TRUE(e.peer.send(hello_message()));
  ASSERT_TRUE(e.server.until([&] { return e.server.messages.size() == 1; }));
  EXPECT_TRUE(e.until_refused(gs_Reason_REASON_DEADLINE));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3 * kShortMs));
}

TEST(Session, WhileTheServerOwesAnAnswerThePeerIsNotLate) {
  ListenerLimits limits = patient();
  limits.session.answer_deadline_ms = kShortMs;
  Established e(limits);
  ASSERT_TRUE(e.ready);
  ASSERT_TRUE(e.peer.send(hello_message()));
  ASSERT_TRUE(e.server.until([&] { return e.server.messages.size() == 1; }));
  EXPECT_FALSE(e.server.until([&] { return e.peer.gone(); }, 3 * kShortMs));
  ServerMessage wait = {};
  wait.which_body = gs_ServerMessage_wait_tag;
  wait.body.wait.has_retry = true;
  wait.body.wait.retry.max_ms = kShortMs;
  e.session()->send(wait);
  EXPECT_TRUE(e.until_refused(gs_Reason_REASON_DEADLINE)) << "after Wait the peer is due";
}

DeviceMessage report_message() {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_status_report_tag;
  return message;
}

// A piece of an upload of 64 values.
DeviceMessage piece_message(uint32_t first_value, uint32_t count) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_update_scalars_tag;
  auto& piece = message.body.update_scalars;
  piece.task_sequence = 1;
  piece.encoding = gs_Encoding_ENCODING_F32;
  piece.first_value = first_value;
  piece.steps_done = 2;
  piece.direction_count = 32;
  piece.value_count = 64;
  piece.values.size = static_cast<pb_size_t>(4 * count);
  return message;
}

// The server answers the first message, and no other, by a Task.
void give_task_to_hello(Established* e) {
  e->server.answer = [e](SessionId) {
    if (e->server.messages.size() == 1) {
      e->session()->send(task_message(0));
    }
  };
}

TEST(Session, WhereTheDeviceOwesTheNextFrameItIsLate) {
  ListenerLimits limits = patient();
  limits.session.answer_deadline_ms = kShortMs;
  for (const DeviceMessage& message : {report_message(), piece_message(0, 32)}) {
    Established e(limits);
    ASSERT_TRUE(e.ready);
    give_task_to_hello(&e);
    ASSERT_TRUE(e.peer.send(hello_message()) && e.peer.send(message));
    EXPECT_TRUE(e.until_refused(gs_Reason_REASON_DEADLINE)) << message.which_body;
  }
}

TEST(Session, FramesThatBringNoExchangeToAnEndKeepNoSession) {
  ListenerLimits limits = patient();
  limits.session.session_idle_max_ms = 2 * kShortMs;
  for (const DeviceMessage& message : {report_message(), piece_message(0, 32)}) {
    Established e(limits);
    ASSERT_TRUE(e.ready);
    give_task_to_hello(&e);
    ASSERT_TRUE(e.peer.send(hello_message()));
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(e.server.until([&] {
      (void)e.peer.send(message);
      return e.peer.refusal() == gs_Reason_REASON_DEADLINE;
    })) << message.which_body;
    // The server's clock is whole milliseconds: what began at the end of one is a millisecond old at once.
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2 * kShortMs - 1));
    EXPECT_EQ(e.server.counters.deadlines.idle, 1U);
  }
}

TEST(Session, AfterTheLastPieceTheServerOwesTheAnswer) {
  ListenerLimits limits = patient();
  limits.session.answer_deadline_ms = kShortMs;
  Established e(limits);
  ASSERT_TRUE(e.ready);
  ASSERT_TRUE(e.peer.send(hello_message()) && e.peer.send(piece_message(0, 32)) && e.peer.send(piece_message(32, 32)));
  ASSERT_TRUE(e.peer.send(report_message()));
  ASSERT_TRUE(e.server.until([&] { return e.server.messages.size() == 4; }));
  EXPECT_FALSE(e.server.until([&] { return e.peer.gone(); }, 3 * kShortMs));
}

// The order to give its place crosses the first piece of an update: the device was at rest when the order was made.
TEST(Session, ADeviceThatIsAskedForItsPlaceInItsUploadIsDrainedAfterTheAck) {
  Established e(patient());
  ASSERT_TRUE(e.ready);
  TestUpload upload;
  upload.task_sequence = 1;
  upload.kind = StreamKind::kTangentBlock;
  upload.values.assign(4 * values_per_message(upload.encoding), 0.5F);
  ASSERT_TRUE(e.peer.send(hello_message()) && e.peer.send(upload_messages(upload)[0]));
  ASSERT_TRUE(e.server.until([&] { return e.server.messages.size() == 2; }));
  const gs_RetryWindow window = {100, 900};
  e.session()->yield(window);
  ServerMessage ack = {};
  ack.which_body = gs_ServerMessage_ack_tag;
  ack.body.ack.task_sequence = upload.task_sequence;
  ack.body.ack.verdict = gs_Verdict_VERDICT_FOLDED;
  ack.body.ack.has_retry = true;
  ack.body.ack.retry = {500, 700};
  e.session()->send(ack);
  std::optional<ServerMessage> message;
  ASSERT_TRUE(e.server.until([&] { return (message = e.peer.next()).has_value(); }));
  EXPECT_EQ(message->which_body, gs_ServerMessage_ack_tag) << "first what it waits for";
  ASSERT_TRUE(e.server.until([&] { return (message = e.peer.next()).has_value(); }));
  ASSERT_EQ(message->which_body, gs_ServerMessage_drain_tag);
  EXPECT_EQ(message->body.drain.retry.min_ms, 100U);
  EXPECT_EQ(message->body.drain.retry.max_ms, 900U);
  EXPECT_TRUE(e.server.until([&] { return e.peer.gone(); }));
}

TEST(Session, AFrameInTheQueueCountsWithWhatKeepingItCosts) {
  ListenerLimits limits = patient();
  limits.send_buffer_size = 4096;
  Established e(limits, 4096);
  ASSERT_TRUE(e.ready);
  e.peer.set_reading(false);
  for (int i = 0; i < 200; ++i) {
    e.session()->send(chunk_message());
  }
  ServerMessage wait = {};
  wait.which_body = gs_ServerMessage_wait_tag;
  const size_t before = e.session()->queued_size();
  e.session()->send(wait);
  EXPECT_GE(e.session()->queued_size(), before + 64) << "a few bytes of frame, a block of the heap";
}

// A board, or a client of another release, that holds a claim for an identity of its own.
TEST(Session, ADeviceThatDoesNotKnowClaimsIsTold) {
  ListenerHarness server(patient());
  TlsPeer peer(server.listener.port(), identity_of("~batch", 10));
  ASSERT_TRUE(server.until([&] { return peer.established() && !server.established.empty(); }));
  ASSERT_TRUE(peer.send(hello_message()));
  EXPECT_TRUE(server.until([&] { return peer.refusal() == gs_Reason_REASON_UNEXPECTED_MESSAGE; }));
  EXPECT_THAT(server.log.find("claim_refused"), HasSubstr("does not know claims: give it an identity file"));
  EXPECT_EQ(server.counters.claims_refused, 1U);
}

KeyChange offered_key() {
  KeyChange offer;
  offer.generation = 1;
  offer.has_public = true;
  offer.has_confirm = true;
  std::ranges::fill(offer.public_key, uint8_t{7});
  return offer;
}

// Beside the exchange: a device that waits goes on waiting, and is not due any earlier or later.
TEST(Session, AKeyIsOfferedSomeTimesAndBesideTheExchange) {
  Established e(patient());
  ASSERT_TRUE(e.ready);
  ASSERT_TRUE(e.peer.send(hello_message()));
  ASSERT_TRUE(e.server.until([&] { return e.server.messages.size() == 1; }));
  ServerMessage wait = {};
  wait.which_body = gs_ServerMessage_wait_tag;
  wait.body.wait.has_retry = true;
  wait.body.wait.retry = {60000, 60000};
  e.session()->send(wait);
  for (size_t i = 1; i <= kKeyOffersMax; ++i) {
    ASSERT_TRUE(e.peer.send(offered_key()));
    ASSERT_TRUE(e.server.until([&] { return e.peer.key_changes().size() == i; }));
    EXPECT_EQ(e.peer.key_changes().back().generation, 1U);
  }
  EXPECT_EQ(e.server.messages.size(), 1U) << "no message of the exchange";
  ASSERT_TRUE(e.peer.next().has_value());
  e.session()->yield({100, 900});  // it gives its place, as it rests still
  std::optional<ServerMessage> message;
  ASSERT_TRUE(e.server.until([&] { return (message = e.peer.next()).has_value(); }));
  EXPECT_EQ(message->which_body, gs_ServerMessage_drain_tag);
}

TEST(Session, OneOfferTooManyAndOneBeforeTheHelloAreMalformed) {
  Established late(patient());
  ASSERT_TRUE(late.ready);
  ASSERT_TRUE(late.peer.send(hello_message()));
  for (size_t i = 0; i <= kKeyOffersMax; ++i) {
    ASSERT_TRUE(late.peer.send(offered_key()));
  }
  EXPECT_TRUE(late.server.until([&] { return late.peer.refusal() == gs_Reason_REASON_MALFORMED; }));
  EXPECT_EQ(late.server.key_changes.size(), size_t{kKeyOffersMax});
  Established early(patient());
  ASSERT_TRUE(early.ready);
  ASSERT_TRUE(early.peer.send(offered_key()));
  EXPECT_TRUE(early.server.until([&] { return early.peer.refusal() == gs_Reason_REASON_MALFORMED; }));
  EXPECT_TRUE(early.server.key_changes.empty());
}

TEST(Session, BytesAreCountedBothWays) {
  Established e(patient());
  ASSERT_TRUE(e.ready);
  ASSERT_TRUE(e.peer.send(hello_message()));
  ASSERT_TRUE(e.server.until([&] { return e.server.messages.size() == 1; }));
  e.session()->close(gs_Reason_REASON_NONE);
  ASSERT_TRUE(e.server.until([&] { return e.peer.gone(); }));
  const size_t sent_by_peer = e.peer.session().wire_bytes_sent();
  const size_t received_by_peer = e.peer.session().wire_bytes_received();
  e.peer.raw().close();
  ASSERT_TRUE(e.server.until([&] { return e.server.listener.connection_count() == 0; }));
  EXPECT_EQ(e.server.counters.traffic.wire_bytes_received, sent_by_peer);
  EXPECT_EQ(e.server.counters.traffic.wire_bytes_sent, received_by_peer);
}

}  // namespace
}  // namespace gradstream
