#include "server/coordinator/device_session.h"

#include "runtime/base/crc32c.h"

namespace gradstream {
namespace {

std::string problems_of(const gs_Capabilities& capabilities) {
  std::string names;
  for (pb_size_t i = 0; i < capabilities.problems_count; ++i) {
    names += (names.empty() ? "" : ",") + std::string(capabilities.problems[i]);
  }
  return names;
}

}  // namespace

uint32_t image_crc32c(const gs_Hello& hello) {
  const gs_Capabilities& has = hello.capabilities;
  std::string text = std::string(hello.firmware_version) + "\n" + hello.board;
  for (const uint32_t word :
       {has.manifolds, has.solvers, has.estimators, has.encodings, has.arena_size, has.features}) {
    text += "\n" + std::to_string(word);
  }
  for (pb_size_t i = 0; i < has.problems_count; ++i) {
    text += std::string("\n") + has.problems[i];
  }
  text += hello.network_digest == 0 ? "" : "\n" + std::to_string(hello.network_digest);
  return crc32c(0, reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

HelloNews take_hello(const gs_Hello& hello, const std::string& lacks, DeviceSession* session) {
  DeviceImage& image = session->image;
  const uint32_t crc = image_crc32c(hello);
  const HelloNews news = {session->is_heard && crc != image.crc32c, session->is_capable,
                          !session->is_heard || lacks != image.lacks};
  session->is_heard = true;
  session->is_capable = lacks.empty() && !session->refusals.is_for_good;
  session->sample_count = hello.sample_count;
  session->version_held = hello.has_model ? hello.version : 0;
  image.crc32c = crc;
  image.lacks = lacks;
  image.problems = problems_of(hello.capabilities);
  image.firmware_version = hello.firmware_version;
  image.board = hello.board;
  image.arena_size = hello.capabilities.arena_size;
  image.features = hello.capabilities.features;
  image.reset_cause = hello.reset_cause;
  image.can_evaluate = has_feature(image, gs_Feature_FEATURE_EVALUATION);
  return news;
}

void forgive_refusals(DeviceSession* session) {
  DeviceRefusals& refusals = session->refusals;
  refusals.is_for_good = refusals.keeps_sums = refusals.keeps_trials = false;
  refusals.for_good = gs_Reason_REASON_NONE;
  refusals.is_forgiven = true;
  session->is_capable = session->image.lacks.empty();
}

void note_answer(DeviceSession* session) {
  DeviceRefusals& refusals = session->refusals;
  refusals.is_for_good = refusals.keeps_sums = refusals.keeps_trials = false;
  session->is_capable = session->image.lacks.empty();
}

}  // namespace gradstream
