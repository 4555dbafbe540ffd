#include "tests/support/server_support.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/random.h"
#include "server/run/run_core.h"
#include "server/run/run_stages.h"

namespace gradstream {

RunParameters scalar_parameters() {
  RunParameters p;
  p.name = "test";
  p.model->manifold = ManifoldId::kStiefel;
  p.model->shape = {16, 2};
  p.model->problem = "kpca";
  p.local->direction_count = 4;
  p.local->local_step_count = 3;
  p.steps->step_size = 0.05F;
  p.steps->step_decay = 0.1F;
  p.trigger->round_count = 1000;
  p.trigger->device_count = 4;
  p.trigger->report_deadline_ms = 1000;
  p.trigger->extension_count_max = 2;
  p.fold->fold_weight = FoldWeight::kSampleCount;
  return p;
}

RunParameters tangent_parameters() {
  RunParameters p = scalar_parameters();
  p.local->solver = SolverId::kGradientStream;
  p.local->estimator = EstimatorId::kAnalyticGradient;
  p.local->correction_form = CorrectionForm::kNone;
  return p;
}

RunParameters deadline_parameters() {
  RunParameters p = scalar_parameters();
  p.trigger->update_goal = 3;
  p.trigger->update_min = 2;
  p.trigger->late = LatePolicy::kWeight;
  p.trigger->staleness_max = 2;
  p.trigger->steps_min = 1;
  return p;
}

RunParameters asynchronous_parameters() {
  RunParameters p = tangent_parameters();
  p.trigger->buffer_size = 1;
  p.trigger->late = LatePolicy::kWeight;
  p.fold->fold_weight = FoldWeight::kUniform;
  p.delay->delay_rule = DelayRule::kOrthoPos;
  return p;
}

std::vector<Real> draw_values(size_t count, uint32_t seed, Real scale) {
  RandomKey key;
  key.seed = seed;
  RandomStream stream(key);
  std::vector<Real> values(count);
  for (Real& value : values) {
    value = scale * static_cast<Real>(stream.next_uniform() - 0.5);
  }
  return values;
}

namespace {

template <typename Piece>
void fill_piece(const TestUpload& upload, const std::vector<uint8_t>& bytes, size_t first, size_t count, Piece* piece) {
  piece->task_sequence = upload.task_sequence;
  piece->base_version = upload.base_version;
  piece->steps_done = upload.steps_done;
  piece->encoding = static_cast<gs_Encoding>(upload.encoding);
  piece->first_value = static_cast<uint32_t>(first);
  piece->value_count = static_cast<uint32_t>(upload.values.size()) + upload.value_count_error;
  piece->crc32c = crc32c(0, bytes.data(), bytes.size()) + upload.crc_error;
  piece->loss_before = upload.loss_before;
  piece->loss_after = upload.loss_after;
  piece->step_time_us = upload.step_time_us;
  piece->base_digest = upload.base_digest;
  piece->has_line = upload.notes.line.has_value();
  if (piece->has_line) {
    piece->line.slope = upload.notes.line->slope;
    piece->line.curvature = upload.notes.line->curvature;
  }
  piece->has_evaluation = upload.notes.evaluation.has_value();
  if (piece->has_evaluation) {
    piece->evaluation.sample_count = upload.notes.evaluation->sample_count;
    piece->evaluation.loss = upload.notes.evaluation->loss;
    piece->evaluation.metric = upload.notes.evaluation->metric;
  }
  const size_t begin = encoded_size(upload.encoding, first);
  piece->values.size = static_cast<pb_size_t>(encoded_size(upload.encoding, first + count) - begin);
  std::memcpy(piece->values.bytes, bytes.data() + begin, piece->values.size);
}

}  // namespace

std::vector<DeviceMessage> upload_messages(const TestUpload& upload) {
  std::vector<uint8_t> bytes(encoded_size(upload.encoding, upload.values.size()));
  GS_ASSERT(encode_values(upload.encoding, upload.values.size(), upload.values.data(), bytes.data()) == Status::kOk);
  std::vector<DeviceMessage> messages;
  const size_t most = values_per_message(upload.encoding);
  for (size_t first = 0; first < upload.values.size(); first += most) {
    const size_t count = std::min(most, upload.values.size() - first);
    DeviceMessage& message = messages.emplace_back();
    if (upload.kind == StreamKind::kScalarStream) {
      message.which_body = gs_DeviceMessage_update_scalars_tag;
      fill_piece(upload, bytes, first, count, &message.body.update_scalars);
      message.body.update_scalars.direction_count = upload.direction_count;
    } else {
      message.which_body = gs_DeviceMessage_update_tangent_tag;
      fill_piece(upload, bytes, first, count, &message.body.update_tangent);
    }
  }
  return messages;
}

gs_Hello good_hello(uint32_t sample_count) {
  gs_Hello hello = {};
  hello.protocol_version = kProtocolVersion;
  hello.capabilities.manifolds = hello.capabilities.solvers = ~0U;
  hello.capabilities.estimators = hello.capabilities.encodings = ~0U;
  hello.capabilities.features = ~(1U << static_cast<uint32_t>(gs_Feature_FEATURE_NO_LOSSES));
  hello.capabilities.problems_count = 1;
  std::strcpy(hello.capabilities.problems[0], "kpca");
  hello.sample_count = sample_count;
  return hello;
}

TestReplica::TestReplica(const RunParameters& p)
    : parameters(p), memory(1 << 15), arena(memory.data(), memory.size() * 8) {
  GS_ASSERT(replica.prepare(*server_manifold(p), p.model->shape, arena, p.has_mean(), version_parts(p)) == Status::kOk);
}

bool TestReplica::take(const gs_SnapshotChunk& chunk) {
  bytes.insert(bytes.end(), chunk.values.bytes, chunk.values.bytes + chunk.values.size);
  if (bytes.size() < chunk.total) {
    return true;
  }
  const bool is_whole = read_model(parameters.model->shape, bytes, replica.begin_snapshot()) == Status::kOk;
  replica.adopt_snapshot(chunk.version);
  bytes.clear();
  ++snapshots;
  return is_whole && replica.digest() == chunk.digest;
}

bool TestReplica::take(const gs_LogChunk& chunk) {
  if (chunk.block_index == 0 && chunk.first_value == 0 && replica.begin_record() != Status::kOk) {
    return false;
  }
  const auto encoding = static_cast<Encoding>(chunk.encoding);
  std::vector<Real> values(std::min<size_t>(values_per_message(encoding), chunk.value_count - chunk.first_value));
  if (chunk.version != replica.version() + 1 ||
      decode_values(encoding, values.size(), chunk.values.bytes, chunk.values.size, values.data()) != Status::kOk ||
      replica.add_to_record(direction_spec(parameters, chunk.base_version, chunk.owner), chunk.first_value,
                            static_cast<uint32_t>(values.size()), values.data(), arena) != Status::kOk) {
    return false;
  }
  if (chunk.block_index + 1 < chunk.block_count || chunk.first_value + values.size() < chunk.value_count) {
    return chunk.digest == 0;
  }
  ++records;
  return replica.finish_record(parameters.local->direction_count, chunk.step_scale, arena) == Status::kOk &&
         replica.digest() == chunk.digest;
}

TestRule::TestRule(const RunParameters& p)
    : server(p), models(8), rule(make_aggregator({&server.parameters, &server.replica, &models, &server.arena})) {
  Real* model = server.replica.begin_snapshot();
  std::fill(model, model + p.model->shape.size(), Real{0});
  for (uint32_t i = 0; i < p.model->shape.cols; ++i) {
    model[i * p.model->shape.cols + i] = 1;
  }
  server.replica.adopt_snapshot(2);
  models.push(2, {server.replica.model(), p.model->shape.size()});
  rule->begin();
}

TestServer::TestServer(const RunParameters& p, uint32_t enrolled) : parameters(p) {
  for (uint32_t i = 0; i < (enrolled == 0 ? p.trigger->device_count : enrolled); ++i) {
    names.push_back("d" + std::to_string(i));
  }
  connects.resize(std::max<size_t>(64, names.size()));
  coordinator = std::make_unique<Coordinator>(7, parameters, names);
}

TestUpload TestServer::good_upload(uint32_t device) const {
  const gs_Task* issued = task(device);
  GS_ASSERT(issued != nullptr);
  TestUpload upload;
  upload.task_sequence = issued->task_sequence;
  upload.base_version = issued->version;
  upload.steps_done = issued->local_step_count;
  upload.direction_count = parameters.local->direction_count;
  upload.encoding = parameters.wire->upload_encoding;
  upload.kind = parameters.stream();
  upload.values = draw_values(parameters.value_count(), 1000 * issued->version + device, 0.2F);
  if (upload.kind == StreamKind::kScalarStream) {
    upload.values.resize(static_cast<size_t>(upload.steps_done) * upload.direction_count);
  }
  return upload;
}

}  // namespace gradstream
