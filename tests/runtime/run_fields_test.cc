// The lists of what devices see: each field of a Welcome and of a Task stands in one of them.
#include "runtime/wire/run_fields.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/training/task.h"
#include "runtime/wire/codec.h"

namespace gradstream {
namespace {

#define GS_ONE(...) +1
constexpr size_t kTaskFieldCount = 0 gs_Task_FIELDLIST(GS_ONE, );
constexpr size_t kWelcomeFieldCount = 0 gs_Welcome_FIELDLIST(GS_ONE, );
#undef GS_ONE

struct Counter {
  size_t count = 0;
  template <typename A, typename B>
  void operator()(const A&, const B&) {
    ++count;
  }
};

gs_Welcome good_welcome() {
  gs_Welcome welcome = {};
  welcome.manifold = gs_MANIFOLD_STIEFEL;
  welcome.rows = 4;
  welcome.cols = 2;
  welcome.stream = gs_STREAM_KIND_SCALAR;
  welcome.directions = gs_DIRECTIONS_SIGN;
  return welcome;
}

gs_Task good_task() {
  gs_Task task = {};
  task.task_sequence = 1;
  task.solver = gs_SOLVER_PROJECTION;
  task.estimator = gs_ESTIMATOR_PROJECTION_ONE_SIDED;
  task.encoding = gs_ENCODING_F32;
  task.batch_mode = gs_BATCH_MODE_ALL;
  return task;
}

// The status of a message that went over the wire.
Status sent(const ServerMessage& message) {
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_frame(message, frame);
  GS_ASSERT(size.status() == Status::kOk);
  ServerMessage out;
  return decode_message({frame + kFramePrefixSize, size.value() - kFramePrefixSize}, &out);
}

Status sent(const gs_Welcome& welcome) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_welcome_tag;
  message.body.welcome = welcome;
  return sent(message);
}

Status sent(const gs_Task& task) {
  ServerMessage message = {};
  message.which_body = gs_ServerMessage_task_tag;
  message.body.task = task;
  return sent(message);
}

// An enum or a float as no list lets it pass; nothing for other types.
template <typename Field>
bool spoil(Field* field) {
  if constexpr (std::is_enum_v<Field>) {
    const std::underlying_type_t<Field> unknown = 99;
    std::memcpy(field, &unknown, sizeof(unknown));
    return true;
  } else if constexpr (std::is_floating_point_v<Field>) {
    *field = std::numeric_limits<Field>::infinity();
    return true;
  }
  return false;
}

TEST(RunFields, EveryFieldOfATaskStandsInItsList) {
  gs_Task wire = {};
  Task task;
  Counter counter;
  visit_task_fields(wire, task, counter);
  constexpr size_t kSizesAndTheirCount = 1;  // batch_sizes is two members
  constexpr size_t kOthers = 3;              // the model's digest, journal_sequence, journal_chain
  EXPECT_EQ(counter.count, kTaskFieldCount - kOthers + kSizesAndTheirCount)
      << "visit_task_fields() of runtime/training/task.h names each field of a Task; others are counted here";
}

TEST(RunFields, EveryFieldOfAWelcomeIsTheRunsOrTheDevices) {
  const gs_Welcome welcome = {};
  Counter counter;
  visit_run_fields(welcome, welcome, counter);
  // server_time_ms, run_state, parameters_digest, version, client_index, group, abandoned, manifold_parts,
  // network_digest, run_nonce, journal_sequence, journal_chain
  constexpr size_t kOthers = 12;
  EXPECT_EQ(counter.count, kWelcomeFieldCount - kOthers)
      << "visit_run_fields() of runtime/wire/run_fields.h names each number of a run; others are counted here";
}

TEST(RunFields, AnUnknownEnumOfTheListIsRefused) {
  gs_Welcome welcome = good_welcome();
  ASSERT_EQ(sent(welcome), Status::kOk);
  size_t count = 0;
  visit_run_fields(welcome, welcome, [&](auto& field, auto&) {
    const auto good = field;
    if (spoil(&field)) {
      ++count;
      EXPECT_EQ(sent(welcome), Status::kDataCorrupt) << count;
      field = good;
    }
  });
  EXPECT_GE(count, 6U);
}

TEST(RunFields, AnEnumOrFloatOfATaskIsRefused) {
  gs_Task wire = good_task();
  ASSERT_EQ(sent(wire), Status::kOk);
  Task task;
  size_t count = 0;
  visit_task_fields(wire, task, [&](auto& field, auto&) {
    using Field = std::remove_reference_t<decltype(field)>;
    if constexpr (!std::is_array_v<Field>) {
      const auto good = field;
      if (spoil(&field)) {
        ++count;
        EXPECT_EQ(sent(wire), std::is_enum_v<Field> ? Status::kDataCorrupt : Status::kNotFinite) << count;
        field = good;
      }
    }
  });
  EXPECT_GE(count, 13U);
}

// As a device saves it: the same names, each in a word.
struct Words {
  uint32_t run, manifold, retraction, transport, rows, cols, stream, directions, shared_directions, seed,
      direction_count, correction, fold_scale_log2, model_parts, error_feedback, units, lines, holdout;
};

TEST(RunFields, WordsOfTheSameNamesComeBack) {
  gs_Welcome welcome = good_welcome();
  welcome.run = 7;
  welcome.shared_directions = true;
  welcome.correction = gs_Correction_CORRECTION_MEMORY;
  welcome.seed = UINT32_MAX;
  Words words = {};
  visit_run_fields(welcome, words, [](const auto& from, auto& to) { copy_field(from, to); });
  EXPECT_EQ(words.manifold, static_cast<uint32_t>(gs_MANIFOLD_STIEFEL));
  EXPECT_EQ(words.shared_directions, 1U);
  gs_Welcome again = {};
  visit_run_fields(words, again, [](const auto& from, auto& to) { copy_field(from, to); });
  size_t differences = 0;
  visit_run_fields(welcome, again, [&](const auto& a, const auto& b) { differences += a == b ? 0 : 1; });
  EXPECT_EQ(differences, 0U);
}

}  // namespace
}  // namespace gradstream
