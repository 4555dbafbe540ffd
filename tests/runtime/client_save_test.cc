// What a device saves, and that one which lost its power goes on as if it had not: the same uploads byte for byte, the
// same digest, nothing counted twice.
#include <cstring>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "boards/flash_log.h"
#include "runtime/base/crc32c.h"
#include "runtime/link/client.h"
#include "tests/support/client_support.h"
#include "tests/support/fake_link.h"
#include "tests/support/fake_server.h"

namespace gradstream {
namespace {

FakeRun make_run(StreamKind stream) {
  FakeRun run;
  run.stream = stream;
  run.use_correction = stream == StreamKind::kScalarStream;
  return run;
}

// Power is cut before every single action of the client: in TRAIN, before and after SAVE, amid an upload, while idle.
TEST(ClientSave, APowerCutAtEveryActionChangesNothing) {
  FakeRun feedback = make_run(StreamKind::kTangentBlock);
  feedback.encoding = Encoding::kInt8;
  feedback.error_feedback = true;
  const Parts parts = {2, {{&kStiefelOps, {2, 2}}, {&kSphereOps, {4, 1}}}};
  FakeRun product = make_run(StreamKind::kScalarStream);
  product.manifold = &kProductOps;
  product.shape = {8, 1, &parts};
  for (const FakeRun& run :
       {make_run(StreamKind::kScalarStream), make_run(StreamKind::kTangentBlock), feedback, product}) {
    const StreamKind stream = run.stream;
    FakeServer undisturbed(run);
    FakeDevice device;
    if (run.shape.parts != nullptr) {
      device.config.registry.manifolds = all_manifolds();
    }
    size_t total = 0;
    uint32_t step_count = 0;
    {
      FakeLink link(device, undisturbed);
      for (; !link.client().run_finished(); ++total) {
        link.step();
      }
      ASSERT_EQ(link.saves.size(), undisturbed.run.round_count);
      step_count = link.client().counters().local_steps;
    }
    // Steps that are all scalars are kept one by one; a task of others begins anew.
    const uint32_t lost_max = stream == StreamKind::kScalarStream ? 1 : step_count / undisturbed.run.round_count;
    uint32_t replayed = 0;
    for (size_t at = 0; at < total; ++at) {
      SCOPED_TRACE(at);
      device.storage.clear();
      FakeServer server(run);
      FakeLink link(device, server);
      for (size_t i = 0; i < at; ++i) {
        link.step();
      }
      const uint32_t steps_before = link.client().counters().local_steps;
      link.restart();
      ASSERT_EQ(device.restore_status, Status::kOk);
      ASSERT_TRUE(link.run_to_end());
      expect_same_end(server, link.client(), undisturbed);
      ASSERT_LE(steps_before + link.client().counters().local_steps, step_count + lost_max);
      replayed += link.client().counters().steps_replayed;
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_EQ(replayed > 0, stream == StreamKind::kScalarStream);
  }
}

// What is kept of another task, or does not hold, is not taken for a part of this one.
TEST(ClientSave, StepsOfAnotherTaskAreNotReplayed) {
  FakeRun run = make_run(StreamKind::kScalarStream);
  run.local_step_count = 4;
  FakeServer undisturbed(run);
  FakeDevice device;
  std::vector<Bytes> kept;
  {
    FakeLink link(device, undisturbed);
    ASSERT_TRUE(link.run_until([&] { return device.steps.size() == 2; }));
    kept = device.steps;
    ASSERT_TRUE(link.run_to_end());
  }
  for (size_t spoilt = 0; spoilt < kept[1].size(); ++spoilt) {
    SCOPED_TRACE(spoilt);
    device.storage.clear();
    FakeServer server(run);
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_until([&] { return device.steps.size() == 2; }));
    device.steps = kept;
    device.steps[1][spoilt] ^= 0x20;
    link.restart();
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(link.client().counters().steps_replayed, 1U);
    expect_same_end(server, link.client(), undisturbed);
  }
}

void cut_after_two_steps(const FakeRun& run, FakeDevice* device) {
  FakeServer server(run);
  FakeLink link(*device, server);
  ASSERT_TRUE(link.run_until([&] { return device->steps.size() == 2; }));
}

// A server that was set up anew gives the same numbers to the run, its task and its version.
TEST(ClientSave, StepsOfAnotherRunUnderTheSameNumbersAreNotReplayed) {
  FakeRun run = make_run(StreamKind::kScalarStream);
  run.local_step_count = 4;
  FakeDevice device;
  cut_after_two_steps(run, &device);
  run.seed += 1;
  run.parameters_digest += 1;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().steps_replayed, 0U);
}

// A server that was set up anew with the same file: another run by its digest, with the same number, tasks and models.
TEST(ClientSave, AnUploadForAnotherRunIsNeverSentToThisOne) {
  FakeRun run = make_run(StreamKind::kScalarStream);
  FakeServer undisturbed(run);
  FakeDevice other;
  FakeLink other_link(other, undisturbed);
  ASSERT_TRUE(other_link.run_to_end());
  FakeDevice device;
  {
    FakeServer old_server(run);
    FakeLink link(device, old_server);
    ASSERT_TRUE(link.run_until([&] { return !device.storage.empty(); }));
    EXPECT_EQ(old_server.duplicates, 0U);
  }
  run.parameters_digest += 1;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().runs_dropped, 1U);
  EXPECT_EQ(link.client().counters().updates_resent, 0U);
  EXPECT_EQ(link.client().counters().tasks_done, other_link.client().counters().tasks_done)
      << "each task was done for this run";
}

