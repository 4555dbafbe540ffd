// Orders to the sessions of one thread.
#include "server/link/session_pool.h"

#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/server_peer.h"
#include "tests/support/server_support.h"

namespace gradstream {
namespace {

// A pool on the test's own thread, and the socket pairs that it is given.
class Pool : public SessionOwner {
 public:
  Pool() { (void)tls_.start(); }
  // A session with a device that may finish its handshake.
  std::unique_ptr<TlsPeer> begin(SessionId id, int device) {
    auto peer = std::make_unique<TlsPeer>(acceptor_.local_endpoint().port(), ListenerHarness::device(device));
    pool.begin(id, acceptor_.accept(), {}, std::make_shared<QueueGauge>(0));
    return peer;
  }
  bool until(const std::function<bool()>& condition) { return run_until(io, condition); }

  void on_session_established(SessionId session, uint32_t, uint32_t) override { established.push_back(session); }
  void on_session_message(SessionId session, uint32_t, const DeviceMessage&) override { heard.push_back(session); }
  void on_session_unregistered(SessionId, const std::string&) override {}
  void on_session_claim(SessionId, uint32_t, const ClaimRequest&) override {}
  void on_session_closing(SessionId session) override { closing.push_back(session); }
  void on_session_ended(SessionId session) override { ended.push_back(session); }

  asio::io_context io;
  LogCapture log;
  ShellCounters counters;
  std::vector<SessionId> established;
  std::vector<SessionId> heard;
  std::vector<SessionId> closing;
  std::vector<SessionId> ended;

 private:
  Tcp::acceptor acceptor_{io, Tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  TlsContext tls_{ListenerHarness::find, TlsPolicy()};
  FaultLines fault_lines_;
  SessionLimits limits_;

 public:
  SessionPool pool{io, tls_, limits_, counters, fault_lines_, *this};  // last: its end reports to the above
};

SessionOrder order_of(SessionOrder::Kind kind, SessionId session, gs_Reason reason = gs_Reason_REASON_NONE) {
  return {kind, reason, session};
}

TEST(SessionPool, OnlyAHandshakeOrAClosingSessionIsEvicted) {
  Pool pool;
  const auto one = pool.begin(1, 1);
  ASSERT_TRUE(pool.until([&] { return one->established() && pool.established.size() == 1; }));
  const auto two = pool.begin(2, 2);
  for (const SessionId id : {1, 2, 3}) {
    pool.pool.follow(order_of(SessionOrder::Kind::kEvict, id));
  }
  EXPECT_EQ(pool.ended, std::vector<SessionId>{2});
  EXPECT_TRUE(pool.until([&] { return two->gone(); }));
  EXPECT_FALSE(one->gone());
  pool.pool.follow(order_of(SessionOrder::Kind::kClose, 1, gs_Reason_REASON_OVERLOADED));
  EXPECT_EQ(pool.closing, std::vector<SessionId>{1});
  pool.pool.follow(order_of(SessionOrder::Kind::kEvict, 1));
  EXPECT_EQ(pool.ended, (std::vector<SessionId>{2, 1}));
}

TEST(SessionPool, OnlyASilentSessionIsReplaced) {
  Pool pool;
  const auto one = pool.begin(1, 1);
  const auto two = pool.begin(2, 2);
  ASSERT_TRUE(pool.until([&] { return one->established() && two->established() && pool.established.size() == 2; }));
  ASSERT_TRUE(one->send(hello_message()));
  ASSERT_TRUE(pool.until([&] { return pool.heard.size() == 1; }));
  pool.pool.follow(order_of(SessionOrder::Kind::kReplace, 1));
  pool.pool.follow(order_of(SessionOrder::Kind::kReplace, 2));
  EXPECT_TRUE(pool.until([&] { return two->refusal() == gs_Reason_REASON_NEWER_SESSION; }));
  EXPECT_EQ(pool.counters.arrivals.greetings_replaced, 1U);
  EXPECT_FALSE(one->gone());
}

// Also one that waits for an answer: nothing of it is lost by a new session. An update that has begun to come is not
// cut.
TEST(SessionPool, AnOldSessionIsDrainedAtOnceOrAfterTheAckOfItsUpdate) {
  Pool pool;
  const auto one = pool.begin(1, 1);
  const auto two = pool.begin(2, 2);
  ASSERT_TRUE(pool.until([&] { return one->established() && two->established() && pool.established.size() == 2; }));
  TestUpload upload;
  upload.task_sequence = 1;
  upload.kind = StreamKind::kTangentBlock;
  upload.values.assign(4 * values_per_message(upload.encoding), 0.5F);
  ASSERT_TRUE(one->send(hello_message()) && two->send(hello_message()) && two->send(upload_messages(upload)[0]));
  ASSERT_TRUE(pool.until([&] { return pool.heard.size() == 3; }));
  for (const SessionId id : {1, 2}) {
    SessionOrder renew = order_of(SessionOrder::Kind::kRenew, id);
    renew.retry = {100, 900};
    pool.pool.follow(renew);
  }
  EXPECT_EQ(pool.closing, (std::vector<SessionId>{1}));
  std::optional<ServerMessage> message;
  ASSERT_TRUE(pool.until([&] { return (message = one->next()).has_value(); }));
  ASSERT_EQ(message->which_body, gs_ServerMessage_drain_tag);
  EXPECT_EQ(message->body.drain.retry.max_ms, 900U);
  ServerMessage ack = {};
  ack.which_body = gs_ServerMessage_ack_tag;
  ack.body.ack.task_sequence = upload.task_sequence;
  ack.body.ack.verdict = gs_Verdict_VERDICT_FOLDED;
  pool.pool.find(2)->send(ack);
  ASSERT_TRUE(pool.until([&] { return (message = two->next()).has_value(); }));
  EXPECT_EQ(message->which_body, gs_ServerMessage_ack_tag);
  ASSERT_TRUE(pool.until([&] { return (message = two->next()).has_value(); }));
  EXPECT_EQ(message->which_body, gs_ServerMessage_drain_tag);
  EXPECT_EQ(pool.closing, (std::vector<SessionId>{1, 2}));
}

TEST(SessionPool, WhatIsSentLeavesWithTheFlushAndIsTakenOffItsGauge) {
  Pool pool;
  const auto peer = pool.begin(1, 1);
  ASSERT_TRUE(pool.until([&] { return peer->established() && pool.established.size() == 1; }));
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_wait_tag;
  QueueGauge gauge = 0;
  SessionOrder order = order_of(SessionOrder::Kind::kSend, 1);
  ASSERT_EQ(make_frame(message, SessionLimits(), &gauge, pool.pool.frames(), &order.frame), Status::kOk);
  EXPECT_EQ(gauge, order.frame.size() + kQueuedFrameOverhead);
  SessionLimits small;
  small.queue_size_max = static_cast<uint32_t>(gauge);
  OutFrame more;
  EXPECT_EQ(make_frame(message, small, &gauge, pool.pool.frames(), &more), Status::kOutOfMemory)
      << "what waits already counts";
  pool.pool.follow(order);
  EXPECT_EQ(pool.counters.traffic.frames_sent, 0U);
  pool.pool.flush();
  EXPECT_EQ(pool.counters.traffic.frames_sent, 1U);
  EXPECT_TRUE(pool.until([&] { return peer->next().has_value(); }));
}

}  // namespace
}  // namespace gradstream
