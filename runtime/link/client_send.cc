// What the client says to the server.
#include "runtime/base/no_contraction.h"

#include <cstring>

#include "runtime/base/config.h"
#include "runtime/base/features.h"
#include "runtime/link/client.h"
#include "runtime/training/encoding.h"

namespace gradstream {
namespace {

static_assert(_gs_Floor_MAX == static_cast<int>(FloorId::kTrialSteps));

void copy_text(const char* text, char* out, size_t capacity) {
  size_t size = 0;
  while (size + 1 < capacity && text[size] != '\0') {
    out[size] = text[size];
    ++size;
  }
  out[size] = '\0';
}

gs_Capabilities capabilities_of(const Registry& registry, size_t arena_size, const PrivacyFloors& floors) {
  gs_Capabilities out = {};
  for (const ManifoldOps* ops : registry.manifolds) {
    const bool is_known = kHasProducts || (ops->id != ManifoldId::kProduct && ops->id != ManifoldId::kFixedRank);
    out.manifolds |= is_known ? 1U << static_cast<uint32_t>(ops->id) : 0;
  }
  for (const SolverOps* ops : registry.solvers) {
    out.solvers |= 1U << static_cast<uint32_t>(ops->id);
  }
  for (const EstimatorOps* ops : registry.estimators) {
    out.estimators |= 1U << static_cast<uint32_t>(ops->id);
  }
  for (uint32_t id = 1; id <= static_cast<uint32_t>(Encoding::kF64); ++id) {
    out.encodings |= encoded_size(static_cast<Encoding>(id), 1) != 0 ? 1U << id : 0;
  }
  constexpr uint32_t kAlways = 1U << static_cast<uint32_t>(gs_Feature_FEATURE_BATCH_SIZES) |
                               1U << static_cast<uint32_t>(gs_Feature_FEATURE_PROXIMAL) |
                               1U << static_cast<uint32_t>(gs_Feature_FEATURE_LOCAL_RETRACTION) |
                               1U << static_cast<uint32_t>(gs_Feature_FEATURE_JOURNAL_HEAD);
  out.features |= kAlways;
  constexpr uint32_t kMemory = 1U << static_cast<uint32_t>(gs_Feature_FEATURE_MEMORY) |
                               1U << static_cast<uint32_t>(gs_Feature_FEATURE_CLIP_SCALE);
  out.features |= kRemembers ? kMemory : 0;
  out.features |= kSendsTensors ? 1U << static_cast<uint32_t>(gs_Feature_FEATURE_ERROR_FEEDBACK) : 0;
  if ((out.manifolds & 1U << static_cast<uint32_t>(ManifoldId::kProduct)) != 0) {
    out.features |= 1U << static_cast<uint32_t>(gs_Feature_FEATURE_PART_RANK) |
                    1U << static_cast<uint32_t>(gs_Feature_FEATURE_LARGE_PRODUCT);
  }
  if (kTakesUnits && registry.stages != nullptr) {
    out.features |=
        1U << static_cast<uint32_t>(gs_Feature_FEATURE_UNITS) | 1U << static_cast<uint32_t>(gs_Feature_FEATURE_LINES);
  }
  const bool evaluates = kEvaluates && !floors.skips_evaluation;
  out.features |= evaluates ? 1U << static_cast<uint32_t>(gs_Feature_FEATURE_EVALUATION) : 0;
  out.features |= floors.sends_losses ? 0 : 1U << static_cast<uint32_t>(gs_Feature_FEATURE_NO_LOSSES);
  if (registry.proximal_loss != nullptr) {
    out.features |= 1U << static_cast<uint32_t>(gs_Feature_FEATURE_PROXIMAL_FORM);
    out.features |= kHasHostMembers ? 1U << static_cast<uint32_t>(gs_Feature_FEATURE_PROXIMAL_DISTANCE) : 0;
  }
  out.arena_size = static_cast<uint32_t>(arena_size);
  constexpr size_t kProblemCountMax = sizeof(out.problems) / sizeof(out.problems[0]);
  for (const Problem& problem : registry.problems) {
    if (out.problems_count < kProblemCountMax) {
      copy_text(problem.ops->name, out.problems[out.problems_count], sizeof(out.problems[0]));
      ++out.problems_count;
    }
  }
  return out;
}

// The fields that both kinds of update share.
template <typename Update>
void fill_update(const StoredUpload& upload, const PrivacyFloors& floors, uint32_t first_value, Update& out) {
  out.task_sequence = upload.task_sequence;
  out.base_version = upload.base_version;
  out.steps_done = upload.steps_done;
  out.encoding = static_cast<gs_Encoding>(upload.encoding);
  out.first_value = first_value;
  out.value_count = upload.value_count;
  out.crc32c = upload.crc;
  if (floors.sends_losses) {
    out.loss_before = upload.loss_before;
    out.loss_after = upload.loss_after;
  }
  out.step_time_us = upload.step_time_us;
  if (kTakesUnits && upload.has_line) {
    out.has_line = true;
    out.line = {upload.slope, upload.curvature};
  }
  if (kEvaluates && upload.held_out_count > 0) {
    out.has_evaluation = true;
    out.evaluation = {static_cast<uint16_t>(told_count(floors.sample_count, upload.held_out_count)),
                      upload.held_out_loss, upload.metric};
  }
}

}  // namespace

ClientAction Client::send(const DeviceMessage& message, Sent sent, uint64_t now_ms) {
  const Result<size_t> size = encode_frame(message, frame_);
  GS_ASSERT(size.ok());  // every field is bounded by the codec or by config.h
  sent_ = sent;
  session_.is_sending = true;
  await_ = Await::kSent;
  clock_.expect(now_ms, kAnswerDeadlineMs);
  counters_.frame_bytes_sent += static_cast<uint32_t>(size.value());
  ClientAction action;
  action.kind = ClientActionKind::kSend;
  action.bytes = {frame_, size.value()};
  return action;
}

ClientAction Client::send_hello(uint64_t now_ms) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_hello_tag;
  gs_Hello& hello = message.body.hello;
  hello.protocol_version = kProtocolVersion;
  copy_text(config_.firmware_version, hello.firmware_version, sizeof(hello.firmware_version));
  copy_text(config_.board, hello.board, sizeof(hello.board));
  hello.has_capabilities = true;
  hello.capabilities = capabilities_of(config_.registry, arena_.size(), config_.floors);
  if (config_.network_digest != 0) {
    hello.capabilities.features |= 1U << static_cast<uint32_t>(gs_Feature_FEATURE_NETWORK);
    hello.network_digest = config_.network_digest;
  }
  if (kHoldsPulls && config_.holds_pulls) {
    hello.capabilities.features |= 1U << static_cast<uint32_t>(gs_Feature_FEATURE_HELD_PULL) |
                                   1U << static_cast<uint32_t>(gs_Feature_FEATURE_SINGLE_FLIGHT);
  }
  if (!kIsBareMetal && config_.changes_keys) {
    hello.capabilities.features |= 1U << static_cast<uint32_t>(gs_Feature_FEATURE_KEY_CHANGE);
  }
  hello.run = config_.run;
  hello.has_model = model_.replica().has_model();
  if (hello.has_model) {
    hello.version = model_.replica().version();
    hello.digest = model_.digest();
  }
  hello.pending_task_sequence = progress_.slots.upload(SlotRole::kPending).task_sequence;
  hello.lost_task_sequence = progress_.lost_task_sequence;
  if (const gs_Welcome& run = model_.welcome(); run.journal_sequence != 0) {
    hello.journal_sequence = run.journal_sequence;
    hello.journal_chain = run.journal_chain;
    hello.parameters_digest = run.parameters_digest;
  }
  hello.reset_cause = config_.reset_cause;
  if (!config_.registry.problems.empty()) {
    const Problem& problem = config_.registry.problems[0];
    const uint32_t count = problem.ops->sample_count(problem.context);
    hello.sample_count = told_count(config_.floors.sample_count, count < kSampleCountMax ? count : kSampleCountMax);
  }
  return send(message, Sent::kHello, now_ms);
}