// A board that was given another identity and kept its flash: the new one's server may have issued the same numbers.
TEST(ClientSave, StepsOfAnotherIdentityAreNotReplayed) {
  FakeRun run = make_run(StreamKind::kScalarStream);
  run.local_step_count = 4;
  FakeDevice device;
  cut_after_two_steps(run, &device);
  device.config.owner += 1;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().steps_replayed, 0U);
}

// The record of a step is read into the buffer of frames where it fits, and into the arena where it does not.
TEST(ClientSave, StepsAreReplayedWhateverTheirRecordsTake) {
  for (const uint32_t direction_count : {200U, 300U, 1000U}) {
    SCOPED_TRACE(direction_count);
    FakeRun run = make_run(StreamKind::kScalarStream);
    run.local_step_count = 4;
    run.direction_count = direction_count;
    FakeServer undisturbed(run);
    FakeDevice first;
    FakeLink undisturbed_link(first, undisturbed);
    ASSERT_TRUE(undisturbed_link.run_to_end());
    const size_t record_size = first.steps[0].size();
    ASSERT_EQ(record_size > kFrameSizeMax, direction_count >= 300) << record_size;
    const size_t most = first.memory.arena.high_water_size();
    FakeDevice device(8, record_size > kFrameSizeMax ? most + Arena::taken_size<uint8_t>(record_size) : most);
    cut_after_two_steps(run, &device);
    FakeServer server(run);
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(link.client().counters().steps_replayed, 2U);
    expect_same_end(server, link.client(), undisturbed);
    if (record_size > kFrameSizeMax) {  // without room for it the steps are done again
      FakeDevice small(8, most);
      cut_after_two_steps(run, &small);
      FakeServer again(run);
      FakeLink other(small, again);
      ASSERT_TRUE(other.run_to_end());
      EXPECT_EQ(other.client().counters().steps_replayed, 0U);
      expect_same_end(again, other.client(), undisturbed);
    }
  }
}

// What ./run footprint says of a flash's life: the demo's model and task.
TEST(ClientSave, FlashThatARoundTakes) {
  FakeRun run = make_run(StreamKind::kScalarStream);
  run.shape = {64, 4};
  run.direction_count = 16;
  run.local_step_count = 5;
  FakeServer server(run);
  FakeDevice device(64);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.saves.size() == 2; }));
  uint32_t size = 0;
  ASSERT_TRUE(link.run_until([&] { return device.steps.size() == 4; }));
  for (const Bytes& step : device.steps) {
    size += FlashLog::record_size(static_cast<uint32_t>(step.size()));
  }
  ASSERT_TRUE(link.run_until([&] { return link.saves.size() == 3; }));
  size += FlashLog::record_size(static_cast<uint32_t>(link.saves.back().size()));
  EXPECT_EQ(size, 3344U);
}

