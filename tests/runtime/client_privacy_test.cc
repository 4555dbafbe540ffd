// What a client keeps to itself, whatever the server says: runtime/link/privacy.h in a client's sessions.
#include <functional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/link/client.h"
#include "runtime/problem/holdout.h"
#include "tests/support/fake_link.h"

namespace gradstream {
namespace {

// A device of 10 samples with the default floors but one. A FakeRun asks for 6 of them in each of 2 steps, and for 8
// scalars.
struct FlooredDevice : FakeDevice {
  FlooredDevice() {
    config.floors = PrivacyFloors();
    config.floors.batch_size_min = 6;
  }
};

// Every update that the server gets.
struct Updates {
  explicit Updates(FakeServer& server) {
    server.intercept = [this](const DeviceMessage& message) {
      if (message.which_body == gs_DeviceMessage_update_scalars_tag) {
        scalars.push_back(message.body.update_scalars);
      }
      return false;
    };
  }
  std::vector<gs_UpdateScalars> scalars;
};

// The first task of the run, as `change` makes it, is refused; the second one is done.
gs_TaskRefused refusal_of(FakeDevice& device, const std::function<void(ServerMessage&)>& change) {
  FakeServer server{FakeRun{}};
  uint32_t changes = 0;
  server.edit = [&](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag && changes++ == 0) {
      change(message);
    }
  };
  FakeLink link(device, server);
  EXPECT_TRUE(link.run_to_end());
  EXPECT_EQ(link.client().counters().tasks_refused, 1U);
  EXPECT_EQ(server.refusals.size(), 1U);
  return server.refusals.empty() ? gs_TaskRefused{} : server.refusals[0];
}

void ask_for_one_sample(ServerMessage& message) {
  message.body.task.batch_mode = gs_BATCH_MODE_COMMON;
  message.body.task.batch_size = 1;
}

TEST(ClientPrivacy, ATaskBelowAFloorIsRefusedByName) {
  FlooredDevice device;
  const gs_TaskRefused refused = refusal_of(device, ask_for_one_sample);
  EXPECT_EQ(refused.reason, gs_REASON_PRIVACY);
  EXPECT_EQ(refused.floor, gs_FLOOR_BATCH_SIZE);
  EXPECT_EQ(refused.value, 1);
  EXPECT_EQ(refused.least, 6);
  EXPECT_EQ(refused.sample, 0U);
  EXPECT_EQ(device.client->floor_fault().floor, FloorId::kNone) << "the next task was done";
  EXPECT_EQ(device.client->counters().updates_folded, 4U);
}

TEST(ClientPrivacy, WithoutFloorsTheSameTaskIsDone) {
  FakeDevice device;
  FakeServer server{FakeRun{}};
  server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) {
      ask_for_one_sample(message);
    }
  };
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return link.client().counters().tasks_done > 0; }));
  EXPECT_TRUE(server.refusals.empty());
}

TEST(ClientPrivacy, NoDeadlineCutsATaskBelowItsSteps) {
  FlooredDevice device;
  device.config.floors.local_step_count_min = 2;
  FakeServer server{FakeRun{}};  // K = 2
  server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_task_tag) {
      message.body.task.deadline_ms = 1;
      message.body.task.steps_min = 1;
    }
  };
  Updates updates(server);
  FakeLink link(device, server);
  link.step_ms = 1000;
  ASSERT_TRUE(link.run_to_end());
  ASSERT_FALSE(updates.scalars.empty());
  for (const gs_UpdateScalars& update : updates.scalars) {
    EXPECT_EQ(update.steps_done, 2U);
  }
}

TEST(ClientPrivacy, LossesStayWhereTheOwnerDoesNotSendThem) {
  for (const bool sends : {false, true}) {
    FlooredDevice device;
    device.config.floors.sends_losses = sends;
    FakeServer server{FakeRun{}};
    Updates updates(server);
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_to_end());
    ASSERT_EQ(updates.scalars.size(), 4U);
    for (const gs_UpdateScalars& update : updates.scalars) {
      EXPECT_EQ(update.loss_before != 0, sends);
      EXPECT_EQ(update.loss_after != 0, sends);
    }
    const uint32_t features = server.last_hello.capabilities.features;
    EXPECT_EQ((features >> gs_FEATURE_NO_LOSSES & 1U) == 0, sends);
  }
}

