#include "firmware/application_board.h"

#include "boards/board.h"
#include "firmware/float_shard.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

FloatShard board_floats;

int read_board_sample(const void*, uint32_t index, float* out) {
  read_float_shard(board_floats, index, out);
  return 0;
}

}  // namespace
}  // namespace gradstream

using namespace gradstream;

void gs_board_start(gs_config* config) {
  board_start();
  config->size = sizeof *config;
  config->firmware_version = GS_VERSION;
  config->board = GS_BOARD_NAME;
  config->identity_text = board_identity_text().data();
  config->identity_size = board_identity_text().size();
#if defined(GS_PSK_KE_ONLY)
  config->key_exchange = GS_PSK_KE;
#endif
  config->arena = board_arena().data();
  config->arena_size = board_arena().size();
  config->tls_pool = board_tls_pool().data();
  config->tls_pool_size = board_tls_pool().size();
  config->has_storage = board_has_storage();
  config->reset_cause = static_cast<uint32_t>(board_reset_cause());
}

uint64_t gs_board_now_ms(void) { return port_now_ms(); }

void gs_board_sleep_until_ms(uint64_t when_ms) { port_sleep_until_ms(when_ms); }

void gs_board_feed_watchdog(void) { board_feed_watchdog(); }

void gs_board_log(const char* line) { port_log_line(line); }

bool gs_board_samples(gs_sample_source* out) {
  if (parse_float_shard(board_shard(), &board_floats) != Status::kOk) {
    return false;
  }
  *out = {nullptr, board_floats.count, board_floats.dimension, read_board_sample};
  return true;
}

uint32_t gs_board_stack_high_water(void) { return static_cast<uint32_t>(board_stack_high_water_size()); }

void gs_board_stop(int status) { board_stop(status); }