// A restart from every state ever saved, also from one that is rounds old.
TEST(ClientSave, EverySavedStateCanBeContinued) {
  FakeRun run;
  run.round_count = 8;
  FakeServer undisturbed(run);
  FakeDevice device;
  std::vector<Bytes> saves;
  {
    FakeLink link(device, undisturbed);
    ASSERT_TRUE(link.run_to_end());
    saves = link.saves;
  }
  for (size_t i = 0; i < saves.size(); ++i) {
    SCOPED_TRACE(i);
    device.storage.clear();
    FakeServer server(run);
    FakeLink link(device, server);
    const uint32_t rounds = static_cast<uint32_t>(i) + 1;
    ASSERT_TRUE(link.run_past_upload(rounds));
    EXPECT_EQ(device.storage, saves[i]);
    ASSERT_TRUE(link.run_until([&] { return !device.steps.empty(); }) || rounds == run.round_count);
    link.restart();  // in TRAIN of the next round, from the state of this one
    EXPECT_EQ(link.client().replica().version(), i);
    EXPECT_EQ(link.client().correction() != nullptr, i > 0);
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(server.duplicates, 1U);
    EXPECT_EQ(link.client().counters().updates_resent, 1U);
    EXPECT_EQ(link.client().counters().snapshots, 0U);
    expect_same_end(server, link.client(), undisturbed);
  }
}

TEST(ClientSave, AnOlderStateIsSupersededAndCatchesUp) {
  FakeRun run;
  run.round_count = 8;
  FakeDevice device;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_past_upload(4));
  device.storage = link.saves[1];
  link.restart();
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().updates_refused, 1U);
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
  EXPECT_EQ(server.conflicting_uploads, 0U);
}

TEST(ClientSave, WithoutStorageItBeginsAfresh) {
  FakeDevice device;
  device.config.has_storage = false;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_past_upload(2));
  link.restart();
  EXPECT_FALSE(link.client().replica().has_model());
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(server.snapshots_sent, 2U);
  EXPECT_TRUE(link.saves.empty());
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
}

TEST(ClientSave, AFailedSaveIsCountedAndTheWorkGoesOn) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  link.save_status = Status::kClosed;
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().save_failures, 4U);
  EXPECT_EQ(link.client().last_status(), Status::kClosed);
  EXPECT_EQ(link.client().replica().digest(), server.model().digest());
}

TEST(ClientSave, ASaveThatIsNeverReportedHasADeadline) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to(ClientState::kSave));
  Client& client = link.client();
  EXPECT_EQ(client.poll(5000).kind, ClientActionKind::kSave);
  const ClientAction action = client.poll(5001);
  EXPECT_EQ(action.kind, ClientActionKind::kWait);
  EXPECT_EQ(client.poll(action.wake_ms).kind, ClientActionKind::kWait);
  EXPECT_EQ(client.counters().save_failures, 1U);
  EXPECT_EQ(client.state(), ClientState::kUpload);
}

// ---- What the server says of its journal ----

struct JournalWords {
  uint64_t sequence = 0;
  uint64_t chain = 0;
  bool operator==(const JournalWords&) const = default;
};

JournalWords journal_of(const gs_Hello& hello) { return {hello.journal_sequence, hello.journal_chain}; }

// For FakeServer::edit: each Welcome says this.
std::function<void(ServerMessage&)> saying_of_journal(JournalWords words) {
  return [words](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_welcome_tag) {
      message.body.welcome.journal_sequence = words.sequence;
      message.body.welcome.journal_chain = words.chain;
    }
  };
}

