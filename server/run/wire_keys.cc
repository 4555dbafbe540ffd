#include "server/run/wire_keys.h"

#include "server/run/run_core.h"
#include "server/run/run_parameters.h"

namespace gradstream {
namespace {

bool is_wire_encoding(Encoding encoding) {
  return encoding == kRealEncoding || encoding == Encoding::kBf16 || encoding == Encoding::kInt8;
}

Objection check_scalar_stream(const RunParameters& p) {
  if (p.local->directions == DirectionKind::kSphere) {
    return "directions: sphere is not reproducible between machines (it uses the C library's ln and cos), so that "
           "records of scalars cannot be replayed; use sign";
  }
  if (p.local->directions != DirectionKind::kSign) {
    return "directions: use sign";
  }
  if (p.local->local_step_count * p.local->direction_count > kScalarCountMax) {
    return "local_step_count, direction_count: their product is the scalars of an update, at most " +
           std::to_string(kScalarCountMax) + "; use fewer of either, or upload_stream tangent";
  }
  if (!is_wire_encoding(p.wire->record_encoding)) {
    return "record_encoding: f32, bf16 or int8";
  }
  return {};
}

Objection check_error_feedback(const RunParameters& p) {
  if (!p.wire->error_feedback) {
    return {};
  }
  if (p.stream() != StreamKind::kTangentBlock ||
      (p.wire->upload_encoding != Encoding::kInt8 && p.wire->upload_encoding != Encoding::kBf16)) {
    return "error_feedback, upload_encoding: what is fed back is the error of tangents in int8 or bf16; scalars and "
           "f32 leave nothing out that another upload could make good; set it to false";
  }
  if (p.local->solver == SolverId::kSvrg) {
    return "error_feedback, solver: the uploads of svrg are gradients and steps in turn, and one cannot make good what "
           "the other left out; set it to false";
  }
  if (p.has_memory()) {
    return "error_feedback, correction_form: the memory holds an upload until the next one replaces it: nothing adds "
           "up; set it to false";
  }
  return {};
}

}  // namespace

Objection check_uploads(const RunParameters& p) {
  if (!is_wire_encoding(p.wire->upload_encoding)) {
    return "upload_encoding: f32, bf16 or int8";
  }
  if (Objection objection = check_error_feedback(p)) {
    return objection;
  }
  return p.stream() == StreamKind::kScalarStream ? check_scalar_stream(p) : "";
}

}  // namespace gradstream
