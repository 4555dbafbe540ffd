#include "sim/lies.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/base/crc32c.h"
#include "runtime/base/random.h"
#include "runtime/training/encoding.h"

namespace gradstream {
namespace {

// Calls visit(update) where the message is an upload of either form; else returns what a default one is.
template <typename Visit>
auto on_upload(DeviceMessage& message, const Visit& visit) -> decltype(visit(message.body.update_scalars)) {
  if (message.which_body == gs_DeviceMessage_update_scalars_tag) {
    return visit(message.body.update_scalars);
  }
  if (message.which_body == gs_DeviceMessage_update_tangent_tag) {
    return visit(message.body.update_tangent);
  }
  return decltype(visit(message.body.update_scalars))();
}

template <typename Update>
Encoding encoding_of(const Update& update) {
  return static_cast<Encoding>(update.encoding);
}

// ---- Stages ----

float stage_lie(float x) { return std::max(-1e6F * x - 1e3F, -1e30F); }
// The exponent that a liar claims for each of its columns. Reason: 2^100 is above 1e30.
constexpr int64_t kStageExponent = 100;
// Values of the stage TRIALS.
constexpr uint32_t kTrialCount = 32;
constexpr int64_t kExponentMin = -126, kExponentMax = 128;

// Calls change(index, value) for every T of the bytes, and puts what it returns in the value's place.
template <typename T, typename Change>
void change_values(gs_UpdateTangent& update, const Change& change) {
  for (uint32_t i = 0; i + sizeof(T) <= update.values.size; i += sizeof(T)) {
    T value;
    std::memcpy(&value, update.values.bytes + i, sizeof(T));
    value = change(i / sizeof(T), value);
    std::memcpy(update.values.bytes + i, &value, sizeof(T));
  }
  update.crc32c = crc32c(0, update.values.bytes, update.values.size);
}

}  // namespace

std::vector<Real> upload_values(const DeviceMessage& message) {
  // The visitor is one for reading and writing, and this one reads.
  return on_upload(const_cast<DeviceMessage&>(message), [](const auto& update) {
    std::vector<Real> values;
    const Encoding encoding = encoding_of(update);
    if (is_value_encoding(encoding) && update.values.size == encoded_size(encoding, update.value_count)) {
      values.resize(update.value_count);
      const Status status =
          decode_values(encoding, values.size(), update.values.bytes, update.values.size, values.data());
      GS_ASSERT(status == Status::kOk);  // the client has encoded them
    }
    return values;
  });
}

void set_upload_values(std::span<const Real> values, DeviceMessage* message) {
  on_upload(*message, [&](auto& update) {
    GS_ASSERT(update.value_count == values.size() &&
              update.values.size == encoded_size(encoding_of(update), values.size()));
    const Status status = encode_values(encoding_of(update), values.size(), values.data(), update.values.bytes);
    GS_ASSERT(status == Status::kOk);
    update.crc32c = crc32c(0, update.values.bytes, update.values.size);
  });
}

// Answers of stages have one piece here: at most 91 whole numbers or 32 floats.
void tell_stage_lies(DeviceMessage* message) {
  on_upload(*message, [](auto& update) {
    update.line.slope = stage_lie(update.line.slope);
    update.line.curvature = stage_lie(update.line.curvature);
  });
  if (message->which_body != gs_DeviceMessage_update_tangent_tag) {
    return;
  }
  gs_UpdateTangent& update = message->body.update_tangent;
  if (update.encoding == gs_Encoding_ENCODING_WORDS) {
    change_values<int64_t>(update, [](uint32_t i, int64_t word) {
      return i > 0 && word >= kExponentMin && word <= kExponentMax ? kStageExponent : word;
    });
  } else if (update.value_count == kTrialCount && update.loss_before == 0) {
    change_values<float>(update, [](uint32_t, float change) { return stage_lie(change); });
  }
}

// ---- The liar of the simulator ----

void Liar::tell(DeviceMessage* message) {
  if (message->which_body == gs_DeviceMessage_hello_tag && may(Lie::kSamples)) {
    message->body.hello.sample_count = kLieSamples;
    count(Lie::kSamples);
  }
  on_upload(*message, [&](auto& update) {
    tell_values(update.base_version, message);
    if (may(Lie::kLoss)) {
      update.loss_before *= 1e3F;
      update.loss_after = -1 - update.loss_before * update.loss_before;
      count(Lie::kLoss);
    }
  });
}

void Liar::tell_values(uint32_t version, DeviceMessage* message) {
  std::vector<Lie> known;
  for (const Lie lie : {Lie::kSize, Lie::kNoise, Lie::kSign}) {
    if (may(lie)) {
      known.push_back(lie);
    }
  }
  std::vector<Real> values = upload_values(*message);
  if (known.empty() || values.empty()) {
    return;
  }
  RandomKey key;
  key.seed = seed_;
  key.version = version;
  key.owner = 0x11a5;  // apart from the samples, which are drawn from the same domain
  RandomStream stream(key);
  const Lie lie = known[(seed_ + version) % known.size()];
  for (Real& value : values) {
    const Real noise = kLieMax * (2 * static_cast<Real>(stream.next_uniform()) - 1);
    const Real said = lie == Lie::kSize ? 1000 * value : lie == Lie::kNoise ? noise : -value;
    value = std::clamp(said, -kLieMax, kLieMax);
  }
  set_upload_values(values, message);
  count(lie);
}

}  // namespace gradstream