TEST(ClientSave, WhatTheServerSaysOfItsJournalComesBackAfterAReset) {
  FakeRun run;
  run.round_count = 8;
  FakeServer server(run);
  FakeDevice device;
  FakeLink link(device, server);
  server.edit = saying_of_journal({12, 34});
  ASSERT_TRUE(link.run_until([&] { return link.saves.size() == 2; }));
  EXPECT_EQ(journal_of(server.last_hello), JournalWords()) << "the first Hello";
  EXPECT_EQ(server.last_hello.parameters_digest, 0U);
  server.edit = saying_of_journal({56, 78});
  link.restart();
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  EXPECT_EQ(journal_of(server.last_hello), (JournalWords{12, 34}));
  EXPECT_EQ(server.last_hello.parameters_digest, run.parameters_digest);
  link.restart();  // nothing was saved meanwhile
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  EXPECT_EQ(journal_of(server.last_hello), (JournalWords{12, 34}));
  server.edit = nullptr;  // a server of an older release
  ASSERT_TRUE(link.run_until([&] { return link.saves.size() == 3; }));
  link.restart();
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  EXPECT_EQ(journal_of(server.last_hello), (JournalWords{56, 78}));
  ASSERT_TRUE(link.run_to_end());
}

// Defect: in a session that lasts for a day a device knew the journal of its beginning alone.
TEST(ClientSave, WhatATaskSaysOfTheJournalTakesThePlaceOfWhatTheWelcomeSaid) {
  FakeRun run;
  run.round_count = 8;
  FakeServer server(run);
  FakeDevice device;
  FakeLink link(device, server);
  uint32_t task_count = 0;
  server.edit = [&](ServerMessage& message) {
    saying_of_journal({12, 34})(message);
    if (message.which_body == gs_ServerMessage_task_tag && ++task_count == 2) {
      message.body.task.journal_sequence = 56;
      message.body.task.journal_chain = 78;
    }
  };
  ASSERT_TRUE(link.run_until([&] { return link.saves.size() == 1; }));
  link.restart();
  ASSERT_TRUE(link.run_to(ClientState::kHello));
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  EXPECT_EQ(journal_of(server.last_hello), (JournalWords{12, 34})) << "the first Task said nothing";
  const size_t before = link.saves.size();
  ASSERT_TRUE(link.run_until([&] { return task_count == 4 && link.saves.size() > before + 1; }));
  link.restart();
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  EXPECT_EQ(journal_of(server.last_hello), (JournalWords{56, 78})) << "the third said nothing: the second one's stays";
  ASSERT_TRUE(link.run_to_end());
}

// The pair costs no write of its own: a run with it saves as often as a run without.
TEST(ClientSave, WhatTheServerSaysOfItsJournalCostsNoWrite) {
  size_t saves[2] = {};
  for (const uint64_t sequence : {0, 12}) {
    FakeServer server{FakeRun{}};
    FakeDevice device;
    FakeLink link(device, server);
    server.edit = saying_of_journal({sequence, sequence});
    ASSERT_TRUE(link.run_to_end());
    saves[sequence == 0 ? 0 : 1] = link.saves.size();
  }
  EXPECT_EQ(saves[1], saves[0]);
  EXPECT_GT(saves[0], 0U);
}

// The next run's server learns nothing of the journal of this one, but for the Hello that finds it.
TEST(ClientSave, AnotherRunEndsWhatIsKnownOfAJournal) {
  FakeRun run;
  FakeDevice device;
  {
    FakeServer server(run);
    FakeLink link(device, server);
    server.edit = saying_of_journal({12, 34});
    ASSERT_TRUE(link.run_until([&] { return link.saves.size() == 2; }));
  }
  const uint64_t old_digest = run.parameters_digest;
  run.parameters_digest += 1;
  FakeServer server(run);
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  EXPECT_EQ(server.last_hello.parameters_digest, old_digest) << "by which the server knows that it is another run";
  ASSERT_TRUE(link.run_until([&] { return link.saves.size() == 1; }));
  link.restart();
  ASSERT_TRUE(link.run_to(ClientState::kTrain));
  EXPECT_EQ(journal_of(server.last_hello), JournalWords());
}

// ---- Damage ----