ClientAction Client::send_status(uint64_t now_ms) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_status_report_tag;
  report_.uptime_s = static_cast<uint32_t>(now_ms / 1000);
  report_.arena_high_water = static_cast<uint32_t>(arena_.high_water_size());
  report_.sessions = counters_.sessions;
  report_.digest_mismatches = counters_.digest_mismatches;
  report_.snapshots = counters_.snapshots;
  report_.tasks_done = counters_.tasks_done;
  gs_StatusReport& report = message.body.status_report;
  report = report_;
  report.bytes_sent = report.bytes_sent == 0 ? counters_.frame_bytes_sent : report.bytes_sent;
  report.bytes_received = report.bytes_received == 0 ? counters_.frame_bytes_received : report.bytes_received;
  return send(message, Sent::kStatus, now_ms);
}

ClientAction Client::send_refusal(uint64_t now_ms) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_task_refused_tag;
  message.body.task_refused.task_sequence = progress_.refused_sequence;
  message.body.task_refused.reason = progress_.refusal_reason;
  const FloorFault& floor_fault = progress_.floor_fault;
  if (floor_fault.floor != FloorId::kNone) {
    message.body.task_refused.floor = static_cast<gs_Floor>(floor_fault.floor);
    message.body.task_refused.value = floor_fault.value;
    message.body.task_refused.least = floor_fault.least;
    message.body.task_refused.most = floor_fault.most;
  } else if (progress_.sample_fault.what != nullptr && progress_.refused_sequence != 0) {
    message.body.task_refused.sample = progress_.sample_fault.sample + 1;  // kNone becomes 0: none is named
    message.body.task_refused.value = static_cast<float>(progress_.sample_fault.value);
    message.body.task_refused.least = static_cast<float>(progress_.sample_fault.least);
    message.body.task_refused.most = static_cast<float>(progress_.sample_fault.most);
  }
  state_ = ClientState::kSync;  // a Task or Wait answers
  return send(message, Sent::kRefusal, now_ms);
}