// An upload was made under the floors of its time, with all that it says. Under others it does not leave the device,
// and its task counts as lost; under the same ones it is sent after a restart.
TEST(ClientPrivacy, AnUploadThatWasSavedUnderOtherFloorsIsNotSent) {
  using Change = void (*)(PrivacyFloors*);
  const Change changes[] = {[](PrivacyFloors*) {},
                            [](PrivacyFloors* f) { f->sums_samples_min = kSumSamplesFloor; },  // the default, said
                            [](PrivacyFloors* f) { f->batch_size_min = 5; },
                            [](PrivacyFloors* f) { f->local_step_count_min = 2; },
                            [](PrivacyFloors* f) { f->scalars_per_sample_max = 9; },
                            [](PrivacyFloors* f) { f->sums_samples_min = 31; },
                            [](PrivacyFloors* f) { f->trials_samples_min = 33; },
                            [](PrivacyFloors* f) { f->refuses_tangents = true; },
                            [](PrivacyFloors* f) { f->sends_losses = false; },
                            [](PrivacyFloors* f) { f->skips_evaluation = true; },
                            [](PrivacyFloors* f) { f->refuses_sums = true; },
                            [](PrivacyFloors* f) { f->sample_count = SampleCountForm::kNone; }};
  for (const Change& change : changes) {
    const size_t index = static_cast<size_t>(&change - changes);
    const bool is_same = index < 2;
    FlooredDevice device;
    device.config.floors.sends_losses = true;
    FakeServer server{FakeRun{}};
    Updates updates(server);
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_until([&] { return !link.saves.empty() && link.client().counters().tasks_done == 1; }));
    ASSERT_TRUE(updates.scalars.empty());
    change(&device.config.floors);
    link.restart();
    ASSERT_TRUE(link.run_to_end()) << index;
    ASSERT_EQ(updates.scalars.size(), 4U) << index;
    EXPECT_EQ(updates.scalars[0].task_sequence, is_same ? 1U : 2U) << index;
    EXPECT_EQ(updates.scalars[0].loss_before != 0, device.config.floors.sends_losses) << index;
  }
}

TEST(ClientPrivacy, TheNumberOfSamplesIsToldAsTheOwnerSays) {
  const std::pair<SampleCountForm, uint32_t> rows[] = {
      {SampleCountForm::kBucket, 8}, {SampleCountForm::kExact, 10}, {SampleCountForm::kNone, 1}};
  for (const auto& [form, told] : rows) {
    FlooredDevice device;
    device.config.floors.sample_count = form;
    FakeServer server{FakeRun{}};
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_to_end());
    EXPECT_EQ(server.last_hello.sample_count, told);
  }
}

TEST(ClientPrivacy, ADeviceThatEvaluatesNothingSaysSo) {
  FlooredDevice device;
  device.config.floors.skips_evaluation = true;
  FakeServer server{FakeRun{}};
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_to_end());
  EXPECT_EQ(server.last_hello.capabilities.features >> gs_FEATURE_EVALUATION & 1U, 0U);
}

// Evaluations that the server gets where it asks for them, whatever the Hello has said.
std::vector<gs_Evaluation> evaluations_of(FakeDevice& device, uint32_t holdout) {
  FakeServer server{FakeRun{}};
  server.edit = [&](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_welcome_tag) {
      message.body.welcome.holdout = holdout;
    } else if (message.which_body == gs_ServerMessage_task_tag) {
      message.body.task.evaluates = true;
    }
  };
  std::vector<gs_Evaluation> all;
  Updates updates(server);
  FakeLink link(device, server);
  EXPECT_TRUE(link.run_until([&] { return link.client().counters().updates_folded > 0 || !server.refusals.empty(); }));
  for (const gs_UpdateScalars& update : updates.scalars) {
    if (update.has_evaluation) {
      all.push_back(update.evaluation);
    }
  }
  return all;
}