struct SavedDevice {
  SavedDevice() {
    FakeRun run;
    run.round_count = 8;
    server = std::make_unique<FakeServer>(run);
    link = std::make_unique<FakeLink>(device, *server);
    EXPECT_TRUE(link->run_until([&] { return link->saves.size() == 3; }));
    link->run_to(ClientState::kUpload);
  }
  FakeDevice device;
  std::unique_ptr<FakeServer> server;
  std::unique_ptr<FakeLink> link;
};

constexpr size_t kHeaderSize = 440;
constexpr size_t kTensorSize = 64;

TEST(ClientSave, LayoutIsHeaderModelCorrectionUpload) {
  SavedDevice saved;
  EXPECT_EQ(saved.device.storage.size(), kHeaderSize + 2 * kTensorSize + 8 * 4);
}

// A state that an older image of this format wrote must mean the same to a newer one.
TEST(ClientSave, TheWordsOfAHeaderArePinned) {
  constexpr uint32_t kAny = 0xffffffff;  // checksums, and losses that depend on the machine's logarithm
  FakeRun run = make_run(StreamKind::kTangentBlock);
  run.encoding = Encoding::kInt8;
  run.error_feedback = true;
  run.seed = 6;
  FakeServer server(run);
  server.edit = saying_of_journal({0x100000009, 0x1122334455667788});
  FakeDevice device;
  device.config.owner = 0x77;
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.saves.size() == 3; }));
  // clang-format off
  const std::vector<uint32_t> wanted = {
      0x53534753, 7, 4, 0x77,                                // magic, format, size of a number, owner
      1, 77, 0, 3, 0, 0, 8, 2, 2, 1, 1, 6, 4, 0,             // the run, up to its parts
      2, 1, kAny, 0, 0,                                      // version, model, correction
      18, 1, 0,                                              // slots, the accepted upload's record
      0, 0, 0, 1,                                            // correction, scale of sums, mean, error feedback
      1, kAny, kAny, kAny, 0, 0,                             // residual, parts of a product
      0, 0, 0, 0, 0,                                         // units, lines, held-out samples; the table of units
      9, 1, 0x55667788, 0x11223344,                          // what the server said of its journal
      0x433f0440,                                            // the floors of its owner
      3, 2, 2, 4, 16, 18, kAny, 0, kAny, kAny, 3, 2, 0,      // pending upload
      0, 0, 0, 0, 0, 0, 0, 0,                                // its stage, line, evaluation and clip
      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,     // accepted
      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kAny};  // held, checksum
  // clang-format on
  std::vector<uint32_t> words(kHeaderSize / sizeof(uint32_t));
  ASSERT_EQ(words.size(), wanted.size());
  std::memcpy(words.data(), device.storage.data(), kHeaderSize);
  for (size_t i = 0; i < words.size(); ++i) {
    EXPECT_EQ(wanted[i] == kAny ? kAny : words[i], wanted[i]) << "word " << i;
  }
}

TEST(ClientSave, ALostUploadIsSaidAndItsTaskDoneAnew) {
  SavedDevice saved;
  saved.device.storage.back() ^= 1;
  saved.link->restart();
  ASSERT_EQ(saved.device.restore_status, Status::kOk);
  ASSERT_TRUE(saved.link->run_to(ClientState::kTrain));
  EXPECT_EQ(saved.server->last_hello.lost_task_sequence, 3U);
  EXPECT_EQ(saved.server->last_hello.pending_task_sequence, 0U);
  EXPECT_TRUE(saved.server->last_hello.has_model);
  ASSERT_TRUE(saved.link->run_to_end());
  EXPECT_EQ(saved.server->uploads.count(3), 0U);
  EXPECT_EQ(saved.server->steps_done.size(), 8U);
  EXPECT_EQ(saved.link->client().replica().digest(), saved.server->model().digest());
}