ClientAction Client::send_piece(uint64_t now_ms) {
  if (progress_.next_value == 0 && progress_.is_pending_sent) {
    ++counters_.updates_resent;
  }
  progress_.is_pending_sent = true;
  const StoredUpload& pending = progress_.slots.upload(SlotRole::kPending);
  const size_t most = values_per_message(pending.encoding);
  const size_t rest = pending.value_count - progress_.next_value;
  const size_t count = rest < most ? rest : most;
  const size_t size = encoded_size(pending.encoding, count);
  const uint8_t* bytes =
      progress_.slots.bytes(SlotRole::kPending).data() + encoded_size(pending.encoding, progress_.next_value);
  DeviceMessage message = {};
  // The digest is computed anew, as in a Pull.
  const uint64_t base_digest = kHoldsPulls && tells_base() ? model_.digest() ^ model_.welcome().run_nonce : 0;
  if (!kSendsTensors || pending.kind == StreamKind::kScalarStream) {
    message.which_body = gs_DeviceMessage_update_scalars_tag;
    fill_update(pending, config_.floors, progress_.next_value, message.body.update_scalars);
    if (kHoldsPulls) {
      message.body.update_scalars.base_digest = base_digest;
    }
    message.body.update_scalars.direction_count = static_cast<uint16_t>(pending.direction_count);
    message.body.update_scalars.values.size = static_cast<pb_size_t>(size);
    std::memcpy(message.body.update_scalars.values.bytes, bytes, size);
  } else {
    message.which_body = gs_DeviceMessage_update_tangent_tag;
    fill_update(pending, config_.floors, progress_.next_value, message.body.update_tangent);
    if (kHoldsPulls) {
      message.body.update_tangent.base_digest = base_digest;
    }
    message.body.update_tangent.values.size = static_cast<pb_size_t>(size);
    std::memcpy(message.body.update_tangent.values.bytes, bytes, size);
  }
  progress_.next_value += static_cast<uint32_t>(count);
  return send(message, Sent::kPiece, now_ms);
}

ClientAction Client::send_pull(uint64_t now_ms) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_pull_tag;
  gs_Pull& pull = message.body.pull;
  pull.has_model = model_.replica().has_model();
  if (pull.has_model) {
    pull.version = model_.replica().version();
    pull.digest = model_.digest();
  } else if (model_.may_correct() && progress_.slots.has(SlotRole::kAccepted)) {
    // The snapshot that was to repair the model did not come whole. What settles the correction is the record behind
    // that model, so the model is asked for once more, by a digest that it does not have.
    pull.has_model = true;
    pull.version = progress_.slots.accepted_record() - 1;
  }
  if (kHoldsPulls && config_.holds_pulls) {
    pull.hold_max_ms = kDeviceHoldMs;
    session_.hold = PullHold::kOpen;
  }
  record_.close(arena_);
  snapshot_.close();
  return send(message, Sent::kPull, now_ms);
}

// Whether the pending update says which model the device holds, as a Pull would: the server then may take the Ack for
// one. An update of several pieces does not. Reason: the digest of a model is not worth computing for each piece, and a
// Pull of 53 bytes is little beside them.
bool Client::tells_base() const {
  const StoredUpload& pending = progress_.slots.upload(SlotRole::kPending);
  return config_.holds_pulls && session_.hold != PullHold::kUnknown && model_.replica().has_model() &&
         model_.replica().version() == pending.base_version &&
         pending.value_count <= values_per_message(pending.encoding);
}

}  // namespace gradstream
