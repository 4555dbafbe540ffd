#include "runtime/base/no_contraction.h"

#include "server/rules/kept_update.h"

#include "server/base/state_archive.h"
#include "server/run/weights.h"

namespace gradstream {
namespace {

// Of the bytes. Another one is of a release that this one does not read.
constexpr uint8_t kKeptForm = 1;

void exchange_kept(StateArchive& io, uint8_t* form, KeptUpdate* update) {
  io.values(*form, update->device, update->base_version, update->owner, update->steps_done, update->weight,
            update->samples, update->clip_scale);
  io.numbers(update->shares);
}

}  // namespace

std::vector<uint8_t> encode_kept(const KeptUpdate& update) {
  StateArchive io;
  uint8_t form = kKeptForm;
  KeptUpdate copy = update;  // an archive reads and writes
  exchange_kept(io, &form, &copy);
  return io.take_bytes();
}

Status decode_kept(std::span<const uint8_t> bytes, KeptUpdate* update) {
  StateArchive io(bytes);
  uint8_t form = 0;
  exchange_kept(io, &form, update);
  const bool is_possible = form == kKeptForm && update->steps_done > 0 && update->weight > 0 &&
                           update->weight <= kStalenessOne && update->samples > 0 &&
                           update->clip_scale <= kClipScaleOne && !update->shares.empty();
  return io.is_sound() && io.is_at_end() && is_possible ? Status::kOk : Status::kDataCorrupt;
}

}  // namespace gradstream