TEST(ClientSave, AnUploadOfAnotherIdentityIsNeverSent) {
  SavedDevice saved;
  const Bytes kept = saved.device.storage;
  saved.device.config.owner += 1;
  saved.link->restart();
  EXPECT_EQ(saved.device.restore_status, Status::kUnauthenticated);
  ASSERT_TRUE(saved.link->run_to(ClientState::kTrain));
  EXPECT_EQ(saved.server->last_hello.pending_task_sequence, 0U);
  EXPECT_EQ(saved.server->last_hello.lost_task_sequence, 0U);
  EXPECT_FALSE(saved.server->last_hello.has_model);
  EXPECT_EQ(saved.server->uploads.count(3), 0U);
  // The identity that saved it still finds its own.
  saved.device.config.owner -= 1;
  saved.device.storage = kept;
  saved.link->restart();
  EXPECT_EQ(saved.device.restore_status, Status::kOk);
  ASSERT_TRUE(saved.link->run_to_end());
  EXPECT_EQ(saved.server->uploads.count(3), 1U);
}

// The state begins with magic, format, size of a number, owner; the header ends with its checksum.
void renew_header_crc(Bytes& state, size_t header_size) {
  const uint32_t crc = crc32c(0, state.data(), header_size - 4);
  std::memcpy(state.data() + header_size - 4, &crc, sizeof(crc));
}

TEST(ClientSave, AStateOfAnotherLayoutIsRefused) {
  const SavedDevice saved;
  Bytes before_owners = saved.device.storage;
  before_owners.erase(before_owners.begin() + 12, before_owners.begin() + 16);
  before_owners[4] = 3;
  renew_header_crc(before_owners, kHeaderSize - 4);
  Bytes other_format = saved.device.storage;
  other_format[4] ^= 1;
  renew_header_crc(other_format, kHeaderSize);
  for (const Bytes& state : {before_owners, other_format}) {
    FakeDevice device;
    device.storage = state;
    device.boot();
    EXPECT_EQ(device.restore_status, Status::kDataCorrupt);
    EXPECT_FALSE(device.client->replica().has_model());
  }
  Bytes same = saved.device.storage;
  renew_header_crc(same, kHeaderSize);
  EXPECT_EQ(same, saved.device.storage);
}

TEST(ClientSave, ADamagedModelIsFetchedAgainTheUploadStays) {
  SavedDevice saved;
  saved.device.storage[kHeaderSize + 5] ^= 0x40;
  saved.link->restart();
  ASSERT_TRUE(saved.link->run_to(ClientState::kTrain));
  EXPECT_FALSE(saved.server->last_hello.has_model);
  EXPECT_EQ(saved.server->last_hello.pending_task_sequence, 3U);
  EXPECT_EQ(saved.server->uploads.count(3), 1U);
  EXPECT_EQ(saved.link->client().correction(), nullptr);  // a snapshot replaced the record
  ASSERT_TRUE(saved.link->run_to_end());
  EXPECT_EQ(saved.link->client().replica().digest(), saved.server->model().digest());
}

TEST(ClientSave, ADamagedCorrectionIsNotUsed) {
  SavedDevice saved;
  saved.device.storage[kHeaderSize + kTensorSize + 5] ^= 0x40;
  saved.link->restart();
  EXPECT_EQ(saved.link->client().correction(), nullptr);
  ASSERT_TRUE(saved.link->run_to_end());
  EXPECT_EQ(saved.link->client().replica().digest(), saved.server->model().digest());
}

// Each part has a checksum: whichever bit has turned over, the device does not use the part that holds it.
TEST(ClientSave, NoPartWithAFlippedBitIsUsed) {
  const SavedDevice saved;
  constexpr size_t kModelEnd = kHeaderSize + kTensorSize, kCorrectionEnd = kModelEnd + kTensorSize;
  for (size_t bit = 0; bit < 8 * saved.device.storage.size(); ++bit) {
    SCOPED_TRACE(bit);
    FakeDevice device;
    device.storage = saved.device.storage;
    device.storage[bit / 8] = static_cast<uint8_t>(device.storage[bit / 8] ^ (1U << bit % 8));
    FakeServer server(saved.server->run);
    FakeLink link(device, server);
    const size_t place = bit / 8;
    if (place < kHeaderSize) {
      EXPECT_NE(device.restore_status, Status::kOk);
    } else if (place < kModelEnd) {
      EXPECT_FALSE(link.client().replica().has_model());
    } else if (place < kCorrectionEnd) {
      EXPECT_EQ(link.client().correction(), nullptr);
    } else {
      ASSERT_TRUE(link.run_until([&] { return server.last_hello.protocol_version != 0; }));
      EXPECT_EQ(server.last_hello.pending_task_sequence, 0U);
      EXPECT_EQ(server.last_hello.lost_task_sequence, 3U);
    }
    ASSERT_FALSE(HasFailure());
  }
}

