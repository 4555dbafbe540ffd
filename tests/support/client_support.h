// What the tests of the client share: small runs of each kind, and what two servers agree on where nothing got lost.
#ifndef GRADSTREAM_TESTS_SUPPORT_CLIENT_SUPPORT_H_
#define GRADSTREAM_TESTS_SUPPORT_CLIENT_SUPPORT_H_

#include <gtest/gtest.h>

#include "runtime/link/client.h"
#include "tests/support/fake_server.h"

namespace gradstream {

inline FakeRun sphere_run() {
  FakeRun run;
  run.manifold = &kSphereOps;
  run.shape = {8, 1};
  return run;
}

inline FakeRun tangent_run() {
  FakeRun run;
  run.stream = StreamKind::kTangentBlock;
  run.use_correction = false;
  return run;
}

inline FakeRun feedback_run() {
  FakeRun run = tangent_run();
  run.encoding = Encoding::kInt8;
  run.error_feedback = true;
  return run;
}

// Of a product: the parts must outlive the run.
inline FakeRun product_run(const Parts& parts, StreamKind stream) {
  FakeRun run = stream == StreamKind::kScalarStream ? FakeRun{} : tangent_run();
  run.manifold = &kProductOps;
  run.shape = {8, 1, &parts};
  return run;
}

// The device and its server came to the same end as a pair without faults, by the same uploads.
inline void expect_same_end(FakeServer& server, Client& client, const FakeServer& expected) {
  EXPECT_EQ(server.model().version(), expected.model().version());
  EXPECT_EQ(server.model().digest(), expected.model().digest());
  EXPECT_EQ(client.replica().version(), server.model().version());
  EXPECT_EQ(client.replica().digest(), server.model().digest());
  EXPECT_EQ(server.uploads, expected.uploads);
  EXPECT_EQ(server.conflicting_uploads, 0U);
  EXPECT_EQ(server.malformed_count, 0U);
}

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_CLIENT_SUPPORT_H_
