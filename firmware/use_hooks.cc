// What the files that use a model add to gs_init() and gs_poll().
#include "firmware/application.h"
#include "firmware/device_parts.h"

namespace gradstream {
namespace {

ModelWatch own_watch;

// Whether a version came since the last call. Each that comes is counted once.
bool has_news(const Client& client) {
  ModelWatch& watch = at_work(own_watch);
  const uint32_t taken = client.counters().records_applied + client.counters().snapshots;
  const bool is_held = client.replica().has_model();
  const bool is_new = is_held && (!watch.is_held || taken != watch.taken);
  watch = {is_held, taken};
  return is_new;
}

}  // namespace

extern const char kUseHooks = 0;

// ---- Where an image lacks one of the files ----

[[gnu::weak]] bool take_queue(const gs_config&) { return true; }
[[gnu::weak]] void move_queue() {}
[[gnu::weak]] void tell_model() {}
[[gnu::weak]] bool take_quantile(const gs_config&) { return true; }
[[gnu::weak]] void renew_threshold() {}
[[gnu::weak]] bool tend_threshold() { return false; }

bool take_use(const gs_config& config) { return take_queue(config) && take_quantile(config); }

uint64_t after_poll(uint64_t wake_ms) {
  move_queue();
  if (has_news(app().device->client())) {
    renew_threshold();
    tell_model();
  }
  return tend_threshold() ? GS_PENDING : wake_ms;
}

}  // namespace gradstream