// Every flipped bit and every truncation: the device starts, with less or with nothing, and reaches the server's model.
TEST(ClientSave, AnyDamageIsSurvived) {
  const SavedDevice saved;
  const Bytes whole = saved.device.storage;
  for (size_t i = 0; i < 9 * whole.size(); ++i) {
    SCOPED_TRACE(i);
    FakeRun run;
    FakeDevice device;
    device.storage = whole;
    if (i < 8 * whole.size()) {
      device.storage[i / 8] = static_cast<uint8_t>(device.storage[i / 8] ^ (1U << i % 8));
    } else {
      device.storage.resize(i - 8 * whole.size());
    }
    FakeServer server(run);
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_to_end());
    ASSERT_EQ(link.client().replica().digest(), server.model().digest());
  }
}

TEST(ClientSave, BytesBehindTheStateAreIgnored) {
  SavedDevice saved;
  saved.device.storage.resize(4096, 0xff);  // the rest of a flash page
  saved.link->restart();
  ASSERT_EQ(saved.device.restore_status, Status::kOk);
  ASSERT_TRUE(saved.link->run_to_end());
  EXPECT_EQ(saved.server->conflicting_uploads, 0U);
  EXPECT_EQ(saved.link->client().replica().digest(), saved.server->model().digest());
}

TEST(ClientSave, AStateThatDoesNotFitTheImageIsRefused) {
  const SavedDevice saved;
  FakeDevice small(8, 100);
  small.storage = saved.device.storage;
  small.boot();
  EXPECT_EQ(small.restore_status, Status::kOutOfMemory);
  FakeDevice other;
  other.storage = saved.device.storage;
  other.config.registry.manifolds = other.config.registry.manifolds.first(1);
  other.boot();
  EXPECT_EQ(other.restore_status, Status::kUnimplemented);
  FakeDevice none;
  none.storage = {1, 2, 3};
  none.boot();
  EXPECT_EQ(none.restore_status, Status::kDataCorrupt);
  for (FakeDevice* device : {&other, &none}) {
    EXPECT_EQ(device->client->poll(0).kind, ClientActionKind::kConnect);
    EXPECT_FALSE(device->client->replica().has_model());
  }
}

// An update that was accepted, and whose record has not come, survives as well.
TEST(ClientSave, TheAcceptedUploadIsSavedBesideThePendingOne) {
  FakeRun run;
  run.round_count = 8;
  const auto drive = [&](FakeServer& server, bool restarts) {
    FakeDevice device;
    FakeLink link(device, server);
    EXPECT_TRUE(link.run_until([&] { return link.client().correction() != nullptr; }));
    server.holds_version_open = true;
    EXPECT_TRUE(link.run_until([&] { return link.saves.size() == 3; }));
    if (restarts) {
      link.restart();
    }
    const uint32_t corrections = link.client().counters().corrections;
    server.verdicts = {gs_VERDICT_REFUSED};  // the pending one; the accepted one still stands to be settled
    server.intercept = [&](const DeviceMessage& message) {
      if (message.which_body == gs_DeviceMessage_update_scalars_tag) {
        server.advance(1);
        server.holds_version_open = false;
        server.intercept = nullptr;
      }
      return false;
    };
    EXPECT_TRUE(link.run_to_end());
    EXPECT_GE(link.client().counters().corrections, corrections);
    EXPECT_EQ(link.client().replica().digest(), server.model().digest());
  };
  FakeServer undisturbed(run);
  drive(undisturbed, false);
  FakeServer server(run);
  drive(server, true);
  EXPECT_EQ(server.uploads, undisturbed.uploads);
  EXPECT_EQ(server.model().digest(), undisturbed.model().digest());
}

}  // namespace
}  // namespace gradstream