TEST(ClientPrivacy, AnEvaluationIsAMeanOfAsManySamplesAsAnEstimate) {
  constexpr uint32_t kHoldout = 20000;
  uint32_t held_out = 0;
  for (uint32_t index = 0; index < 10; ++index) {
    held_out += is_held_out(index, kHoldout) ? 1U : 0U;
  }
  ASSERT_GT(held_out, 1U);
  for (const uint32_t least : {held_out, held_out + 1}) {
    FlooredDevice device;
    device.config.floors.batch_size_min = static_cast<uint16_t>(least);
    device.config.floors.scalars_per_sample_max = 100;
    ASSERT_LT(held_out + 1, count_trained(10, kHoldout));
    const std::vector<gs_Evaluation> told = evaluations_of(device, kHoldout);
    ASSERT_EQ(told.size(), least == held_out ? 1U : 0U);
    if (!told.empty()) {
      EXPECT_EQ(told[0].sample_count, told_count(SampleCountForm::kBucket, held_out));
      EXPECT_NE(told[0].loss, 0);
    }
  }
  FlooredDevice silent;
  silent.config.floors.batch_size_min = 1;
  silent.config.floors.scalars_per_sample_max = 100;
  silent.config.floors.skips_evaluation = true;
  EXPECT_TRUE(evaluations_of(silent, kHoldout).empty()) << "a server that asks all the same is not answered";
}

// A server that holds nearly all samples out is left with few that train.
TEST(ClientPrivacy, SamplesThatAreHeldOutMakeNoBatch) {
  FlooredDevice device;
  FakeServer server{FakeRun{}};
  server.edit = [](ServerMessage& message) {
    if (message.which_body == gs_ServerMessage_welcome_tag) {
      message.body.welcome.holdout = 40000;
    }
  };
  FakeLink link(device, server);
  ASSERT_TRUE(link.run_until([&] { return !server.refusals.empty(); }));
  EXPECT_EQ(server.refusals[0].floor, gs_FLOOR_BATCH_SIZE);
  EXPECT_EQ(server.refusals[0].value, static_cast<float>(count_trained(10, 40000)));
}

// No message has a field that a floor is read from. Here every number of every message is large, and nothing leaves.
TEST(ClientPrivacy, NoMessageLowersAFloor) {
  for (uint32_t word : {0U, 1U, 7U, 0x7fffffffU}) {
    FlooredDevice device;
    device.config.floors.batch_size_min = 11;  // one more than it has
    FakeServer server{FakeRun{}};
    uint32_t edits = 0;
    server.edit = [&](ServerMessage& message) {
      if (message.which_body != gs_ServerMessage_task_tag) {
        return;
      }
      gs_Task& task = message.body.task;
      task.batch_size = word;
      task.batch_mode = static_cast<gs_BatchMode>(edits % (_gs_BatchMode_MAX + 1));
      task.steps_min = word;
      task.deadline_ms = word;
      task.batch_sizes_count = static_cast<pb_size_t>(edits % 9);
      for (uint32_t& size : task.batch_sizes) {
        size = word;
      }
      task.evaluates = true;
      task.use_correction = !task.use_correction;
      ++edits;
    };
    Updates updates(server);
    FakeLink link(device, server);
    ASSERT_TRUE(link.run_until([&] { return server.refusals.size() >= 20; }));
    EXPECT_TRUE(updates.scalars.empty());
    EXPECT_GE(edits, 20U);
    for (const gs_TaskRefused& refused : server.refusals) {
      EXPECT_EQ(refused.reason, gs_REASON_PRIVACY);
      EXPECT_EQ(refused.floor, gs_FLOOR_BATCH_SIZE);
    }
  }
}

}  // namespace
}  // namespace gradstream
